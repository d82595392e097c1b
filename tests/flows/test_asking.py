"""What a language model does for a question besides answering it: follow-ups, parts, another model, the prompt's hook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.errors import ConfigError, UpstreamError, UpstreamUnavailable
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.asking import asking_with
from easy_knowledge_retriever.operations.base import PromptHook
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.prompts.template import PromptTemplate
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retrieval.pipeline import Retrieving, Services
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.streaming import Done
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService, FakeRerankerService
from easy_knowledge_retriever.testing.replies import Chat, assistant
from easy_knowledge_retriever.testing.server import CHAT, Fault, OpenAITestServer
from easy_knowledge_retriever.types import Passage
from tests.flows.querying_base import Page, retrieving, small_base, words

QUESTION = "Who first climbed Mount Kell?"
TWO = "Who first climbed Mount Kell and what is bread baked from?"
HISTORY = (
    {"role": "user", "content": "Who was Ida Brandt?"},
    {"role": "assistant", "content": "A botanist [1]."},
)
FOLLOW_UP = "Where was she born?"


def reply(messages: Sequence[Message]) -> str:
    """What the assistant of the test server says."""
    turns = tuple({"role": message.role, "content": message.content} for message in messages)
    return assistant(Chat("fake", turns, {}))


def model(**keywords: Any) -> FakeLLMService:
    return FakeLLMService(reply, **keywords)


async def asking(
    llm: LLMService,
    reranker: FakeRerankerService | None = None,
    on_prompt: PromptHook | None = None,
    pages: Sequence[Page] | None = None,
) -> Retrieving:
    kb = await (small_base() if pages is None else small_base(pages))
    stack = llm_stack(llm, cache=kb.llm_cache)
    asks = asking_with(lambda purpose: stack, on_prompt=on_prompt)
    services = Services(FakeEmbeddingService(), asks.keywords, asks.answerer, words, reranker, asks.rewriter, asks.splitter)
    return Retrieving(kb, Settings(cosine_better_than_threshold=-1.0), services)


def found(result: QueryResult) -> list[str]:
    return [str(chunk["chunk_id"]) for chunk in result.chunks]


# Follow-ups


@pytest.mark.parametrize("mode", [mode for mode in STRATEGIES if mode != "bypass"])
async def test_a_follow_up_is_searched_with_as_a_question_of_its_own(mode: str) -> None:
    llm = model()
    flow = await asking(llm)
    result = await flow.query(FOLLOW_UP, QueryParam(mode=mode, conversation_history=HISTORY, chunk_top_k=2))
    rewritten = "Where was she born (Ida Brandt)?"
    assert result.metadata["rewritten"] == result.trace["rewritten"] == rewritten
    assert "brandt.md#0" in found(result)
    assert (result.query, result.degraded) == (FOLLOW_UP, ())
    assert set(result.timings) >= {"rewrite", "answer"}
    answering = llm.requests[-1]
    assert [message.role for message in answering] == ["system", "user", "assistant", "user"]
    assert [message.content for message in answering[1:3]] == [turn["content"] for turn in HISTORY]
    assert f"Question: {FOLLOW_UP}" in answering[-1].content
    assert rewritten not in answering[-1].content
    assert result.usage.llm_calls == llm.calls
    again = await flow.query(FOLLOW_UP, QueryParam(mode=mode, conversation_history=HISTORY, chunk_top_k=2))
    assert (again.usage.llm_calls, again.usage.cached_calls, again.content) == (0, llm.calls, result.content)


async def test_a_first_question_costs_no_rewriting() -> None:
    llm = model()
    result = await (await asking(llm)).query(QUESTION, QueryParam(mode="naive"))
    assert llm.calls == 1
    assert (result.metadata["rewritten"], result.metadata["parts"]) == ("", [])


async def test_the_last_turns_are_those_that_count() -> None:
    llm = model()
    older = ({"role": "user", "content": "Tell me of Bread."}, {"role": "assistant", "content": "It is baked."})
    param = QueryParam(mode="naive", conversation_history=(*older, *HISTORY), history_turns=1)
    await (await asking(llm)).query(FOLLOW_UP, param)
    assert all("Bread" not in message.content for message in llm.requests[0][1:])
    assert [message.content for message in llm.requests[1]][1:3] == [turn["content"] for turn in HISTORY]


async def test_where_the_model_fails_the_names_of_the_last_question_stand_in() -> None:
    llm = FakeLLMService(lambda messages: "nonsense" if "<conversation" in messages[-1].content else reply(messages))
    param = QueryParam(mode="naive", conversation_history=HISTORY)
    result = await (await asking(llm)).query(FOLLOW_UP, param)
    assert result.degraded == ("rewrite_failed",)
    assert result.metadata["rewritten"] == "Ida Brandt: Where was she born?"
    assert found(result)[0] == "brandt.md#0"


async def test_without_a_model_a_follow_up_is_answered_as_what_it_means() -> None:
    param = QueryParam(mode="naive", conversation_history=HISTORY)
    result = await retrieving(await small_base()).query("And where was she born?", param)
    assert result.citations[0].quote == "Ida Brandt was a botanist born in Lund."


async def test_a_follow_up_that_means_nothing_known_still_finds_passages() -> None:
    history = ({"role": "user", "content": "Who was Xerxes Quong?"}, {"role": "assistant", "content": "Nobody knows."})
    for mode in ("local", "bm25", "naive", "graph_walk"):
        result = await (await asking(model())).query("And his river?", QueryParam(mode=mode, conversation_history=history))
        assert found(result), mode


async def test_bypass_sends_the_history_and_rewrites_nothing() -> None:
    llm = model()
    result = await (await asking(llm)).query(FOLLOW_UP, QueryParam(mode="bypass", conversation_history=HISTORY))
    assert llm.calls == 1
    assert [message.content for message in llm.requests[0][1:]] == [*(turn["content"] for turn in HISTORY), FOLLOW_UP]
    assert result.grounded is False


@pytest.mark.parametrize(
    "turn", [{"role": "user"}, {"content": "x"}, {"role": "user", "content": None}, {"role": 1, "content": "x"}]
)
async def test_a_turn_that_is_none_is_refused(turn: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError, match="role and a content"):
        await (await asking(model())).query(QUESTION, QueryParam(conversation_history=[turn]))


# Parts


async def test_parts_are_asked_for_and_searched_at_once_under_one_numbering() -> None:
    llm = model(delay=0.02)
    result = await (await asking(llm)).query(TWO, QueryParam(mode="mix", query_decomposition=True, chunk_top_k=4))
    assert result.metadata["parts"] == ["Who first climbed Mount Kell", "what is bread baked from?"]
    assert llm.calls == 4
    assert llm.peak == 2
    assert set(found(result)[:2]) == {"kell.md#0", "bread.md#0"}
    assert [chunk["reference_id"] for chunk in result.chunks] == ["1", "2", "3", "4"]
    assert result.usage.llm_calls == 4


class Partial(FakeRerankerService):
    """Knows of mountains only."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        await super().scores(query, texts)
        return [1.0 if "Kell" in text or "Verdel" in text else 0.0 for text in texts]


