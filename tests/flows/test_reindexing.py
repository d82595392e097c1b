"""Vectors made anew beside those that are served: one swap, no language model, nothing lost by a kill."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever import (
    EasyKnowledgeRetriever,
    EmbeddingMismatchError,
    QueryParam,
    UpstreamError,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.events import Event, StageProgress
from easy_knowledge_retriever.ingestion import reindexing
from easy_knowledge_retriever.ingestion.model_guard import PROBES
from easy_knowledge_retriever.ingestion.reindexing import Reindexing
from easy_knowledge_retriever.ingestion.stamps import probes_of, stamps_of
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService
from easy_knowledge_retriever.testing.server import EMBEDDINGS, OpenAITestServer
from easy_knowledge_retriever.types import FloatVectors
from tests.flows.ingesting_base import Described, document, empty_base, ingestion
from tests.flows.reindexing_process import AT_ONCE, NEW, OLD, retriever

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = ["Ida Brandt", "Jon Lind", "Mira Holt", "Per Aas", "Eva Krog", "Kai Moen"]
TEXTS = [
    "\n\n".join(
        f"# Part {part} of {number}\n\n{PEOPLE[(number + part) % 6]} wrote to {PEOPLE[(number * part) % 6]} about bridge "
        f"{number}{part}. It stands in Marlow and was built before the winter of {1900 + number * 10 + part}."
        for part in range(4)
    )
    for number in range(6)
]
QUESTION = "Who wrote about bridge 23?"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base of the old model."""
    folder = tmp_path_factory.mktemp("filled")

    async def fill() -> None:
        async with retriever(folder, FakeEmbeddingService(OLD)) as rag:
            await rag.ainsert(TEXTS, file_paths=[f"{number}.md" for number in range(len(TEXTS))])

    asyncio.run(fill())
    return folder


@pytest.fixture
def base(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path / "base")
    return tmp_path / "base"


async def dump_of(folder: Path, dim: int = NEW) -> str:
    async with retriever(folder, FakeEmbeddingService(dim)) as rag:
        assert (await rag.verify(deep=True)).findings == ()
        return await canonical_dump(rag._kb)


async def fresh(folder: Path, texts: Sequence[str] = TEXTS) -> str:
    """What a base would be that never knew another model."""
    async with retriever(folder, FakeEmbeddingService(NEW)) as rag:
        await rag.ainsert(list(texts), file_paths=[f"{number}.md" for number in range(len(texts))])
        return await canonical_dump(rag._kb)


async def test_a_base_of_another_model_is_what_it_would_be_had_it_always_been_of_this_one(base: Path, tmp_path: Path) -> None:
    model, told = FakeEmbeddingService(NEW), list[Event]()
    with pytest.raises(EmbeddingMismatchError):
        await retriever(base, model).initialize_storages()
    rag = EasyKnowledgeRetriever(base, embedding_service=model, llm_service=FakeLLMService(lambda _: "No."), observer=told.append)
    report = await rag.reindex()
    assert (report.before, report.model, report.kept) == (f"fake-bag-of-words/{OLD}", f"fake-bag-of-words/{NEW}", 0)
    assert len(model.inputs) == report.vectors
    assert {kind for _, kind in model.inputs} == {"document"}
    assert rag._models.llm is not None
    assert rag._models.llm.requests == []  # type: ignore[attr-defined]  # the fake has them
    progress = [event for event in told if isinstance(event, StageProgress)]
    assert [event.done for event in progress] == sorted(event.done for event in progress)
    assert progress[-1].done == progress[-1].total == report.vectors
    async with rag:
        assert (await rag.aquery(QUESTION, QueryParam(mode="naive", only_need_context=True))).chunks
    assert await dump_of(base) == await fresh(tmp_path / "fresh")


async def test_nothing_is_left_of_the_vectors_before(base: Path) -> None:
    await retriever(base, FakeEmbeddingService(NEW)).reindex()
    async with retriever(base, FakeEmbeddingService(NEW)) as rag:
        assert await (await rag._kb.chunk_vectors.numbered(1)).ids() == []
        assert [key async for key, _ in rag._kb.vector_index.scan()] == ["live"]
        await rag.reindex()
        assert (await rag.verify(deep=True)).clean
        assert await (await rag._kb.chunk_vectors.numbered(2)).ids() == []


