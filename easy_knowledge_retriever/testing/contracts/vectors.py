"""What a vector storage promises."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.testing.contracts.storage import StorageContract
from easy_knowledge_retriever.types import FloatVector, SearchFilter, VectorRecord

__all__ = ["VectorStorageContract"]

CLOSE = 2e-3
"""A storage may keep vectors in half precision, or those of many dimensions with a byte each."""
NAN, INFINITE = float("nan"), float("inf")


def _vector(*values: float) -> FloatVector:
    return np.array(values, dtype=np.float32)


class VectorStorageContract(StorageContract[VectorStorage]):
    """Suite of :class:`VectorStorage`."""

    async def write(self, storage: VectorStorage, mark: str) -> None:
        await storage.put_many([VectorRecord(mark, _vector(1, 2, 3))])

    async def marks(self, storage: VectorStorage) -> set[str]:
        return set(await storage.ids())

    async def test_scores_are_cosines_best_first(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        hits = await storage.search(_vector(30, 40, 0), 10)
        assert [hit.id for hit in hits] == ["y", "x", "z", "-x"]
        assert [hit.score for hit in hits] == pytest.approx([0.8, 0.6, 0.0, -0.6], abs=CLOSE)
        assert all(type(hit.score) is float for hit in hits)

    async def test_a_score_never_leaves_its_range(self, storage: VectorStorage) -> None:
        values = np.random.default_rng(0).standard_normal((50, 33)).astype(np.float32)
        await storage.put_many([VectorRecord(f"{n:02}", row) for n, row in enumerate(values)])
        for row in values:
            hits = await storage.search(row, 50)
            assert all(-1 <= hit.score <= 1 for hit in hits)
            assert hits[0].score == pytest.approx(1, abs=CLOSE)

    async def test_vectors_of_many_dimensions_keep_their_cosines(self, storage: VectorStorage) -> None:
        values = np.random.default_rng(3).standard_normal((60, 384)).astype(np.float32)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        await storage.put_many([VectorRecord(f"{n:02}", row) for n, row in enumerate(values)])
        for row in values[:10]:
            found = {hit.id: hit.score for hit in await storage.search(row, 60)}
            assert [found[f"{n:02}"] for n in range(60)] == pytest.approx((values @ row).tolist(), abs=CLOSE)

    async def test_what_was_read_and_is_written_again_stays(self, storage: VectorStorage) -> None:
        values = np.random.default_rng(4).standard_normal((9, 200)).astype(np.float32)
        await storage.put_many([VectorRecord(f"{n}", row) for n, row in enumerate(values)])
        read = await storage.vectors(await storage.ids())
        await storage.put_many([VectorRecord(key, vector) for key, vector in read.items()])
        for key, vector in (await storage.vectors(await storage.ids())).items():
            assert vector.tolist() == read[key].tolist()

    async def test_no_more_than_top_k(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        assert [hit.id for hit in await storage.search(_vector(3, 4, 0), 2)] == ["y", "x"]
        assert await storage.search(_vector(3, 4, 0), 0) == []

    async def test_ties_are_in_order_of_id(self, storage: VectorStorage) -> None:
        names = [f"{n:03}" for n in range(60)]
        random.Random(1).shuffle(names)
        same = np.random.default_rng(1).standard_normal(19).astype(np.float32)
        await storage.put_many([VectorRecord(name, same) for name in names])
        for top_k in (1, 7, 60):
            assert [hit.id for hit in await storage.search(same, top_k)] == sorted(names)[:top_k]

    async def test_an_empty_storage_finds_nothing(self, storage: VectorStorage) -> None:
        assert await storage.search(_vector(1, 0), 5) == []
        assert await storage.search(_vector(1, 0), 5, SearchFilter(document_ids=frozenset({"d"})), ["a"]) == []

    async def test_nothing_asked_nothing_given(self, storage: VectorStorage) -> None:
        await storage.put_many([])
        await storage.delete_many([])
        assert await storage.vectors([]) == {}
        assert await storage.ids() == []
        assert await storage.count() == 0

    async def test_a_filter_on_documents(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        assert await self._found(storage, SearchFilter(document_ids=frozenset({"d2"}))) == ["z", "-x"]
        assert await self._found(storage, SearchFilter(document_ids=frozenset({"d1", "d9"}))) == ["y", "x"]

    async def test_a_filter_on_collections(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        assert await self._found(storage, SearchFilter(collections=frozenset({"even"}))) == ["y", "z"]
        assert await self._found(storage, SearchFilter(collections=frozenset({""}))) == ["x"]

    async def test_the_conditions_of_a_filter_hold_at_once(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        both = SearchFilter(collections=frozenset({"even"}), document_ids=frozenset({"d2"}))
        assert await self._found(storage, both) == ["z"]

    async def test_an_empty_set_means_nothing_and_none_means_all(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        assert await self._found(storage, SearchFilter(collections=frozenset())) == []
        assert await self._found(storage, SearchFilter(document_ids=frozenset())) == []
        assert await storage.search(_vector(3, 4, 0), 10, ids=[]) == []
        assert len(await self._found(storage, SearchFilter())) == 4

    async def test_a_filter_comes_before_top_k(self, storage: VectorStorage) -> None:
        await storage.put_many([VectorRecord(f"{n}", _vector(1, n), "many") for n in range(100)])
        await storage.put_many([VectorRecord("far", _vector(-1, 0), "one")])
        hits = await storage.search(_vector(1, 0), 1, SearchFilter(document_ids=frozenset({"one"})))
        assert [hit.id for hit in hits] == ["far"]

    async def test_only_the_rows_asked_for(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        assert [hit.id for hit in await storage.search(_vector(3, 4, 0), 10, ids={"x", "z", "absent"})] == ["x", "z"]
        second = SearchFilter(document_ids=frozenset({"d2"}))
        assert [hit.id for hit in await storage.search(_vector(3, 4, 0), 10, second, ["x", "z"])] == ["z"]

    async def test_vectors_come_out_with_length_one(self, storage: VectorStorage) -> None:
        await storage.put_many([VectorRecord("a", _vector(3, 4)), VectorRecord("b", _vector(-1e-3, 0))])
        vectors = await storage.vectors(["b", "absent", "a"])
        assert vectors.keys() == {"a", "b"}
        assert vectors["a"] == pytest.approx([0.6, 0.8], abs=1e-3)
        assert vectors["b"] == pytest.approx([-1, 0], abs=1e-3)
        assert vectors["a"].dtype == np.float32
        assert vectors["a"].shape == (2,)

    async def test_a_vector_shares_no_state(self, storage: VectorStorage) -> None:
        given = _vector(3, 4)
        await storage.put_many([VectorRecord("a", given)])
        assert given.tolist() == [3, 4]
        given[:] = 0
        taken = (await storage.vectors(["a"]))["a"]
        with suppress(ValueError):  # it may be read-only
            taken[:] = 0
        assert (await storage.vectors(["a"]))["a"] == pytest.approx([0.6, 0.8], abs=1e-3)

    async def test_overwriting_replaces_vector_and_document(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        await storage.put_many([VectorRecord("x", _vector(0, 0, 1), "d2", "new")])
        assert await storage.count() == 4
        assert await self._found(storage, SearchFilter(document_ids=frozenset({"d1"}))) == ["y"]
        assert await self._found(storage, SearchFilter(collections=frozenset({"new"}))) == ["x"]
        assert (await storage.vectors(["x"]))["x"] == pytest.approx([0, 0, 1], abs=1e-3)

    async def test_the_last_record_of_an_id_stays(self, storage: VectorStorage) -> None:
        await storage.put_many([VectorRecord("a", _vector(1, 0)), VectorRecord("a", _vector(0, 1))])
        assert await storage.count() == 1
        assert (await storage.vectors(["a"]))["a"] == pytest.approx([0, 1], abs=1e-3)

    async def test_deleting_takes_what_exists(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        await storage.delete_many(["x", "absent", "x"])
        assert await storage.ids() == ["-x", "y", "z"]
        assert await storage.count() == 3
        assert await storage.vectors(["x"]) == {}
        assert await self._found(storage, None) == ["y", "z", "-x"]

    async def test_ids_are_in_order(self, storage: VectorStorage) -> None:
        await storage.put_many([VectorRecord(key, _vector(1, 0)) for key in ["b", "é", "B", "a", "10", "9"]])
        assert await storage.ids() == ["10", "9", "B", "a", "b", "é"]

    @pytest.mark.parametrize(
        "bad",
        [_vector(1, 2), _vector(1, 2, 3, 4), _vector(0, 0, 0), _vector(NAN, 0, 0), _vector(INFINITE, 0, 0), _vector()],
        ids=["short", "long", "zero", "nan", "infinite", "empty"],
    )
    async def test_a_bad_vector_is_refused_with_its_batch(self, storage: VectorStorage, bad: FloatVector) -> None:
        await self._put_axes(storage)
        batch = [VectorRecord("x", _vector(0, 0, 1)), VectorRecord("new", _vector(1, 1, 1)), VectorRecord("bad", bad)]
        for order in (batch, batch[::-1]):
            with pytest.raises(StorageError):
                await storage.put_many(order)
        assert await storage.ids() == ["-x", "x", "y", "z"]
        assert [hit.id for hit in await storage.search(_vector(3, 4, 0), 10)] == ["y", "x", "z", "-x"]

    async def test_a_first_batch_of_two_dimensions_is_refused(self, storage: VectorStorage) -> None:
        with pytest.raises(StorageError):
            await storage.put_many([VectorRecord("a", _vector(1, 0)), VectorRecord("b", _vector(1, 0, 0))])
        assert await storage.count() == 0
        await storage.put_many([VectorRecord("b", _vector(1, 0, 0))])
        assert await storage.ids() == ["b"]

    async def test_each_namespace_has_a_dimension_of_its_own(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        other = storage.bind("rows_2", "contract")
        await other.open()
        await other.put_many([VectorRecord("x", _vector(1, 0)), VectorRecord("y", _vector(0, 1))])
        assert [hit.id for hit in await other.search(_vector(2, 1), 10)] == ["x", "y"]
        assert await self._found(storage, None) == ["y", "x", "z", "-x"]
        await other.drop()
        await other.close()
        assert await self._found(storage, None) == ["y", "x", "z", "-x"]

    async def test_a_dropped_storage_takes_another_dimension(self, storage: VectorStorage) -> None:
        await self._put_axes(storage)
        await storage.drop()
        await storage.put_many([VectorRecord("a", _vector(1, 0))])
        assert [hit.id for hit in await storage.search(_vector(1, 0), 1)] == ["a"]

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_changed_storage_equals_a_fresh_one(self, storage: VectorStorage, seed: int) -> None:
        choice = random.Random(seed)
        values = np.random.default_rng(seed).standard_normal((40, 8)).astype(np.float32)
        kept: dict[str, VectorRecord] = {}
        for _ in range(25):
            batch = [VectorRecord(f"{choice.randrange(60)}", values[choice.randrange(40)], choice.choice("ab")) for _ in range(5)]
            await storage.put_many(batch)
            kept |= {record.id: record for record in batch}
            gone = choice.sample(sorted(kept), 2)
            await storage.delete_many(gone)
            kept = {key: record for key, record in kept.items() if key not in gone}
        fresh = storage.bind("fresh", "contract")
        await fresh.open()
        await fresh.put_many(list(kept.values()))
        assert await storage.ids() == await fresh.ids() == sorted(kept)
        for seen in (None, SearchFilter(document_ids=frozenset("a"))):
            assert await storage.search(values[0], 60, seen) == await fresh.search(values[0], 60, seen)
        await fresh.close()

    async def test_rows_come_back_whole_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await self._put_axes(storage)
        await storage.delete_many(["y"])
        before = await storage.search(_vector(3, 4, 0), 10)
        await storage.close()
        await storage.open()
        assert await storage.search(_vector(3, 4, 0), 10) == before
        assert await self._found(storage, SearchFilter(document_ids=frozenset({"d2"}))) == ["z", "-x"]
        with pytest.raises(StorageError):
            await storage.put_many([VectorRecord("short", _vector(1, 2))])
        await storage.close()

    @staticmethod
    async def _put_axes(storage: VectorStorage) -> None:
        await storage.put_many(
            [
                VectorRecord("x", _vector(5, 0, 0), "d1", ""),
                VectorRecord("y", _vector(0, 0.5, 0), "d1", "even"),
                VectorRecord("z", _vector(0, 0, 1), "d2", "even"),
                VectorRecord("-x", _vector(-1, 0, 0), "d2", "odd"),
            ]
        )

    @staticmethod
    async def _found(storage: VectorStorage, filter: SearchFilter | None) -> list[str]:
        return [hit.id for hit in await storage.search(_vector(3, 4, 0), 10, filter)]
