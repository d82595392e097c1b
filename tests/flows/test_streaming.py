"""Streamed answers: events in order, the same result as a whole answer, and nothing left behind by who leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from easy_knowledge_retriever.errors import ConfigError, EKRError, RateLimited, UpstreamError, UpstreamUnavailable
from easy_knowledge_retriever.events import QueryFinished
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.answering_llm import LLMAnswerer
from easy_knowledge_retriever.operations.keywords import LocalKeywords
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retrieval.pipeline import Retrieving, Services
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.streaming import (
    AnswerStream,
    CitationChecked,
    Done,
    Reranked,
    Retrieved,
    StreamEvent,
    StreamWarning,
    Token,
)
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeRerankerService, RecordingObserver
from easy_knowledge_retriever.testing.replies import ChatReply
from easy_knowledge_retriever.testing.server import CHAT, Fault, OpenAITestServer
from tests.flows.querying_base import retrieving, small_base, words

QUESTION = "Who first climbed Mount Kell?"
NAIVE = QueryParam(mode="naive")
ANSWER = "Mount Kell was first climbed by Ida Brandt in 1902 [1]."


@dataclass
class Streamed:
    """A base whose answers are written behind a server."""

    server: OpenAITestServer
    llm: OpenAILLMService
    kb: KnowledgeBase
    flow: Retrieving
    observer: RecordingObserver

    def stream(self, param: QueryParam = NAIVE, question: str = QUESTION) -> AnswerStream:
        return AnswerStream(self.flow.stream(question, param))

    async def idle(self) -> None:
        """Until the server saw that its client is gone."""
        for _ in range(200):
            if self.server.left[CHAT]:
                break
            await asyncio.sleep(0.01)
        assert self.server.left[CHAT] == 1
        assert self.llm.limiter.in_flight == 0


@pytest.fixture
async def streamed() -> AsyncIterator[Streamed]:
    async with OpenAITestServer() as server:
        kb, observer = await small_base(), RecordingObserver()
        llm = OpenAILLMService("chat", server.base_url, "key", max_async=1, timeout=10)
        services = Services(FakeEmbeddingService(), LocalKeywords(), LLMAnswerer(llm_stack(llm)), words)
        flow = Retrieving(kb, Settings(cosine_better_than_threshold=-1.0), services, observer)
        server.chat = lambda chat: ANSWER
        before = asyncio.all_tasks()
        yield Streamed(server, llm, kb, flow, observer)
        await llm.aclose()
        await kb.close()
        for _ in range(200):  # the openai package leaves a generator of its own to the collector
            if not left(before):
                break
            await asyncio.sleep(0.01)
        assert left(before) == []


def left(before: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Tasks that were not there before, but those of the server."""
    here = asyncio.current_task()
    return [task for task in asyncio.all_tasks() - before if task is not here and "_serve" not in repr(task)]


async def events_of(stream: AnswerStream) -> list[StreamEvent]:
    return [event async for event in stream]