async def test_the_ones_before_answer_until_the_swap_and_no_longer(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is whole: from the old vectors with the old model, or refused."""
    monkeypatch.setattr(reindexing, "_AT_ONCE", AT_ONCE)
    param = QueryParam(mode="naive", only_need_context=True)
    outcomes: list[str] = []
    async with retriever(base, FakeEmbeddingService(OLD)) as before:
        expected = (await before.aquery(QUESTION, param)).content
        reindexed = asyncio.Event()

        async def ask() -> None:
            while not reindexed.is_set() or outcomes[-1] != "refused":
                try:
                    assert (await before.aquery(QUESTION, param)).content == expected
                    outcomes.append("answered")
                except EmbeddingMismatchError:
                    outcomes.append("refused")

        async with task_group() as group:
            group.create_task(ask())
            await retriever(base, FakeEmbeddingService(NEW, delay=0.01)).reindex()
            reindexed.set()
    assert outcomes.index("refused") == outcomes.count("answered") > 0


async def test_what_comes_changes_and_goes_meanwhile_is_there_in_the_end(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexing, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(reindexing, "_PATIENCE", 9)  # the last try keeps others out, and would wait for them here
    texts = [TEXTS[0], "# New\n\nIda Brandt went to Lund. Ida Brandt met Jon Lind.", *TEXTS[2:5], "# Seven\n\nPer Aas left."]
    async with retriever(base, FakeEmbeddingService(OLD)) as before:
        ids = {record.name: record.id for record in await before.get_docs()}
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: before.ainsert(texts[1], file_paths="1.md"),
            lambda: before.adelete_by_doc_id(ids["5.md"]),
            lambda: before.ainsert(texts[5], file_paths="5.md"),
        ]
        swap = Reindexing._swap

        async def overtaken(self: Reindexing, *arguments: object) -> bool:
            if steps:
                await steps.pop(0)()
            return await swap(self, *arguments)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(Reindexing, "_swap", overtaken)
        await retriever(base, FakeEmbeddingService(NEW)).reindex()
    assert steps == []
    assert await dump_of(base) == await fresh(tmp_path / "fresh", texts)


async def test_a_commit_that_was_planned_before_the_swap_is_refused_after_it(base: Path) -> None:
    class Late(FakeEmbeddingService):
        async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
            vectors = await super().embed(texts, input_type)
            await retriever(base, FakeEmbeddingService(NEW)).reindex()
            return vectors

    async with retriever(base, Late(OLD)) as before:
        with pytest.raises(EmbeddingMismatchError):
            await before.ainsert("# Late\n\nEva Krog came late.", file_paths="late.md")
    async with retriever(base, FakeEmbeddingService(NEW)) as rag:
        assert (await rag.verify(deep=True)).findings == ()
        assert "late.md" not in [record.name for record in await rag.get_docs_by_status("processed")]


async def test_a_model_that_fails_has_made_something_all_the_same(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "_AT_ONCE", AT_ONCE)
    down = FakeEmbeddingService(NEW, faults={4: UpstreamError("the model is down")})
    with pytest.raises(UpstreamError, match="down"):
        await retriever(base, down).reindex()
    async with retriever(base, FakeEmbeddingService(OLD)) as before:
        assert (await before.verify(deep=True)).clean
        assert (await before.aquery(QUESTION, QueryParam(mode="naive", only_need_context=True))).chunks
    estimate = await retriever(base, FakeEmbeddingService(NEW)).estimate_reindex()
    report = await retriever(base, FakeEmbeddingService(NEW)).reindex()
    assert report.kept == estimate.kept == 3 * AT_ONCE
    assert report.vectors == estimate.vectors


async def test_what_another_model_began_is_not_gone_on_with(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "_AT_ONCE", AT_ONCE)
    with pytest.raises(UpstreamError):
        await retriever(base, FakeEmbeddingService(32, faults={3: UpstreamError("down")})).reindex()
    assert (await retriever(base, FakeEmbeddingService(NEW)).reindex()).kept == 0
    assert await dump_of(base) == await fresh(tmp_path / "fresh")


async def test_a_model_that_changed_under_its_name_is_noted_with_what_it_makes_now(tmp_path: Path) -> None:
    class Turned(FakeEmbeddingService):
        turned = False

        @property
        def is_pinned(self) -> bool:
            return False

        async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
            vectors = await super().embed(texts, input_type)
            return np.roll(vectors, 1, axis=1) if self.turned else vectors

    async with retriever(tmp_path, Turned(OLD)) as rag:
        await rag.ainsert(TEXTS[0], file_paths="0.md")
    turned = Turned(OLD)
    turned.turned = True
    async with retriever(tmp_path, turned) as rag:
        with pytest.raises(EmbeddingMismatchError):
            await rag.aquery(QUESTION)
        await rag.reindex()
        assert (await rag.aquery(QUESTION, QueryParam(mode="naive", only_need_context=True))).chunks
        probes = await probes_of(rag._kb)
        assert probes is not None
        assert np.allclose(np.sum(probes * await turned.embed(PROBES, "document"), axis=1), 1, atol=1e-6)


async def test_it_is_paid_and_written_down_and_an_estimate_says_so_before(base: Path) -> None:
    async with OpenAITestServer(dimension=NEW) as server:

        def paid() -> EasyKnowledgeRetriever:
            model = OpenAIEmbeddingService("embed", server.base_url, "key", NEW, timeout=10)
            return EasyKnowledgeRetriever(base, embedding_service=model, embedding_check="warn", prices={"embed": {"input": 10}})

        async with paid() as rag:
            estimate = await rag.estimate_reindex()
            assert server.count(EMBEDDINGS) == 0
            report = await rag.reindex()
            assert report.vectors == estimate.vectors
            assert report.usage.embedding_calls - 1 in estimate.embedding_calls  # one is that of the probes
            assert report.usage.llm_calls == 0
            assert report.cost is not None
            assert report.cost > 0
            assert (await rag.usage()).total.cost == pytest.approx(report.cost)


async def test_two_do_not_do_it_at_once(base: Path) -> None:
    class Meanwhile(FakeEmbeddingService):
        async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
            with pytest.raises(WorkingDirLockedError):
                await retriever(base, FakeEmbeddingService(NEW)).reindex()
            return await super().embed(texts, input_type)

    await retriever(base, Meanwhile(NEW)).reindex()
    await dump_of(base)


async def test_an_empty_base_takes_any_model(tmp_path: Path) -> None:
    report = await retriever(tmp_path, FakeEmbeddingService(NEW)).reindex()
    assert (report.vectors, report.before) == (0, "")
    async with retriever(tmp_path, FakeEmbeddingService(NEW)) as rag:
        await rag.ainsert(TEXTS[0])
        assert (await rag.verify(deep=True)).clean


async def test_what_waits_for_its_vector_has_one_afterwards() -> None:
    kb = await empty_base()
    for name in ("verdel", "kell"):
        text = "Ida Brandt crossed the Verdel." if name == "verdel" else "Ida Brandt climbed Mount Kell."
        await ingestion(kb, extractors=[Described()]).ingest_document(document(name, text))
    down = FakeEmbeddingService(16, faults={1: UpstreamError("the model is down")})
    await ingestion(kb, embedding=down).delete_document(document("verdel", "").id)
    assert (await stamps_of(kb)).unembedded.entities
    await ingestion(kb).reindexing.run()
    assert not (await stamps_of(kb)).unembedded.entities
    assert "ida" in await kb.entity_vectors.ids()


def _asked(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


async def _killed(folder: Path, log: Path, point: str = "", after: int = 0) -> int:
    """Exit code of a process that is killed at a failpoint, or when so many texts were asked for."""
    environment = {**os.environ, "EKR_FAILPOINTS": f"{point}=kill" if point else ""}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.flows.reindexing_process", str(folder), str(log)),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
    )
    while after and child.returncode is None:
        await asyncio.sleep(0.002)
        if _asked(log) >= after:
            child.send_signal(signal.SIGKILL)
            break
    return await child.wait()


@pytest.mark.parametrize("point", ["reindex-batch", "new-index-built", "pointer-swapped", "old-dropped"])
async def test_killed_at_a_failpoint_and_taken_up_again(base: Path, tmp_path: Path, point: str) -> None:
    log, old = tmp_path / "log", await dump_of(base, OLD)
    assert await _killed(base, log, point) == -signal.SIGKILL
    swapped = point in {"pointer-swapped", "old-dropped"}
    assert await dump_of(base, NEW if swapped else OLD) == (await fresh(tmp_path / "fresh") if swapped else old)
    if not swapped:
        assert await _killed(base, log) == 0
    asked = Counter(json.loads(line) for line in log.read_text().splitlines())
    assert max(asked.values()) == 1
    assert await dump_of(base) == await fresh(tmp_path / "fresh again")


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
async def test_killed_at_any_time_it_goes_on_and_asks_for_little_twice(base: Path, tmp_path: Path, kills: int) -> None:
    log, old, new = tmp_path / "log", await dump_of(base, OLD), await fresh(tmp_path / "fresh")
    total = (await retriever(base, FakeEmbeddingService(NEW)).estimate_reindex()).vectors
    choose, killed = random.Random(kills), 0
    for point in sorted(choose.sample(range(1, total + 1), kills)):
        if await _killed(base, log, after=point) == 0:
            break
        killed += 1
        served = OLD if await _is_served(base, OLD) else NEW
        assert await dump_of(base, served) == (old if served == OLD else new)
    await _killed(base, log)
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert killed > 0
    assert len(asked) - len(set(asked)) <= killed * AT_ONCE
    assert await dump_of(base) == new


async def _is_served(folder: Path, dim: int) -> bool:
    rag = EasyKnowledgeRetriever(folder, embedding_service=FakeEmbeddingService(dim), embedding_check="warn")
    async with rag:
        made = await rag.get_embedding()
        return made is not None and made.is_configured
