"""What a key-value storage promises."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage
from easy_knowledge_retriever.testing.contracts.storage import StorageContract

__all__ = ["KVStorageContract"]

VALUE: dict[str, Any] = {
    "text": "naïve — 索引 🙂 'quoted' \"twice\" \\ \n\t\u2028 {0} %s",
    "control": "\x00\x0b\x1f",
    "whole": 2**53,
    "real": 0.1,
    "yes": True,
    "nothing": None,
    "list": [1, [2, []], {"deep": {"er": ""}}],
    "__class__": {"$type": "os.system", "lc": 1},
    "": {},
}


class KVStorageContract(StorageContract[KVStorage]):
    """Suite of :class:`KVStorage`."""

    async def write(self, storage: KVStorage, mark: str) -> None:
        await storage.put_many({mark: {"mark": mark}})

    async def marks(self, storage: KVStorage) -> set[str]:
        return {key async for key, _ in storage.scan()}

    async def test_values_come_out_equal(self, storage: KVStorage) -> None:
        await storage.put_many({"a": VALUE, "b": {}})
        assert await storage.get_many(["a", "b"]) == {"a": VALUE, "b": {}}
        assert [pair async for pair in storage.scan()] == [("a", VALUE), ("b", {})]

    async def test_numbers_keep_their_kind(self, storage: KVStorage) -> None:
        await storage.put_many({"a": {"whole": 1, "real": 1.0, "truth": True}})
        value = (await storage.get_many(["a"]))["a"]
        assert {name: type(part) for name, part in value.items()} == {"whole": int, "real": float, "truth": bool}

    async def test_values_are_there_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await storage.put_many({"a": VALUE})
        await storage.close()
        await storage.open()
        assert await storage.get_many(["a"]) == {"a": VALUE}
        await storage.close()

    async def test_any_mapping_is_taken(self, storage: KVStorage) -> None:
        await storage.put_many({"a": MappingProxyType({"b": MappingProxyType({"c": 1})})})
        assert await storage.get_many(["a"]) == {"a": {"b": {"c": 1}}}

    async def test_an_absent_key_is_absent(self, storage: KVStorage) -> None:
        await storage.put_many({"a": {"n": 1}})
        assert await storage.get_many(["b", "a", "A", ""]) == {"a": {"n": 1}}

    async def test_nothing_asked_nothing_given(self, storage: KVStorage) -> None:
        await storage.put_many({})
        await storage.delete_many([])
        assert await storage.get_many([]) == {}
        assert [pair async for pair in storage.scan()] == []

    async def test_many_keys_at_once(self, storage: KVStorage) -> None:
        values: dict[str, JsonObject] = {f"k{n:05}": {"n": n} for n in range(3000)}
        await storage.put_many(values)
        assert await storage.get_many(list(values)) == values
        await storage.delete_many(list(values)[1:])
        assert await storage.get_many(list(values)) == {"k00000": {"n": 0}}

    async def test_a_key_twice_is_given_once(self, storage: KVStorage) -> None:
        await storage.put_many({"a": {"n": 1}})
        assert await storage.get_many(["a", "a"]) == {"a": {"n": 1}}

    async def test_overwriting_replaces_the_whole_value(self, storage: KVStorage) -> None:
        await storage.put_many({"a": {"n": 1, "old": 1}, "b": {"n": 2}})
        await storage.put_many({"a": {"n": 3}})
        assert await storage.get_many(["a", "b"]) == {"a": {"n": 3}, "b": {"n": 2}}

    async def test_deleting_takes_what_exists(self, storage: KVStorage) -> None:
        await storage.put_many({"a": {}, "b": {}})
        await storage.delete_many(["a", "zzz", "a"])
        assert await self.marks(storage) == {"b"}

    async def test_a_value_shares_no_state(self, storage: KVStorage) -> None:
        given: dict[str, Any] = {"list": [1]}
        await storage.put_many({"a": given})
        given["list"].append(2)
        taken: Any = (await storage.get_many(["a"]))["a"]
        assert taken == {"list": [1]}
        taken["list"].append(3)
        scanned: Any = [value async for _, value in storage.scan()]
        assert scanned == [{"list": [1]}]
        scanned[0]["list"].append(4)
        assert await storage.get_many(["a"]) == {"a": {"list": [1]}}

    async def test_scan_is_in_order_of_code_points(self, storage: KVStorage) -> None:
        keys = ["Z", "a", "aa", "é", "\uffee", "\U0001f642", "B", "10", "9"]
        await storage.put_many({key: {} for key in keys})
        assert [key async for key, _ in storage.scan()] == ["10", "9", "B", "Z", "a", "aa", "é", "\uffee", "\U0001f642"]

    async def test_scan_takes_the_prefix_literally(self, storage: KVStorage) -> None:
        keys = ["a/1", "a/2", "a/\U0010ffff", "a", "a0", "A/1", "b/1", "a%1", "a_1", "a*1", "a?1", "a[b]1", "a\\1"]
        await storage.put_many({key: {} for key in keys})
        assert [key async for key, _ in storage.scan("a/")] == ["a/1", "a/2", "a/\U0010ffff"]
        for prefix in ("a%", "a_", "a*", "a?", "a[b]", "a\\"):
            assert [key async for key, _ in storage.scan(prefix)] == [prefix + "1"]
        assert [key async for key, _ in storage.scan("c")] == []
