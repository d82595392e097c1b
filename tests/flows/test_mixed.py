"""A base whose vectors and graph are elsewhere: what is committed is completed, whatever happens, and no answer mixes states."""

from __future__ import annotations

import asyncio
import copy
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import EKRError, StorageError
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg import knowledge_base as module
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import DocRecord, DocStatus, Entity, LexicalRecord, MentionEdge, VectorRecord
from tests.flows.ingesting_base import TEXTS, document, ingestion
from tests.flows.working import WORD, page
from tests.support.outside import OutsideGraph, OutsideVectors, Server, mixed_base

PATIENCE = 120


class Died(BaseException):
    """Stands for the end of a process."""


async def replace(kb: KnowledgeBase) -> None:
    await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel, again"]))


async def delete(kb: KnowledgeBase) -> None:
    await ingestion(kb).delete_document(document("verdel", "").id)


async def opened(folder: Path, server: Server) -> KnowledgeBase:
    kb = mixed_base(folder, server)
    await kb.open()
    await recover(kb)
    return kb


async def dumped(kb: KnowledgeBase) -> str:
    """The base, written out; nothing is wrong with it and nothing is left to do."""
    assert (await verify(kb, deep=True)).findings == ()
    assert await kb._pending() == ()
    return await canonical_dump(kb)


async def prepared(folder: Path, server: Server) -> None:
    kb = await opened(folder, server)
    for name in ("verdel", "kell"):
        await ingestion(kb).ingest_document(document(name, TEXTS[name]))
    await kb.close()


def copied(server: Server) -> Server:
    other = Server()
    other.rows.tables = copy.deepcopy(server.rows.tables)
    return other


@pytest.mark.parametrize("how", ["raise", "die", "cancel"])
@pytest.mark.parametrize("step", [replace, delete])
async def test_cut_off_at_any_write_outside_it_is_completed(
    tmp_path: Path, step: Callable[[KnowledgeBase], asyncio.Future[None]], how: str
) -> None:
    before = Server()
    await prepared(tmp_path / "before", before)
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    whole = copied(before)
    kb = await opened(tmp_path / "whole", whole)
    await step(kb)
    expected, writes = await dumped(kb), whole.writes
    await kb.close()
    assert writes > 5

    for number in range(1, writes + 1):
        folder, server = tmp_path / str(number), copied(before)
        shutil.copytree(tmp_path / "before", folder)
        kb = await opened(folder, server)

        async def cut_off(kb: KnowledgeBase = kb, server: Server = server, number: int = number) -> None:
            task = asyncio.current_task()
            assert task

            def fail(write: int) -> None:
                if write == number and how == "cancel":
                    task.cancel()
                elif write == number:
                    raise Died if how == "die" else StorageError("the server is gone")

            server.before_write = fail
            await step(kb)

        with pytest.raises((Died, EKRError, asyncio.CancelledError)):
            await cut_off()
        server.before_write = lambda write: None
        await kb.close()
        kb = await opened(folder, server)
        assert await dumped(kb) == expected  # it was committed before the first write outside
        await kb.close()


async def test_what_fails_before_the_commit_writes_nothing_outside(tmp_path: Path) -> None:
    server = Server()
    kb = await opened(tmp_path, server)
    with pytest.raises(StorageError, match="zero"):
        async with kb.transaction() as inside:
            await inside.graph.put_entities([Entity("a")])
            await inside.chunk_vectors.put_many([VectorRecord("a", np.zeros(2, np.float32))])
    with pytest.raises(StorageError, match="several shapes"):
        async with kb.transaction() as inside:
            await inside.chunk_vectors.put_many([VectorRecord(key, np.ones(n, np.float32)) for key, n in (("a", 2), ("b", 3))])
    assert server.writes == 0
    assert await kb.graph.keys() == []
    await kb.close()


async def test_a_transaction_writes_outside_after_it_and_reads_there_as_before(tmp_path: Path) -> None:
    server = Server()
    kb = await opened(tmp_path, server)
    await kb.graph.put_entities([Entity("old")])
    async with kb.transaction() as inside:
        await inside.graph.put_entities([Entity("new")])
        await inside.graph.put_mentions([MentionEdge("new", "chunk", "document")])
        await inside.chunk_vectors.put_many([VectorRecord("a", np.array([3, 4], np.float32), "document", "shelf")])
        await inside.lexical.put_many([LexicalRecord("a", {"text": ("word",)})])
        await inside.status.put([DocRecord("document", "document", DocStatus.PROCESSED)])
        assert await inside.graph.keys() == ["old"]
        assert await inside.chunk_vectors.count() == 0
        assert await inside.lexical.ids() == ["a"]
    assert await kb.graph.keys() == ["new", "old"]
    assert np.allclose((await kb.chunk_vectors.vectors(["a"]))["a"], [0.6, 0.8])
    assert server.flushes > 0
    async with kb.transaction() as inside:
        await inside.graph.drop()
    assert await kb.graph.keys() == []
    await kb.close()


