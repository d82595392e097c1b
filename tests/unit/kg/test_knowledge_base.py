"""A base opens and closes as one, and shares a store where it can."""

from __future__ import annotations

from typing import Any

import pytest

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key, knowledge_base
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.types import DocRecord, DocStatus, Extraction, SearchFilter


class Diary:
    """Which storage did what, in order, and which is to fail at what."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.failing: set[tuple[str, str]] = set()

    def write(self, what: str, storage: Any) -> None:
        line = (what, f"{type(storage).__name__}/{storage._namespace}")
        if line in self.failing:
            raise StorageError(f"cannot {what} {line[1]}")
        self.lines.append(line)

    def of(self, what: str) -> list[str]:
        return [name for done, name in self.lines if done == what]


class Noted:
    """Notes the life of a storage in the diary of its class."""

    diary: Diary

    async def open(self) -> None:
        self.diary.write("open", self)
        await super().open()  # type: ignore[misc]

    async def flush(self) -> None:
        self.diary.write("flush", self)

    async def close(self) -> None:
        self.diary.write("close", self)
        await super().close()  # type: ignore[misc]


@pytest.fixture
def diary() -> Diary:
    return Diary()


def _base(diary: Diary, *, store: bool = True) -> KnowledgeBase:
    roles = (MemoryKVStorage, MemoryDocStatusStorage, MemoryVectorStorage, MemoryLexicalStorage, MemoryGraphStorage)
    extra: dict[str, Any] = {"diary": diary} | ({} if store else {"store": None})
    kinds: list[Any] = [type(role.__name__.removeprefix("Memory"), (Noted, role), extra) for role in roles]
    return knowledge_base(*(kind() for kind in kinds))


async def test_everything_is_opened_and_closed_in_reverse(diary: Diary) -> None:
    base = _base(diary)
    await base.open()
    assert len(diary.of("open")) == len(list(base.storages()))
    assert diary.of("open")[-1] == "DocStatusStorage/doc_status"
    await base.close()
    assert diary.of("close") == diary.of("open")[::-1]


async def test_what_was_opened_is_closed_if_one_cannot_be_opened(diary: Diary) -> None:
    base = _base(diary)
    diary.failing.add(("open", "VectorStorage/entity_vectors"))
    with pytest.raises(StorageError, match="cannot open VectorStorage/entity_vectors"):
        await base.open()
    assert diary.of("close") == diary.of("open")[::-1]
    assert "VectorStorage/chunk_vectors" in diary.of("close")


async def test_all_are_closed_even_if_one_fails(diary: Diary) -> None:
    base = _base(diary)
    await base.open()
    diary.failing = {("close", "KVStorage/stamps"), ("close", "GraphStorage/graph")}
    with pytest.raises(StorageError, match="KVStorage/stamps") as caught:
        await base.close()
    assert "GraphStorage/graph" in str(caught.value.__context__)
    assert len(diary.of("close")) == len(diary.of("open")) - 2


async def test_a_flush_reaches_everyone_the_status_last(diary: Diary) -> None:
    base = _base(diary)
    await base.open()
    await base.flush()
    assert len(diary.of("flush")) == len(diary.of("open"))
    assert diary.of("flush")[-1] == "DocStatusStorage/doc_status"


async def test_a_transaction_without_stores_ends_in_a_flush_the_status_last(diary: Diary) -> None:
    base = _base(diary, store=False)
    await base.open()
    async with base.transaction() as inside:
        await inside.stamps.put_many({"a": {}})
        assert await base.stamps.get_many(["a"]) == {"a": {}}
        assert diary.of("flush") == []
    assert diary.of("flush")[-1] == "DocStatusStorage/doc_status"
    assert len(diary.of("flush")) == len(diary.of("open"))


async def test_a_transaction_with_a_store_leaves_durability_to_it(diary: Diary) -> None:
    base = _base(diary)
    await base.open()
    async with base.transaction() as inside:
        await inside.stamps.put_many({"a": {}})
    assert diary.of("flush") == []


async def test_a_transaction_without_stores_that_raises_flushes_nothing(diary: Diary) -> None:
    base = _base(diary, store=False)
    await base.open()
    with pytest.raises(ZeroDivisionError):
        async with base.transaction():
            raise ZeroDivisionError
    assert diary.of("flush") == []


def test_storages_of_one_store_share_it_and_others_do_not() -> None:
    store = MemoryStore()
    base = knowledge_base(
        MemoryKVStorage(store),
        MemoryDocStatusStorage(store),
        MemoryVectorStorage(),
        MemoryLexicalStorage(store),
        MemoryGraphStorage(),
    )
    assert base.stamps.store is base.status.store is base.lexical.store is store
    assert len({base.stamps.store, base.chunk_vectors.store, base.graph.store}) == 3
    assert base.chunk_vectors.store is base.entity_vectors.store


async def test_workspaces_of_one_backend_are_apart() -> None:
    store = MemoryStore()

    def base(workspace: str) -> KnowledgeBase:
        return knowledge_base(
            MemoryKVStorage(store),
            MemoryDocStatusStorage(store),
            MemoryVectorStorage(store),
            MemoryLexicalStorage(store),
            MemoryGraphStorage(store),
            workspace,
        )

    one, other = base("one"), base("two")
    await one.open()
    await other.open()
    await one.stamps.put_many({"a": {}})
    assert await other.stamps.get_many(["a"]) == {}


async def test_a_table_gives_and_takes_values() -> None:
    base = _base(Diary())
    await base.open()
    values = {
        extraction_key("c1", "local"): Extraction("c1", "d", "local"),
        extraction_key("c1", "llm"): Extraction("c1", "d", "llm"),
    }
    await base.extractions.put_many(values)
    await base.extractions.put_many({extraction_key("c10", "llm"): Extraction("c10", "d", "llm")})
    assert await base.extractions.get_many([*values, "absent"]) == values
    assert {key: value async for key, value in base.extractions.scan(extraction_key("c1", ""))} == values
    await base.extractions.delete_many(list(values))
    assert [key async for key, _ in base.extractions.scan()] == ["c10/llm"]


async def _with_records() -> KnowledgeBase:
    base = _base(Diary())
    await base.open()
    await base.status.put(
        [
            DocRecord("1", "a", DocStatus.PROCESSED, collection="x", metadata={"year": 2024, "lang": "fr"}),
            DocRecord("2", "b", DocStatus.PROCESSED, collection="x", metadata={"year": 2024}),
            DocRecord("3", "c", DocStatus.PROCESSED, collection="y", metadata={"year": 2024, "lang": "fr"}),
        ]
    )
    return base


async def test_a_filter_of_nothing_is_none() -> None:
    assert await (await _with_records()).resolve(SearchFilter()) is None


@pytest.mark.parametrize("given", [SearchFilter(collections=frozenset()), SearchFilter(document_ids=frozenset({"9"}))])
async def test_a_filter_without_metadata_stays(given: SearchFilter) -> None:
    assert await (await _with_records()).resolve(given) is given


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (SearchFilter(metadata={"year": 2024}), {"1", "2", "3"}),
        (SearchFilter(metadata={"year": 2024, "lang": "fr"}), {"1", "3"}),
        (SearchFilter(metadata={"lang": "fr"}, collections=frozenset({"x"})), {"1"}),
        (SearchFilter(metadata={"lang": "fr"}, document_ids=frozenset({"2", "3"})), {"3"}),
        (SearchFilter(metadata={"lang": "de"}), set()),
        (SearchFilter(metadata={"pages": 1}), set()),
    ],
)
async def test_metadata_become_document_ids(given: SearchFilter, ids: set[str]) -> None:
    resolved = await (await _with_records()).resolve(given)
    assert resolved is not None
    assert resolved.document_ids == frozenset(ids)
    assert resolved.collections == given.collections
    assert resolved.metadata == {}
