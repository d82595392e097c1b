"""What a storage of document status promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage
from easy_knowledge_retriever.testing.contracts.storage import StorageContract
from easy_knowledge_retriever.types import DocRecord, DocStatus, Metadata

__all__ = ["DocStatusStorageContract"]

METADATA: Metadata = {"year": 2024, "draft": False, "score": 0.5, "author": "Ünal"}
FULL = DocRecord(
    id="id-1",
    name="dir/naïve 'report'.pdf",
    status=DocStatus.FAILED,
    collection="laws",
    version="v1",
    pending_version="v2",
    attempts=1,
    stage="embedding",
    error="no answer — in time",
    chunk_count=3,
    page_count=2,
    title="A title",
    track_id="t-1",
    metadata=METADATA,
    created_at="2024-01-02T03:04:05+00:00",
    updated_at="2024-01-02T03:04:06+00:00",
)


class DocStatusStorageContract(StorageContract[DocStatusStorage]):
    """Suite of :class:`DocStatusStorage`."""

    async def write(self, storage: DocStatusStorage, mark: str) -> None:
        await storage.put([DocRecord(mark, mark, DocStatus.PENDING)])

    async def marks(self, storage: DocStatusStorage) -> set[str]:
        return {record.id for record in await storage.page()}

    async def test_records_come_out_equal(self, storage: DocStatusStorage) -> None:
        await storage.put([FULL])
        assert await storage.get(["id-1"]) == {"id-1": FULL}
        assert await storage.page() == [FULL]
        assert await storage.by_status(DocStatus.FAILED) == [FULL]
        assert isinstance((await storage.get(["id-1"]))["id-1"].status, DocStatus)

    async def test_records_are_there_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await storage.put([FULL])
        await storage.close()
        await storage.open()
        assert await storage.get(["id-1"]) == {"id-1": FULL}
        await storage.close()

    async def test_an_absent_id_is_absent(self, storage: DocStatusStorage) -> None:
        await storage.put([FULL])
        assert await storage.get(["id-2", "id-1", "ID-1"]) == {"id-1": FULL}

    async def test_nothing_asked_nothing_given(self, storage: DocStatusStorage) -> None:
        await storage.put([])
        await storage.delete([])
        assert await storage.get([]) == {}
        assert await storage.page() == []
        assert await storage.by_status(DocStatus.PENDING) == []

    async def test_overwriting_moves_a_record_to_its_new_status(self, storage: DocStatusStorage) -> None:
        await storage.put([FULL])
        done = replace(FULL, status=DocStatus.PROCESSED, version="v2", pending_version="", error="", metadata={})
        await storage.put([done])
        assert await storage.get(["id-1"]) == {"id-1": done}
        assert await storage.by_status(DocStatus.FAILED) == []
        assert await storage.by_status(DocStatus.PROCESSED) == [done]

    async def test_any_iterable_is_taken_and_the_last_record_of_an_id_stays(self, storage: DocStatusStorage) -> None:
        await storage.put(DocRecord("a", name, DocStatus.PENDING) for name in ("one", "two"))
        assert [record.name for record in await storage.page()] == ["two"]

    async def test_deleting_takes_what_exists(self, storage: DocStatusStorage) -> None:
        await self.write(storage, "a")
        await self.write(storage, "b")
        await storage.delete(["a", "zzz"])
        assert await self.marks(storage) == {"b"}
        assert [record.id for record in await storage.by_status(DocStatus.PENDING)] == ["b"]

    async def test_records_are_in_order_of_name_and_id(self, storage: DocStatusStorage) -> None:
        await self._put_unordered(storage)
        assert [record.id for record in await storage.page()] == ["5", "3", "1", "2", "4"]
        assert [record.id for record in await storage.by_status(DocStatus.PENDING)] == ["3", "2", "4"]

    async def test_a_page_is_a_slice_of_the_order(self, storage: DocStatusStorage) -> None:
        await self._put_unordered(storage)
        assert [record.id for record in await storage.page(1, 2)] == ["3", "1"]
        assert [record.id for record in await storage.page(offset=3)] == ["2", "4"]
        assert [record.id for record in await storage.page(limit=1)] == ["5"]
        assert [record.id for record in await storage.page(3, 10)] == ["2", "4"]
        assert await storage.page(limit=0) == []
        assert await storage.page(offset=5) == []

    async def test_a_record_shares_no_state(self, storage: DocStatusStorage) -> None:
        given = {"a": 1}
        await storage.put([replace(FULL, metadata=given)])
        given["a"] = 2
        taken = (await storage.get(["id-1"]))["id-1"].metadata
        assert taken == {"a": 1}
        if isinstance(taken, dict):
            taken["a"] = 3
        assert (await storage.page())[0].metadata == {"a": 1}

    @staticmethod
    async def _put_unordered(storage: DocStatusStorage) -> None:
        await storage.put(
            [
                DocRecord("4", "é", DocStatus.PENDING),
                DocRecord("2", "b", DocStatus.PENDING),
                DocRecord("1", "b", DocStatus.PROCESSED),
                DocRecord("3", "a", DocStatus.PENDING),
                DocRecord("5", "B", DocStatus.PROCESSED),
            ]
        )