def tokens(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def same(one: QueryResult, other: QueryResult) -> bool:
    """Whether two results agree in all but the time they took."""
    return replace(one, timings={}) == replace(other, timings={})


async def test_sources_come_first_then_the_text_then_its_check(streamed: Streamed) -> None:
    events = await events_of(streamed.stream())
    kinds = [event.kind for event in events]
    assert kinds[0] == "retrieved"
    assert kinds[1:-2] == ["token"] * (len(kinds) - 3)
    assert kinds[-2:] == ["citation", "done"]
    assert isinstance(events[0], Retrieved)
    assert events[0].chunks[0]["chunk_id"] == "kell.md#0"
    assert tokens(events) == ANSWER
    assert isinstance(events[-2], CitationChecked)
    assert (events[-2].citation.file_path, events[-2].citation.page, events[-2].citation.supported) == ("kell.md", 1, True)


@pytest.mark.parametrize("mode", STRATEGIES)
@pytest.mark.parametrize("references", [False, True])
async def test_the_result_is_that_of_a_whole_answer(streamed: Streamed, mode: str, references: bool) -> None:
    param = QueryParam(mode=mode, include_references=references)
    whole = await streamed.flow.query(QUESTION, param)
    events = await events_of(streamed.stream(param))
    assert isinstance(events[-1], Done)
    assert same(events[-1].result, whole)
    assert whole.usage.llm_calls == 1
    assert whole.usage.completion_tokens == 11
    assert tokens(events) == whole.content
    assert set(events[-1].result.timings) == {*whole.timings, "first_token"}
    assert len(streamed.observer.of(QueryFinished)) == 2


@pytest.mark.parametrize("mode", ["naive", "bypass"])
async def test_a_streamed_query_gives_pieces_and_in_the_end_the_same_result(streamed: Streamed, mode: str) -> None:
    whole = await streamed.flow.query(QUESTION, QueryParam(mode=mode))
    result = await streamed.flow.query(QUESTION, QueryParam(mode=mode, stream=True))
    assert result.is_streaming
    assert result.response_iterator is not None
    assert result.chunks == whole.chunks
    assert "".join([piece async for piece in result.response_iterator]) == whole.content
    assert same(await result.final(), whole)
    assert await whole.final() is whole
    unread = await streamed.flow.query(QUESTION, QueryParam(mode=mode, stream=True))
    assert same(await unread.final(), whole)


async def test_without_a_model_the_same_holds() -> None:
    flow = retrieving(await small_base())
    whole = await flow.query(QUESTION, NAIVE)
    events = await events_of(AnswerStream(flow.stream(QUESTION, NAIVE)))
    assert isinstance(events[-1], Done)
    assert same(events[-1].result, whole)
    assert tokens(events) == whole.content


async def test_what_the_check_takes_out_is_said(streamed: Streamed) -> None:
    streamed.server.chat = lambda chat: "Ida Brandt climbed it in 1902 [1]. The moon is cheese [99]."
    events = await events_of(streamed.stream())
    result = events[-1].result if isinstance(events[-1], Done) else QueryResult()
    assert "[99]" not in result.content
    codes = [event.code for event in events if isinstance(event, StreamWarning)]
    assert codes == ["answer", "answer"]
    assert tokens(events) == result.content


async def test_a_text_that_its_check_changes_is_said_to_be_another(streamed: Streamed) -> None:
    streamed.server.chat = lambda chat: "Ida Brandt climbed it in 1902 [1, p. 77].\n\nSources:\n[1] kell.md, p. 77"
    events = await events_of(streamed.stream())
    result = events[-1].result if isinstance(events[-1], Done) else QueryResult()
    assert result.content == "Ida Brandt climbed it in 1902 [1, p. 1]."
    assert [event.code for event in events if isinstance(event, StreamWarning)][-1] == "text_changed"


@pytest.mark.parametrize("text", ["The given passages do not mention this [1].", "The documents do not cover this question"])
async def test_a_refusal_in_other_words_is_one(streamed: Streamed, text: str) -> None:
    streamed.server.chat = lambda chat: text
    events = await events_of(streamed.stream())
    whole = await streamed.flow.query(QUESTION, NAIVE)
    assert isinstance(events[-1], Done)
    assert same(events[-1].result, whole)
    assert (whole.refused, whole.citations, whole.references, whole.claims) == (True, (), (), ())
    assert "[1]" not in whole.content


async def test_the_order_of_a_reranker_and_what_fell_back_are_told() -> None:
    kb = await small_base()
    ordered = await events_of(AnswerStream(retrieving(kb, reranker=FakeRerankerService()).stream(QUESTION, NAIVE)))
    assert [event.kind for event in ordered[:2]] == ["retrieved", "reranked"]
    assert isinstance(ordered[1], Reranked)
    assert ordered[1].scores[0][0] == "kell.md#0"
    down = FakeRerankerService(faults={1: UpstreamError("down")})
    events = await events_of(AnswerStream(retrieving(kb, reranker=down).stream(QUESTION, NAIVE)))
    assert events[1] == StreamWarning("rerank_failed")


@pytest.mark.parametrize("param", [QueryParam(only_need_context=True), QueryParam(only_need_prompt=True)])
async def test_without_an_answer_there_are_sources_and_a_result(streamed: Streamed, param: QueryParam) -> None:
    events = await events_of(streamed.stream(param))
    assert [event.kind for event in events] == ["retrieved", "done"]
    assert isinstance(events[1], Done)
    assert same(events[1].result, await streamed.flow.query(QUESTION, replace(param, stream=True)))
    assert streamed.server.count(CHAT) == 0


async def test_a_base_that_holds_nothing_is_refused_without_the_model(streamed: Streamed) -> None:
    flow = replace(streamed.flow, kb=await small_base(()))
    events = await events_of(AnswerStream(flow.stream(QUESTION, NAIVE)))
    assert [event.kind for event in events] == ["retrieved", "token", "done"]
    assert isinstance(events[2], Done)
    assert events[2].result.refused
    assert streamed.server.count(CHAT) == 0


# Who leaves


def slowly(chat: object) -> ChatReply:
    return ChatReply(None, pieces=["word "] * 1000, pause=0.01)


async def test_leaving_the_block_hangs_up(streamed: Streamed) -> None:
    streamed.server.chat = slowly
    async with streamed.stream() as events:
        async for event in events:
            if isinstance(event, Token):
                break
        assert streamed.llm.limiter.in_flight == 1
    await streamed.idle()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_leaving_a_loop_over_a_stream_that_nobody_keeps_hangs_up(streamed: Streamed) -> None:
    streamed.server.chat = slowly
    async for event in streamed.stream():
        if isinstance(event, Token):
            break
    await streamed.idle()


async def test_closing_the_pieces_hangs_up(streamed: Streamed) -> None:
    streamed.server.chat = slowly
    result = await streamed.flow.query(QUESTION, QueryParam(mode="naive", stream=True))
    assert result.response_iterator is not None
    assert await anext(result.response_iterator) == "word"
    await result.response_iterator.aclose()
    await streamed.idle()
    with pytest.raises(ConfigError):
        await result.final()


async def test_cancelling_a_reader_hangs_up(streamed: Streamed) -> None:
    streamed.server.chat = slowly
    reading = asyncio.get_running_loop().create_task(events_of(streamed.stream()))
    while not streamed.server.count(CHAT):  # noqa: ASYNC110 - the server has nothing to wait for
        await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await streamed.idle()
    streamed.server.chat = lambda chat: ANSWER
    assert tokens(await events_of(streamed.stream())) == ANSWER


@pytest.mark.parametrize("step", range(12))
async def test_cancelling_anywhere_leaves_nothing(streamed: Streamed, step: int) -> None:
    """The reader is cancelled after so many turns of the loop."""
    streamed.server.chat = lambda chat: ChatReply(None, pieces=["word "] * 20, pause=0.002)
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(events_of(streamed.stream()))
        for _ in range(step * 8):
            await asyncio.sleep(0)
        reader.cancel()
    assert reader.cancelled()
    assert streamed.llm.limiter.in_flight == 0
    streamed.server.chat = lambda chat: ANSWER
    assert tokens(await events_of(streamed.stream())) == ANSWER


# What fails

HALF = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'
SSE = {"content-type": "text/event-stream"}
BROKEN = [
    (Fault(200, SSE, HALF + 'data: {"error":{"message":"overloaded"}}\n\n'), UpstreamUnavailable),
    (Fault(200, SSE, HALF + 'data: {"error":{"message":"slow down","type":"rate_limit"}}\n\n'), RateLimited),
    (Fault(200, SSE, HALF, reset=True), UpstreamUnavailable),
]


@pytest.mark.parametrize(("fault", "error"), BROKEN)
async def test_a_failure_in_the_middle_comes_after_the_partial_text(
    streamed: Streamed, fault: Fault, error: type[EKRError]
) -> None:
    streamed.server.fail(CHAT, {1: fault, 2: fault, 3: fault})
    seen: list[StreamEvent] = []
    with pytest.raises(error):
        async for event in streamed.stream():
            seen += [event]
    assert (seen[0].kind, tokens(seen)) == ("retrieved", "half")
    assert streamed.server.count(CHAT) == 1
    assert streamed.llm.limiter.in_flight == 0

    result = await streamed.flow.query(QUESTION, QueryParam(mode="naive", stream=True))
    assert result.response_iterator is not None
    with pytest.raises(error):
        assert [piece async for piece in result.response_iterator] == []
    with pytest.raises(error):
        await result.final()

    events = await events_of(streamed.stream(QueryParam(mode="naive", raise_on_error=False)))
    assert [event.kind for event in events[-3:]] == ["token", "warning", "done"]
    assert isinstance(events[-2], StreamWarning)
    assert isinstance(events[-1], Done)
    failed = events[-1].result
    assert (failed.status, failed.content, failed.metadata["error"]) == ("failure", "half", error.code)
    assert (events[-2].code, events[-2].message) == (error.code, failed.message)
    assert failed.chunks
    assert failed.citations == ()


async def test_a_failure_before_the_answer(streamed: Streamed) -> None:
    down = FakeEmbeddingService(faults={n: UpstreamError("down") for n in range(1, 5)})
    flow = retrieving(streamed.kb, embedder=down)
    with pytest.raises(UpstreamError):
        await events_of(AnswerStream(flow.stream(QUESTION, NAIVE)))
    with pytest.raises(UpstreamError):
        await flow.query(QUESTION, QueryParam(mode="naive", stream=True))
    kind = QueryParam(mode="naive", stream=True, raise_on_error=False)
    events = await events_of(AnswerStream(flow.stream(QUESTION, kind)))
    assert events[0] == StreamWarning("upstream", "down")
    assert isinstance(events[1], Done)
    assert (events[1].result.status, events[1].result.query) == ("failure", QUESTION)
    assert (await flow.query(QUESTION, kind)).status == "failure"


async def test_an_endpoint_that_refuses_is_a_failure_before_the_first_word(streamed: Streamed) -> None:
    streamed.server.fail(CHAT, lambda number, body: Fault(401))
    kind = QueryParam(mode="naive", stream=True, raise_on_error=False)
    result = await streamed.flow.query(QUESTION, kind)
    assert result.status == "success"
    final = await result.final()
    assert (final.status, final.content) == ("failure", "")
