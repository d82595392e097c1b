"""Extraction by a model within an ingest: beside the rest of it, never more at once than allowed, and never paid twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import (
    BadResponse,
    BudgetExceeded,
    ConfigError,
    IngestionError,
    NotFound,
    UpstreamAuth,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import Completion, InputType, LLMService, Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.meter import Till
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService
from easy_knowledge_retriever.testing.server import CHAT, OpenAITestServer
from easy_knowledge_retriever.types import FloatVectors
from tests.flows.ingesting_base import TEXTS, document, empty_base, ingestion

LONG = "\n\n".join(f"In part {number} Ida Brandt met Jon Lind near Mount Kell." for number in range(20))


def naming(messages: Sequence[Message]) -> str:
    """A reply that names each capitalised word of the passage."""
    words = messages[1].content.partition(">\n")[2].partition("\n</")[0].split()
    names = dict.fromkeys(word.strip(".,“”") for word in words if word[0].isupper())
    return "\n".join([*(f"E | {name} | Thing | {name} is here." for name in names), "END"])


def reading(kb: KnowledgeBase, model: LLMService, *, max_gleaning: int = 1, concurrency: int = 64) -> Ingestion:
    """An ingestion whose extraction asks this model."""
    return ingestion(kb, llm_extractor=LLMExtractor(model, max_gleaning=max_gleaning, concurrency=concurrency))


class Meeting:
    """Two that wait for each other: only who works side by side gets through."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.embedded = asyncio.Event()


class MeetingEmbedding(FakeEmbeddingService):
    """Its first vectors are ready when the language model has been asked."""

    def __init__(self, meeting: Meeting) -> None:
        super().__init__(16)
        self._meeting = meeting

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        self._meeting.embedded.set()
        await self._meeting.asked.wait()
        return await super().embed(texts, input_type)


class MeetingLLM(FakeLLMService):
    """It answers when the embedding model has been asked."""

    def __init__(self, meeting: Meeting) -> None:
        super().__init__(naming)
        self._meeting = meeting

    async def _answer(self, messages: Sequence[Message]) -> str:
        self._meeting.asked.set()
        await self._meeting.embedded.wait()
        return await super()._answer(messages)


async def test_a_model_reads_while_another_embeds() -> None:
    meeting, kb = Meeting(), await empty_base()
    flow = ingestion(kb, embedding=MeetingEmbedding(meeting), llm_extractor=LLMExtractor(MeetingLLM(meeting)))
    async with asyncio.timeout(10):
        report = await flow.ingest_document(document("verdel", TEXTS["verdel"]))
    assert {"embed", "extract", "extract_llm"} <= report.timings.keys()


@pytest.mark.parametrize("stage", ["embed", "extract_llm"])
async def test_of_two_that_run_side_by_side_the_one_that_failed_is_blamed(stage: str) -> None:
    down = {1: UpstreamUnavailable("down")}
    embedding = FakeEmbeddingService(16, faults=down if stage == "embed" else {}, delay=0.001)
    model = FakeLLMService(naming, faults=down if stage != "embed" else {}, delay=0.01)
    flow = ingestion(await empty_base(), embedding=embedding, llm_extractor=LLMExtractor(model))
    with pytest.raises(IngestionError) as caught:
        await flow.ingest_document(document("kell", TEXTS["kell"]))
    assert caught.value.stage == stage


async def test_ten_documents_at_once_share_one_ceiling() -> None:
    async with OpenAITestServer(delay=0.01) as server:
        kb = await empty_base()
        llm = OpenAILLMService("chat", server.base_url, "key", max_async=8, timeout=10)
        flow = ingestion(
            kb, settings=Settings(max_parallel_insert=10), llm_extractor=LLMExtractor(llm_stack(llm), max_gleaning=1)
        )
        async with task_group() as group:
            for number in range(10):
                text = "\n\n".join(f"Ida Brandt came to Marlow in {number}, {part}." for part in range(6))
                group.create_task(flow.ingest_document(document(f"d{number}", text)))
        await llm.aclose()
        assert server.peak[CHAT] == 8
        assert server.count(CHAT) == 10 * 6 * 2


