"""An ingest that fails or is cancelled at any step leaves the version before whole, and can be taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import pytest

from easy_knowledge_retriever import failpoints
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import IngestionError, StorageError
from easy_knowledge_retriever.events import DocumentFailed
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, RecordingObserver
from easy_knowledge_retriever.types import DocRecord, DocStatus, FloatVectors, SearchFilter
from tests.flows.ingesting_base import TEXTS, Described, document, empty_base, ingestion

STAGES = {
    "record-written": "read",
    "chunked": "chunk",
    "embed-batch": "embed",
    "embed-done": "embed",
    "extraction-paid": "extract_llm",
    "extraction-durable": "extract_llm",
    "extracted": "extract_llm",
    "planned": "commit",
    "tx-begin": "commit",
    "tx-after-chunks": "commit",
    "tx-after-vectors": "commit",
    "tx-after-postings": "commit",
    "tx-after-graph": "commit",
    "tx-before-status": "commit",
    "tx-before-commit": "commit",
}
# Where the memory storages still suspend before the transaction ends, so that a cancellation is delivered.
BEFORE_THE_COMMIT = {
    "record-written",
    "chunked",
    "embed-batch",
    "embed-done",
    "extraction-paid",
    "extraction-durable",
    "extracted",
}


class Point:
    """Stands for the failpoints of this process: acts when one of a name is passed."""

    def __init__(self, name: str, *, cancels: asyncio.Task[object] | None = None) -> None:
        self._name = name
        self.cancels = cancels

    def get(self, name: str) -> str | None:
        if name != self._name:
            return None
        if self.cancels is None:
            return "raise"
        self.cancels.cancel()
        return None


def _served(dump: str) -> list[str]:
    return [line for line in dump.splitlines() if not line.startswith(('["status"', '["staged"'))]


@pytest.fixture
async def kb() -> KnowledgeBase:
    base = await empty_base()
    flow = ingestion(base, llm_extractor=Described("llm"))
    await flow.ingest_document(document("verdel", TEXTS["verdel"]))
    await flow.ingest_document(document("kell", TEXTS["kell"]))
    return base


@pytest.fixture
async def replaced() -> str:
    base = await empty_base()
    flow = ingestion(base, llm_extractor=Described("llm"))
    for name, key in (("verdel", "verdel"), ("kell", "kell"), ("verdel", "verdel, again")):
        await flow.ingest_document(document(name, TEXTS[key]))
    return await canonical_dump(base)


@pytest.mark.parametrize("name", STAGES)
async def test_failing_at_a_step(kb: KnowledgeBase, replaced: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, observer = await canonical_dump(kb), RecordingObserver()
    point = Point(name)
    monkeypatch.setattr(failpoints, "failpoints", lambda: point)
    flow = ingestion(kb, llm_extractor=Described("llm"), observer=observer)

    with pytest.raises(IngestionError) as caught:
        await flow.ingest_document(document("verdel", TEXTS["verdel, again"]))

    assert (caught.value.document, caught.value.stage) == ("verdel", STAGES[name])
    assert isinstance(caught.value.__cause__, StorageError)
    assert [(event.stage, event.code) for event in observer.of(DocumentFailed)] == [(STAGES[name], "storage")]
    record = (await kb.status.get([document("verdel", "").id]))[document("verdel", "").id]
    assert (record.status, record.stage) == ("failed", STAGES[name])
    assert record.version == document("verdel", TEXTS["verdel"]).digest
    assert record.pending_version == document("verdel", TEXTS["verdel, again"]).digest
    assert _served(await canonical_dump(kb)) == _served(before)
    assert (await verify(kb, deep=True)).findings == ()

    monkeypatch.undo()
    await ingestion(kb, llm_extractor=Described("llm")).ingest_document(document("verdel", TEXTS["verdel, again"]))
    assert await canonical_dump(kb) == replaced


@pytest.mark.parametrize("name", [*STAGES, "tx-after-commit"])
async def test_cancelled_at_a_step(kb: KnowledgeBase, replaced: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await canonical_dump(kb)
    flow = ingestion(kb, llm_extractor=Described("llm"))
    point = Point(name)
    monkeypatch.setattr(failpoints, "failpoints", lambda: point)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(flow.ingest_document(document("verdel", TEXTS["verdel, again"])))
        point.cancels = task

    record = (await kb.status.get([document("verdel", "").id]))[document("verdel", "").id]
    # a cancellation may come when all is committed: then the new version is there, whole
    assert record.status == ("interrupted" if name in BEFORE_THE_COMMIT else "processed")
    assert task.cancelled() or name not in BEFORE_THE_COMMIT
    assert _served(await canonical_dump(kb)) == _served(before if name in BEFORE_THE_COMMIT else replaced)
    assert (await verify(kb, deep=True)).findings == ()
    monkeypatch.undo()
    await ingestion(kb, llm_extractor=Described("llm")).ingest_document(document("verdel", TEXTS["verdel, again"]))
    assert await canonical_dump(kb) == replaced


async def test_what_was_paid_for_is_not_paid_twice(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("planned")
    monkeypatch.setattr(failpoints, "failpoints", lambda: point)
    first, second = Described("llm"), Described("llm")
    with pytest.raises(IngestionError):
        await ingestion(kb, llm_extractor=first).ingest_document(document("brandt", TEXTS["brandt"]))
    monkeypatch.undo()
    report = await ingestion(kb, llm_extractor=second).ingest_document(document("brandt", TEXTS["brandt"]))
    assert len(first.read) == report.chunks
    assert second.read == []
    assert [key async for key, _ in kb.staged.scan()] == []


async def test_the_version_that_is_served_again_is_not_made_again(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("planned")
    monkeypatch.setattr(failpoints, "failpoints", lambda: point)
    with pytest.raises(IngestionError):
        await ingestion(kb, llm_extractor=Described("llm")).ingest_document(document("verdel", TEXTS["verdel, again"]))
    monkeypatch.undo()
    embedding = FakeEmbeddingService(16)
    report = await ingestion(kb, embedding=embedding).ingest_document(document("verdel", TEXTS["verdel"]))
    assert (report.unchanged, report.status, embedding.calls) == (True, "processed", 0)
    assert (await verify(kb, deep=True)).findings == ()  # nothing stays of what was staged for the other one


async def test_many_at_once_are_as_one_by_one(replaced: str) -> None:
    kb = await empty_base()
    flow = ingestion(kb, llm_extractor=Described("llm"))
    async with task_group() as group:
        for name, key in (("verdel", "verdel"), ("kell", "kell"), ("kell", "kell"), ("verdel", "verdel")):
            group.create_task(flow.ingest_document(document(name, TEXTS[key])))
    await flow.ingest_document(document("verdel", TEXTS["verdel, again"]))
    assert await canonical_dump(kb) == replaced


async def test_two_ingestions_that_know_nothing_of_each_other(replaced: str) -> None:
    kb = await empty_base()
    slow = [FakeEmbeddingService(16, delay=delay) for delay in (0.0, 0.001, 0.002)]
    flows = [ingestion(kb, llm_extractor=Described("llm"), embedding=embedding) for embedding in slow]
    async with task_group() as group:
        for flow in flows:
            group.create_task(flow.ingest_document(document("verdel", TEXTS["verdel, again"])))
            group.create_task(flow.ingest_document(document("kell", TEXTS["kell"])))
    assert (await verify(kb, deep=True)).findings == ()
    assert await canonical_dump(kb) == replaced


class Meddling(FakeEmbeddingService):
    """Lets something else happen between a plan and its commit: before the n-th call."""

    def __init__(self, call: int, meddle: Callable[[], Awaitable[object]]) -> None:
        super().__init__(16)
        self._call = call
        self._meddle = meddle

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        vectors = await super().embed(texts, input_type)
        if self.calls == self._call:
            await self._meddle()
        return vectors


async def test_a_plan_that_no_longer_holds_is_made_again(kb: KnowledgeBase, replaced: str) -> None:
    base = await empty_base()
    other = ingestion(base, llm_extractor=Described("llm"))
    meddling = Meddling(2, lambda: other.ingest_document(document("kell", TEXTS["kell"])))
    flow = ingestion(base, llm_extractor=Described("llm"), embedding=meddling)
    await flow.ingest_document(document("verdel", TEXTS["verdel, again"]))
    assert await canonical_dump(base) == replaced

    meddling = Meddling(1, lambda: other.ingest_document(document("brandt", TEXTS["brandt"])))
    await ingestion(base, embedding=meddling).delete_document(document("kell", "").id)
    assert [record.name for record in await base.status.page()] == ["brandt", "verdel"]
    assert (await verify(base, deep=True)).findings == ()


async def test_a_deletion_waits_for_the_ingest_of_its_document(kb: KnowledgeBase) -> None:
    flow = ingestion(kb, embedding=FakeEmbeddingService(16, delay=0.001))
    async with task_group() as group:
        group.create_task(flow.ingest_document(document("verdel", TEXTS["verdel, again"])))
        await asyncio.sleep(0)
        deletion = group.create_task(flow.delete_document(document("verdel", "").id))
    assert deletion.result().status == "success"
    assert [record.name for record in await kb.status.page()] == ["kell"]
    assert (await verify(kb, deep=True)).findings == ()


async def test_a_reader_sees_one_version_only(kb: KnowledgeBase) -> None:
    flow = ingestion(kb, llm_extractor=Described("llm"))
    versions: list[set[str]] = []
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            async with kb.snapshot() as seen:
                chunks = [chunk async for _, chunk in seen.chunks.scan() if chunk.document_name == "verdel"]
                ids = {chunk.id for chunk in chunks}
                mentions = await seen.graph.mentions_of(["verdel"], SearchFilter(document_ids=frozenset({chunks[0].document_id})))
                assert {edge.chunk_id for edge in mentions["verdel"]} <= ids
                versions.append({chunk.version for chunk in chunks})
            await asyncio.sleep(0)

    async with task_group() as group:
        group.create_task(read())
        for turn in range(6):
            await flow.ingest_document(document("verdel", TEXTS["verdel, again" if turn % 2 == 0 else "verdel"]))
        done.set()
    assert all(len(seen) == 1 for seen in versions)
    assert len({version for seen in versions for version in seen}) == 2


async def test_cancelled_when_the_status_was_just_written_it_is_not_left_processing(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = await empty_base()
    put, written = type(kb.status).put, []

    async def cancelled_after(self: DocStatusStorage, records: Iterable[DocRecord]) -> None:
        await put(self, records)
        written.append(True)
        if len(written) == 1:
            raise asyncio.CancelledError

    monkeypatch.setattr(type(kb.status), "put", cancelled_after)
    with pytest.raises(asyncio.CancelledError):
        await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]))
    assert [record.status for record in await kb.status.page()] == [DocStatus.INTERRUPTED]