@pytest.mark.parametrize("top", [2, 3, 4])
async def test_each_part_has_its_share_whatever_the_reranker_likes(top: int) -> None:
    reranker = Partial()
    flow = await asking(model(), reranker)
    result = await flow.query(TWO, QueryParam(mode="bm25", query_decomposition=True, chunk_top_k=top))
    assert set(found(result)[:2]) == {"kell.md#0", "bread.md#0"}
    assert len(reranker.requests) == 1
    assert reranker.requests[0][0] == TWO


async def test_the_budget_of_tokens_is_shared_too() -> None:
    flow = await asking(model())
    wide = await flow.query(TWO, QueryParam(mode="bm25", query_decomposition=True, only_need_context=True))
    tight = QueryParam(
        mode="bm25",
        query_decomposition=True,
        only_need_context=True,
        max_total_tokens=int(wide.raw_data["metadata"]["counts"]["tokens"] * 0.6),
    )
    result = await flow.query(TWO, tight)
    assert len(result.chunks) < len(wide.chunks)
    assert set(found(result)[:2]) == {"kell.md#0", "bread.md#0"}


async def test_a_question_that_cannot_be_split_is_asked_whole() -> None:
    llm = FakeLLMService(lambda messages: "?" if "<whole" in messages[-1].content else reply(messages))
    result = await (await asking(llm)).query(QUESTION, QueryParam(mode="naive", query_decomposition=True))
    assert result.degraded == ("decomposition_failed",)
    assert result.metadata["parts"] == []


# Another model


def echo(prompt: str) -> str:
    return "From the function [1]."