async def test_a_transaction_within_a_transaction_is_refused(tmp_path: Path) -> None:
    kb = await opened(tmp_path, Server())
    with pytest.raises(StorageError, match="open here already"):
        async with asyncio.timeout(PATIENCE), kb.transaction():
            async with kb.transaction():
                pass
    await kb.close()


async def test_a_reader_completes_what_was_cut_off_or_says_that_it_cannot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    kb = await opened(tmp_path, server)

    def fail(write: int) -> None:
        raise StorageError("the server is gone")

    server.before_write = fail
    with pytest.raises(StorageError, match="gone") as failed:
        async with kb.transaction() as inside:
            await inside.graph.put_entities([Entity("a")])
    assert any("committed" in note for note in failed.value.__notes__)
    with caplog.at_level(logging.WARNING):
        async with kb.snapshot() as seen:
            assert await seen.graph.keys() == []
    assert "could not be completed" in caplog.text
    server.before_write = lambda write: None
    async with kb.snapshot() as seen:
        assert await seen.graph.keys() == ["a"]
    await kb.close()


async def test_a_reader_waits_for_a_commit_but_not_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    kb = await opened(tmp_path, Server())
    async with kb.claim("redo"):
        await kb.redo.put_many({"pending": {"steps": [["graph", "put entities", []]]}})
        async with asyncio.timeout(PATIENCE), kb.snapshot() as seen:
            assert await seen.graph.keys() == []
    assert "reading what is there" in caplog.text
    await kb.close()


async def test_what_a_commit_overlapped_is_read_again(tmp_path: Path) -> None:
    kb = await opened(tmp_path, Server())
    tries = 0

    async def read(seen: KnowledgeBase) -> list[str]:
        nonlocal tries
        tries += 1
        if tries < 3:
            async with kb.transaction() as inside:
                await inside.graph.put_entities([Entity(f"e{tries}")])
        return await seen.graph.keys()

    assert await kb.consistently(read) == ["e1", "e2"]
    assert tries == 3
    await kb.close()


async def test_a_reader_that_is_overlapped_again_and_again_keeps_writers_out(tmp_path: Path) -> None:
    kb = await opened(tmp_path, Server())
    tries = 0

    async def read(seen: KnowledgeBase) -> int:
        nonlocal tries
        tries += 1
        if tries <= module._TRIES:
            async with kb.transaction() as inside:
                await inside.graph.put_entities([Entity(f"e{tries}")])
        async with kb.claim("redo", wait=0) as free:
            assert free == (tries <= module._TRIES)
        return len(await seen.graph.keys())

    assert await kb.consistently(read) == module._TRIES
    await kb.close()


async def test_steps_of_a_newer_version_are_left_alone(tmp_path: Path) -> None:
    server = Server()
    kb = await opened(tmp_path, server)
    for step in (["graph", "turn round", ["a"]], ["tree", "drop", []]):
        await kb.redo.put_many({"pending": {"steps": [step]}})
        again = mixed_base(tmp_path, server)
        with pytest.raises(StorageError, match="newer version"):
            await again.open()
        assert list(await kb._pending()) == [step]  # type: ignore[comparison-overlap]  # a tuple comes back as a list
    await kb.redo.delete_many(["pending"])
    await kb.close()


@pytest.mark.parametrize(("versions", "queries"), [(12, 120), pytest.param(50, 1000, marks=pytest.mark.long)])
async def test_no_answer_mixes_versions(tmp_path: Path, versions: int, queries: int) -> None:
    server = Server()
    async with EasyKnowledgeRetriever(
        tmp_path,
        kv_storage=SqliteKVStorage(tmp_path),
        doc_status_storage=SqliteDocStatusStorage(tmp_path),
        lexical_storage=SqliteLexicalStorage(tmp_path),
        vector_storage=OutsideVectors(server),
        graph_storage=OutsideGraph(server),
        embedding_service=FakeEmbeddingService(32),
        chunk_token_size=24,
        chunk_overlap_token_size=0,
    ) as rag:
        await rag.ainsert(page(0), ids="doc-page", file_paths="page")
        asked, seen = 0, set()

        async def ask() -> None:
            nonlocal asked
            while asked < queries:
                asked += 1
                param = QueryParam(mode="naive" if asked % 2 else "hybrid_mix")
                context = await rag.retrieve(f"What of the {WORD} that Ida Brandt saw?", param=param)
                found = set(re.findall(r"\bv\d+\b", context.text))
                assert len(found) == 1
                seen.update(found)

        async with asyncio.timeout(4 * PATIENCE), task_group() as group:
            for _ in range(3):
                group.create_task(ask())
            for version in range(1, versions):
                await rag.ainsert(page(version), ids="doc-page", file_paths="page")
                while asked < queries * version // versions:  # noqa: ASYNC110 — spread over the queries
                    await asyncio.sleep(0)
        assert len(seen) > 2
        assert (await rag.verify(deep=True)).findings == ()
