"""What a backend with snapshots and transactions promises over all its roles together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import pytest_asyncio

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.base import Session
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.vector_storage.live import LIVE
from easy_knowledge_retriever.types import (
    DocRecord,
    DocStatus,
    Entity,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    VectorRecord,
)

__all__ = ["StoreContract"]

ROLES = ("entities", "kv", "lexical", "mentions", "relations", "status", "vectors")
PATIENCE = 10
"""Seconds until a test that hangs fails."""


class Undo(Exception):
    """Raised to leave a transaction."""


async def _write(base: KnowledgeBase, mark: str) -> None:
    await base.stamps.put_many({mark: {}})
    await base.chunk_vectors.put_many([VectorRecord(mark, np.ones(2, dtype=np.float32))])
    await base.lexical.put_many([LexicalRecord(mark, {"text": ("word",)})])
    await base.graph.put_entities([Entity(mark)])
    await base.graph.put_relations([Relation(RelationKey(mark, mark + "'"), weight=1)])
    await base.graph.put_mentions([MentionEdge(mark, mark, mark)])
    await base.status.put([DocRecord(mark, mark, DocStatus.PROCESSED)])


async def _marks(base: KnowledgeBase) -> dict[str, list[str]]:
    """The marks each role shows, to index and to search alike."""
    hits = await base.chunk_vectors.search(np.ones(2, dtype=np.float32), 10)
    assert sorted(hit.id for hit in hits) == await base.chunk_vectors.ids()
    found = await base.lexical.search(["word"], 10)
    assert sorted(hit.id for hit in found) == await base.lexical.ids()
    keys = await base.graph.keys()
    return {
        "entities": keys,
        "kv": [key async for key, _ in base.stamps.scan()],
        "lexical": await base.lexical.ids(),
        "mentions": sorted(await base.graph.mentions_of(keys)),
        "relations": [key.first for key in await base.graph.relation_keys()],
        "status": [record.id for record in await base.status.page()],
        "vectors": await base.chunk_vectors.ids(),
    }


def _all(*marks: str) -> dict[str, list[str]]:
    return {role: list(marks) for role in ROLES}


class StoreContract(ABC):
    """Suite of a backend whose five roles share one store: snapshots show one state, transactions are all or nothing."""

    pytestmark: ClassVar = [pytest.mark.asyncio]
    persistent: ClassVar[bool] = True

    @abstractmethod
    async def make(self, tmp_path: Path) -> KnowledgeBase:
        """An unopened base with all roles in one store; with the same folder, one on the same rows."""

    @pytest_asyncio.fixture
    async def base(self, tmp_path: Path) -> AsyncIterator[KnowledgeBase]:
        """An open base without rows."""
        base = await self.make(tmp_path)
        await base.open()
        yield base
        await base.close()

    async def test_all_roles_are_in_one_store(self, base: KnowledgeBase) -> None:
        stores = [storage.store for storage in base.storages()]
        assert None not in stores
        assert len({store.key for store in stores if store}) == 1

    async def test_a_transaction_commits_every_role(self, base: KnowledgeBase) -> None:
        async with base.transaction() as inside:
            await _write(inside, "a")
            await _write(inside, "b")
        assert await _marks(base) == _all("a", "b")

    async def test_another_set_of_vectors_is_served_from_the_commit_that_says_so(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        built = await base.chunk_vectors.numbered(2)
        await built.put_many([VectorRecord("b", np.ones(3, dtype=np.float32))])
        async with base.snapshot() as before:
            with pytest.raises(Undo):
                async with base.transaction() as inside:
                    await inside.vector_index.put_many({LIVE: {"value": 2}})
                    raise Undo
            assert await base.chunk_vectors.ids() == ["a"]
            async with base.transaction() as inside:
                await inside.vector_index.put_many({LIVE: {"value": 2}})
                assert await base.chunk_vectors.ids() == ["a"]
            assert await before.chunk_vectors.ids() == ["a"]
        async with base.snapshot() as after:
            hits = await after.chunk_vectors.search(np.ones(3, dtype=np.float32), 10)
        assert [hit.id for hit in hits] == await base.chunk_vectors.ids() == ["b"]
        async with base.transaction() as inside:
            await inside.chunk_vectors.put_many([VectorRecord("c", np.ones(3, dtype=np.float32))])
        assert await built.ids() == ["b", "c"]
        await (await base.chunk_vectors.numbered(1)).drop()
        assert await base.chunk_vectors.ids() == ["b", "c"]

    async def test_a_transaction_sees_its_own_writes_and_nobody_else_does(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        async with base.transaction() as inside:
            await _write(inside, "b")
            await inside.status.delete(["a"])
            await inside.graph.delete_entities(["a"])
            await inside.chunk_vectors.delete_many(["a"])
            await inside.lexical.delete_many(["a"])
            await inside.stamps.delete_many(["a"])
            assert await _marks(inside) == _all("b")
            assert await _marks(base) == _all("a")
            async with base.snapshot() as beside:
                assert await _marks(beside) == _all("a")
        assert await _marks(base) == _all("b")

    async def test_a_transaction_that_raises_is_undone(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        with pytest.raises(Undo):
            async with base.transaction() as inside:
                await _write(inside, "b")
                await inside.graph.delete_entities(["a"])
                await inside.chunk_vectors.delete_many(["a"])
                raise Undo
        assert await _marks(base) == _all("a")
        await _write(base, "c")
        assert await _marks(base) == _all("a", "c")

    async def test_a_transaction_that_is_cancelled_is_undone(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        written = asyncio.Event()

        async def change() -> None:
            async with base.transaction() as inside:
                await _write(inside, "b")
                written.set()
                await asyncio.Event().wait()

        async with task_group() as group:
            task = group.create_task(change())
            await written.wait()
            task.cancel()
        assert task.cancelled()
        assert await _marks(base) == _all("a")
        async with base.transaction() as inside:
            await _write(inside, "c")
        assert await _marks(base) == _all("a", "c")

    async def test_a_refused_write_undoes_the_whole_transaction(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        with pytest.raises(StorageError):
            async with base.transaction() as inside:
                await _write(inside, "b")
                await inside.chunk_vectors.put_many([VectorRecord("bad", np.zeros(2, dtype=np.float32))])
        assert await _marks(base) == _all("a")

    async def test_a_refused_write_that_was_caught_leaves_the_transaction_whole(self, base: KnowledgeBase) -> None:
        async with base.transaction() as inside:
            await _write(inside, "a")
            with pytest.raises(StorageError):
                await inside.chunk_vectors.put_many([VectorRecord("bad", np.zeros(2, dtype=np.float32))])
            await _write(inside, "b")
        assert await _marks(base) == _all("a", "b")

    async def test_a_drop_is_part_of_the_transaction(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        with pytest.raises(Undo):
            async with base.transaction() as inside:
                for storage in inside.storages():
                    await storage.drop()
                assert await _marks(inside) == _all()
                raise Undo
        assert await _marks(base) == _all("a")

    async def test_a_snapshot_does_not_change(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        async with base.snapshot() as before:
            assert await _marks(before) == _all("a")
            async with base.transaction() as inside:
                await _write(inside, "b")
            await _write(base, "c")
            await base.status.delete(["a"])
            assert await _marks(before) == _all("a")
            async with base.snapshot() as after:
                assert (await _marks(after))["kv"] == ["a", "b", "c"]
                assert (await _marks(after))["status"] == ["b", "c"]

    async def test_a_snapshot_begins_when_it_is_opened(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        async with base.snapshot() as before:
            await _write(base, "b")
            assert await _marks(before) == _all("a")

    async def test_a_snapshot_cannot_be_written_to(self, base: KnowledgeBase) -> None:
        async with base.snapshot() as view:
            with pytest.raises(StorageError):
                await view.stamps.put_many({"a": {}})
            with pytest.raises(StorageError):
                await view.graph.put_entities([Entity("a")])
        assert await _marks(base) == _all()

    async def test_transactions_wait_for_each_other(self, base: KnowledgeBase) -> None:
        inside_now: list[str] = []
        most = 0

        async def change(mark: str) -> None:
            nonlocal most
            async with base.transaction() as inside:
                inside_now.append(mark)
                most = max(most, len(inside_now))
                for _ in range(3):
                    await asyncio.sleep(0)
                await _write(inside, mark)
                inside_now.remove(mark)

        async with asyncio.timeout(PATIENCE), task_group() as group:
            for mark in "abcd":
                group.create_task(change(mark))
        assert most == 1
        assert await _marks(base) == _all("a", "b", "c", "d")

    async def test_readers_do_not_wait_for_a_writer(self, base: KnowledgeBase) -> None:
        await _write(base, "a")
        async with base.transaction() as inside:
            await _write(inside, "b")
            async with asyncio.timeout(PATIENCE), base.snapshot() as one, base.snapshot() as other:
                assert await _marks(one) == await _marks(other) == _all("a")

    async def test_readers_see_a_whole_commit_or_none_of_it(self, base: KnowledgeBase) -> None:
        seen: list[dict[str, list[str]]] = []
        done = False

        async def read() -> None:
            while not done:
                async with base.snapshot() as view:
                    seen.append(await _marks(view))
                await asyncio.sleep(0)

        async with asyncio.timeout(PATIENCE), task_group() as group:
            group.create_task(read())
            group.create_task(read())
            for mark in "abcde":
                async with base.transaction() as inside:
                    await _write(inside, mark)
                    await asyncio.sleep(0)
            done = True
        assert all(len({tuple(marks) for marks in state.values()}) == 1 for state in seen)

    async def test_a_session_says_whether_it_can_be_written_to(self, base: KnowledgeBase) -> None:
        store = base.status.store
        assert store is not None
        async with store.snapshot() as view:
            assert isinstance(view, Session)
            assert not view.writable
        async with store.transaction() as change:
            assert isinstance(change, Session)
            assert change.writable

    async def test_a_claim_is_had_by_one_task_at_a_time(self, base: KnowledgeBase) -> None:
        having: list[int] = []
        most = 0

        async def work(number: int) -> None:
            nonlocal most
            async with base.claim("name") as got:
                assert got
                having.append(number)
                most = max(most, len(having))
                for _ in range(3):
                    await asyncio.sleep(0)
                having.remove(number)

        async with asyncio.timeout(PATIENCE), task_group() as group:
            for number in range(4):
                group.create_task(work(number))
        assert most == 1

    async def test_a_claim_is_tried_once_or_for_a_while(self, base: KnowledgeBase) -> None:
        async with asyncio.timeout(PATIENCE), base.claim("name", wait=0) as first:
            assert first
            async with base.claim("name", wait=0) as second, base.claim("name", wait=0.02) as third:
                assert not second
                assert not third
            async with base.claim("other", wait=0) as other:
                assert other
        async with base.claim("name", wait=0) as again:
            assert again

    async def test_a_claim_holds_for_all_who_use_the_same_rows(self, tmp_path: Path, base: KnowledgeBase) -> None:
        if not self.persistent:
            pytest.skip("another base has other rows")
        beside = await self.make(tmp_path)
        await beside.open()
        async with asyncio.timeout(PATIENCE), base.claim("name"):
            async with beside.claim("name", wait=0) as got:
                assert not got
            async with beside.claim("other", wait=0) as got:
                assert got
        async with asyncio.timeout(PATIENCE), beside.claim("name") as got:
            assert got
        await beside.close()

    async def test_a_claim_is_free_after_a_failure_and_a_cancellation(self, base: KnowledgeBase) -> None:
        with pytest.raises(Undo):
            async with base.claim("name"):
                raise Undo
        having = asyncio.Event()

        async def hold() -> None:
            async with base.claim("name"):
                having.set()
                await asyncio.Event().wait()

        async with asyncio.timeout(PATIENCE), task_group() as group:
            holding = group.create_task(hold())
            await having.wait()
            waiting = group.create_task(hold())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            holding.cancel()
        async with base.claim("name", wait=0) as got:
            assert got

    async def test_a_claim_does_not_keep_anyone_from_reading_and_writing(self, base: KnowledgeBase) -> None:
        async with asyncio.timeout(PATIENCE), base.claim("name"):
            async with base.transaction() as inside:
                await _write(inside, "a")
            async with base.snapshot() as view:
                assert await _marks(view) == _all("a")

    async def test_a_commit_is_there_after_reopening(self, tmp_path: Path) -> None:
        if not self.persistent:
            pytest.skip("this backend keeps nothing")
        base = await self.make(tmp_path)
        await base.open()
        async with base.transaction() as inside:
            await _write(inside, "a")
        with pytest.raises(Undo):
            async with base.transaction() as inside:
                await _write(inside, "b")
                raise Undo
        await base.close()
        again = await self.make(tmp_path)
        await again.open()
        assert await _marks(again) == _all("a")
        await again.close()