async def test_a_ceiling_stops_the_ingest_and_nothing_is_paid_twice() -> None:
    """R-ING-9: whatever the ceiling, the calls of all attempts together are those of one."""
    kb, made = await empty_base(), document("long", LONG)
    whole = FakeLLMService(naming)
    await reading(kb, whole).ingest_document(made)
    expected = await canonical_dump(kb)

    kb, calls = await empty_base(), []
    for ceiling in (7, 11, 5, 100):
        model = FakeLLMService(naming, delay=0.001)
        flow = reading(kb, llm_stack(model, till=Till(Budget(max_llm_calls=ceiling))), concurrency=4)
        try:
            report = await flow.ingest_document(made)
        except IngestionError as error:
            assert isinstance(error.__cause__, BudgetExceeded)
            assert model.calls == ceiling
        calls.append(model.calls)
    assert sum(calls) == whole.calls == report.chunks * 2
    assert await canonical_dump(kb) == expected


async def test_cancelled_and_taken_up_again() -> None:
    kb, made = await empty_base(), document("long", LONG)
    enough = asyncio.Event()

    def reply(messages: Sequence[Message]) -> str:
        if first.calls > 6:
            enough.set()
        return naming(messages)

    first = FakeLLMService(reply, delay=0.002)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reading(kb, first, concurrency=4).ingest_document(made))
        await enough.wait()
        task.cancel()
    assert task.cancelled()
    second = FakeLLMService(naming)
    report = await reading(kb, second).ingest_document(made)
    assert first.calls + second.calls <= report.chunks * 2 + 4


async def test_finding_nothing_is_an_answer() -> None:
    """A chunk that was read and says nothing has an extraction, so that it is told from one that was not read."""
    kb = await empty_base()
    model = FakeLLMService(lambda messages: "END")
    report = await reading(kb, model, max_gleaning=0).ingest_document(document("verdel", TEXTS["verdel"]))
    rows = [extraction async for _, extraction in kb.extractions.scan() if extraction.source == "llm"]
    assert [row.entities for row in rows] == [(), ()]
    assert report.failed_chunks == ()
    assert "no_entities" in report.warnings

    twin = FakeLLMService()
    other = await reading(kb, twin).ingest_document(document("copy", TEXTS["verdel"], title="Verdel"))
    assert (twin.calls, other.chunks) == (0, 2)


async def test_a_twin_that_was_read_in_part_gives_what_it_has() -> None:
    kb = await empty_base()
    model = FakeLLMService(naming, faults={2: UpstreamUnavailable("down")})
    report = await reading(kb, model, max_gleaning=0, concurrency=1).ingest_document(document("verdel", TEXTS["verdel"]))
    assert len(report.failed_chunks) == 1
    twin = FakeLLMService(naming)
    report = await reading(kb, twin, max_gleaning=0).ingest_document(document("copy", TEXTS["verdel"], title="Verdel"))
    assert (twin.calls, report.failed_chunks) == (1, ())


class Refusing(FakeLLMService):
    """Declines in words."""

    async def _answer(self, messages: Sequence[Message]) -> str:
        await super()._answer(messages)
        return "I'm sorry, I cannot read this."


async def test_chunks_that_were_refused_are_named_in_the_report() -> None:
    report = await reading(await empty_base(), Refusing(naming)).ingest_document(document("kell", TEXTS["kell"]))
    assert report.refused_chunks == report.failed_chunks
    assert len(report.refused_chunks) == 1


async def test_the_record_of_a_reply_is_the_whole_of_it() -> None:
    """What is staged is what the model wrote, not what was read from it."""
    kb = await empty_base()
    seen: list[str] = []

    class Cut(FakeLLMService):
        async def complete(self, messages: Sequence[Message], **options: object) -> Completion:
            seen.extend([reply.text async for _, row in kb.staged.scan() for part in row.parts for reply in part])
            return Completion("E | Ida Brandt | Person | x\nE | Half", finish_reason="length")

    await reading(kb, Cut()).ingest_document(document("kell", TEXTS["kell"]))
    assert seen == ["E | Ida Brandt | Person | x\nE | Half"]
    assert [key async for key, _ in kb.staged.scan()] == []