async def test_a_function_may_answer_where_there_is_no_model() -> None:
    flow = retrieving(await small_base())
    result = await flow.query(QUESTION, QueryParam(mode="naive", model_func=echo))
    assert result.content == "From the function [1]."
    assert result.usage.llm_calls == 1
    streamed = await flow.query(QUESTION, QueryParam(mode="naive", model_func=echo, stream=True))
    assert (await streamed.final()).content == result.content
    assert (await flow.query(QUESTION, QueryParam(mode="bypass", model_func=echo))).content == result.content


async def test_another_model_does_all_of_it() -> None:
    mine, other = model(), model()
    param = QueryParam(mode="local", model_func=other, conversation_history=HISTORY, query_decomposition=True)
    result = await (await asking(mine)).query(FOLLOW_UP, param)
    assert (mine.calls, other.calls) == (0, 4)
    assert result.usage.llm_calls == 4


async def test_another_model_is_limited_and_tried_again_once_only() -> None:
    async with OpenAITestServer(delay=0.02) as server:
        service = OpenAILLMService("other", server.base_url, "key", max_async=1)
        flow = retrieving(await small_base())
        server.fail(CHAT, {1: Fault(503, {"retry-after": "0"})})
        param = QueryParam(mode="naive", model_func=service)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(flow.query(f"{QUESTION} {n}", param)) for n in range(3)]
        assert all(task.result().status == "success" for task in tasks)
        assert server.peak[CHAT] == 1
        assert server.count(CHAT) == 4
        server.fail(CHAT, lambda number, body: Fault(503, {"retry-after": "0"}))
        tries = []
        for given in (service, llm_stack(service)):
            before = server.count(CHAT)
            with pytest.raises(UpstreamUnavailable):
                await flow.query(QUESTION, QueryParam(mode="naive", model_func=given))
            tries.append(server.count(CHAT) - before)
        assert tries[0] == tries[1]
        await service.aclose()


@pytest.mark.parametrize("given", ["gpt", 7, object()])
async def test_what_is_no_model_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="no language model"):
        await retrieving(await small_base()).query(QUESTION, QueryParam(model_func=given))


async def test_two_functions_never_answer_for_each_other(tmp_path: Path) -> None:
    async with EasyKnowledgeRetriever(tmp_path, embedding_service=FakeEmbeddingService()) as rag:
        await rag.ainsert("Mount Kell was first climbed by Ida Brandt.", file_paths="kell.md")
        said = [
            (await rag.aquery(QUESTION, QueryParam(mode="naive", model_func=lambda prompt, n=n: f"Number {n} [1]."))).content
            for n in range(2)
        ]
    assert said == ["Number 0 [1].", "Number 1 [1]."]


# Wishes of the caller

BRACES = "Use {braces}, {0.__class__} and {{context}}."


@pytest.mark.parametrize("mode", STRATEGIES)
@pytest.mark.parametrize("system", [None, "Be a {pirate}."])
async def test_wishes_reach_the_model_in_every_mode(mode: str, system: str | None) -> None:
    llm = model()
    flow = await asking(llm)
    param = QueryParam(mode=mode, response_type="One {line}", user_prompt=BRACES)
    only = await flow.query(QUESTION, replace(param, only_need_prompt=True), system_prompt=system)
    result = await flow.query(QUESTION, param, system_prompt=system)
    sent = llm.requests[-1]
    assert sent[0].role == "system"
    assert "One {line}" in sent[0].content
    assert BRACES in sent[0].content
    assert sent[0].content.startswith("Be a {pirate}." if system else "You answer questions")
    assert only.content == "\n\n".join(message.content for message in sent)
    assert (result.system_prompt, result.user_prompt) == (sent[0].content, sent[-1].content)
    assert (await flow.query(QUESTION, replace(param, only_need_context=True))).content == result.context


async def test_instructions_of_the_caller_are_not_added_to() -> None:
    llm = model()
    await (await asking(llm)).query(QUESTION, QueryParam(mode="naive"), system_prompt="Be brief.")
    assert llm.requests[-1][0].content == "Be brief."


# The hook