async def test_only_the_chunks_that_failed_are_asked_about_again() -> None:
    """R-ING-7: one bad chunk does not fail the document, and a retry redoes only that."""
    whole, made = await empty_base(), document("long", LONG)
    await reading(whole, FakeLLMService(naming), max_gleaning=0).ingest_document(made)
    kb = await empty_base()
    model = FakeLLMService(naming, faults={4: BadResponse("rubbish"), 9: BadResponse("rubbish")})
    report = await reading(kb, model, max_gleaning=0, concurrency=1).ingest_document(made)
    assert (report.status, len(report.failed_chunks)) == ("processed", 2)

    half = FakeLLMService(naming, faults={2: BadResponse("rubbish")})
    again = await reading(kb, half, max_gleaning=0, concurrency=1).retry_document(made.id)
    assert half.calls == 2
    assert again.failed_chunks == report.failed_chunks[1:]

    rest = FakeLLMService(naming)
    done = await reading(kb, rest, max_gleaning=0).retry_document(made.id)
    assert (rest.calls, done.failed_chunks, done.unchanged) == (1, (), False)
    assert done.entities > 0
    assert await canonical_dump(kb) == await canonical_dump(whole)
    assert (await verify(kb, deep=True)).findings == ()

    nothing = await reading(kb, FakeLLMService()).retry_document(made.id)
    assert nothing.unchanged


async def test_a_document_that_was_ingested_without_a_model_is_upgraded() -> None:
    whole, made = await empty_base(), document("verdel", TEXTS["verdel"])
    await reading(whole, FakeLLMService(naming)).ingest_document(made)
    kb = await empty_base()
    await ingestion(kb).ingest_document(made)
    embedding = FakeEmbeddingService(16)
    flow = ingestion(kb, embedding=embedding, llm_extractor=LLMExtractor(FakeLLMService(naming)))
    report = await flow.retry_document(made.id)
    assert report.chunks == 2
    texts = [text for text, _ in embedding.inputs]
    assert not any(TEXTS["verdel"].startswith(text) for text in texts), "its chunks have their vectors"
    assert await canonical_dump(kb) == await canonical_dump(whole)


async def test_a_retry_that_was_stopped_goes_on() -> None:
    whole, made = await empty_base(), document("long", LONG)
    await reading(whole, FakeLLMService(naming), max_gleaning=0).ingest_document(made)
    kb = await empty_base()
    await ingestion(kb).ingest_document(made)
    first = FakeLLMService(naming, faults={6: UpstreamAuth("no")})
    with pytest.raises(IngestionError):
        await reading(kb, first, max_gleaning=0, concurrency=1).retry_document(made.id)
    record = (await kb.status.get([made.id]))[made.id]
    assert (record.status, record.version, record.stage) == ("failed", made.digest, "extract_llm")
    assert (await verify(kb, deep=True)).findings == ()
    await recover(kb)
    second = FakeLLMService(naming)
    await reading(kb, second, max_gleaning=0).retry_document(made.id)
    assert second.calls == 20 - 5
    assert await canonical_dump(kb) == await canonical_dump(whole)
    assert [key async for key, _ in kb.staged.scan()] == []


async def test_what_cannot_be_retried() -> None:
    kb, made = await empty_base(), document("kell", TEXTS["kell"])
    flow = reading(kb, FakeLLMService(naming))
    with pytest.raises(NotFound):
        await flow.retry_document("nobody")
    with pytest.raises(ConfigError):
        await ingestion(kb).retry_document(made.id)
    with pytest.raises(IngestionError):
        await refused(kb).ingest_document(made)
    with pytest.raises(NotFound):
        await flow.retry_document(made.id)
    await flow.ingest_document(made)
    with pytest.raises(IngestionError):
        await refused(kb).ingest_document(document("kell", TEXTS["brandt"]))
    with pytest.raises(ConfigError):
        await flow.retry_document(made.id)


def refused(kb: KnowledgeBase) -> Ingestion:
    """An ingestion whose key is refused."""
    return reading(kb, FakeLLMService(faults=dict.fromkeys(range(1, 9), UpstreamAuth("no"))))