async def test_the_hook_sees_each_prompt_with_its_passages_before_it_is_sent() -> None:
    seen: list[tuple[Sequence[Message], Sequence[Passage], int]] = []
    llm = model()
    flow = await asking(llm, on_prompt=lambda messages, passages: seen.append((messages, passages, llm.calls)))
    result = await flow.query(QUESTION, QueryParam(mode="naive"))
    streamed = await flow.query(f"{QUESTION} Say it.", QueryParam(mode="naive", stream=True))
    await streamed.final()
    await flow.query(QUESTION, QueryParam(mode="bypass"))
    await flow.query(QUESTION, QueryParam(mode="naive", only_need_prompt=True))
    assert [messages for messages, _, _ in seen] == llm.requests
    assert [[passage.chunk.id for passage in passages] for _, passages, _ in seen] == [found(result), found(streamed), []]
    assert [calls for _, _, calls in seen] == [0, 1, 2]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_hook_raises_stops_the_call(stream: bool) -> None:
    class Refused(Exception):
        pass

    def refuse(messages: Sequence[Message], passages: Sequence[Passage]) -> None:
        raise Refused

    llm = model()
    flow = await asking(llm, on_prompt=refuse)
    with pytest.raises(Refused):
        await (await flow.query(QUESTION, QueryParam(mode="naive", stream=stream, raise_on_error=False))).final()
    assert llm.calls == 0


async def test_where_no_prompt_is_sent_the_hook_is_not_called() -> None:
    seen: list[object] = []
    flow = await asking(model(), on_prompt=lambda *prompt: seen.append(prompt), pages=())
    assert (await flow.query(QUESTION, QueryParam(mode="naive"))).refused
    assert seen == []


# The retriever


async def test_a_retriever_takes_prompts_and_a_hook(tmp_path: Path) -> None:
    seen: list[Sequence[Message]] = []
    llm = model()
    prompts = PromptSet(
        extraction_system=PromptTemplate("EXTRACT {language}", PromptSet().extraction_system.fields),
        keywords_system=PromptTemplate("KEYWORDS"),
        rewriting_system=PromptTemplate("REWRITE"),
        decomposition_system=PromptTemplate("SPLIT"),
        answer_system=PromptTemplate("ANSWER {response_type}{user_prompt}", ("response_type", "user_prompt")),
    )
    retriever = EasyKnowledgeRetriever(
        tmp_path,
        embedding_service=FakeEmbeddingService(),
        llm_service=llm,
        prompts=prompts,
        on_prompt=lambda messages, passages: seen.append(messages),
    )
    async with retriever as rag:
        await rag.ainsert("Mount Kell was first climbed by Ida Brandt.", file_paths="kell.md")
        param = QueryParam(mode="mix", conversation_history=HISTORY, query_decomposition=True)
        await rag.aquery(QUESTION, param)
        other = model()
        await rag.aquery(f"{QUESTION} Where?", replace(param, model_func=other))
    told = {request[0].content.split()[0] for request in llm.requests}
    assert told == {"EXTRACT", "KEYWORDS", "REWRITE", "SPLIT", "ANSWER"}
    assert {request[0].content.split()[0] for request in other.requests} == told - {"EXTRACT"}
    assert [messages[0].content.split()[0] for messages in seen] == ["ANSWER", "ANSWER"]


# Failing and cancelling at each step

EVERYTHING = QueryParam(mode="mix", conversation_history=HISTORY, query_decomposition=True)
CALLS = 5
"""One to rewrite, one to split, two for keywords, one to answer."""


def run(flow: Retrieving, streamed: bool) -> Callable[[QueryParam], Any]:
    async def whole(param: QueryParam) -> QueryResult:
        return await flow.query(TWO, param)

    async def pieces(param: QueryParam) -> QueryResult:
        result = QueryResult()
        async for event in flow.stream(TWO, param):
            if isinstance(event, Done):
                result = event.result
        return result

    return pieces if streamed else whole


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("step", range(1, CALLS + 1))
async def test_a_model_that_fails_at_a_step(step: int, streamed: bool) -> None:
    llm = model(faults={step: UpstreamError("down")})
    result = await run(await asking(llm), streamed)(replace(EVERYTHING, raise_on_error=False))
    if step <= 2:
        assert (result.status, result.degraded) == ("success", (["rewrite_failed", "decomposition_failed"][step - 1],))
    else:
        assert (result.status, result.message, result.metadata["error"]) == ("failure", "down", "upstream")
        again = model(faults={step: UpstreamError("down")})
        with pytest.raises(UpstreamError):
            await run(await asking(again), streamed)(EVERYTHING)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("step", range(1, CALLS + 1))
async def test_cancelling_at_a_step_is_a_cancellation_and_leaves_nothing(step: int, streamed: bool) -> None:
    llm = model(faults={step: 30.0})
    flow = await asking(llm)
    before = asyncio.all_tasks()
    task = asyncio.get_running_loop().create_task(run(flow, streamed)(EVERYTHING))
    while llm.calls < step:  # noqa: ASYNC110  # the fake has no event
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before
    assert (await run(flow, streamed)(EVERYTHING)).status == "success"
