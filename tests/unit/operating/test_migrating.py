"""A base on other storages is the same base."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import ConfigError, StorageError, StoreCorruptError
from easy_knowledge_retriever.events import BaseProgress, Event
from easy_knowledge_retriever.operating import filling
from easy_knowledge_retriever.operating.migrating import migrate_base
from easy_knowledge_retriever.operating.rows import Row, put_rows, rows_of
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import storage_set
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from tests.flows.ingesting_base import empty_base
from tests.unit.operating.moving_base import fill_with_documents

TEXT = "Ida Brandt was a botanist. She lived in Marlow near the Verdel."


async def test_the_source_is_as_it_was_and_the_target_equal() -> None:
    source, target, events = await empty_base(), await empty_base(), list[Event]()
    await fill_with_documents(source)
    before = [row.line async for row in rows_of(source)]
    assert await migrate_base(source, target, events.append) == len(before)
    assert [row.line async for row in rows_of(source)] == before
    assert [row.line async for row in rows_of(target)] == before
    assert await canonical_dump(target) == await canonical_dump(source)
    assert [event.step for event in events if isinstance(event, BaseProgress)] == ["migrate", "compare"]


async def test_a_target_that_writes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    source = await empty_base()
    await fill_with_documents(source)
    real = put_rows

    async def damaged(inside: object, rows: list[Row]) -> None:
        changed = [
            dataclasses.replace(row, value={**row.value, "summary": "?"}) if row.role == "entities" else row for row in rows
        ]
        await real(inside, changed)  # type: ignore[arg-type]

    async def losing(inside: object, rows: list[Row]) -> None:
        await real(inside, [row for row in rows if row.role != "status"])  # type: ignore[arg-type]

    async def turned(inside: object, rows: list[Row]) -> None:
        vectors = [row.value for row in rows if row.role == "chunk_vectors"]
        others = iter(vectors[1:] + vectors[:1])
        await real(
            inside,  # type: ignore[arg-type]
            [dataclasses.replace(row, value=next(others)) if row.role == "chunk_vectors" else row for row in rows],
        )

    for wrong, role in ((damaged, "entities"), (losing, "status"), (turned, "chunk_vectors")):
        monkeypatch.setattr(filling, "put_rows", wrong)
        with pytest.raises(StoreCorruptError, match=f"not as the one it was made of: {role}"):
            await migrate_base(source, await empty_base())


@pytest.mark.damages
async def test_a_retriever_moves_its_base_and_half_of_one_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def retriever(folder: str, backend: str = "sqlite") -> EasyKnowledgeRetriever:
        return EasyKnowledgeRetriever(tmp_path / folder, embedding_service=FakeEmbeddingService(16), **storage_set(backend))

    monkeypatch.setattr(filling, "_ROWS", 5)
    async with retriever("one") as source:
        await source.ainsert([TEXT], file_paths=["brandt.txt"])
        target = retriever("two", "files")

        def interrupt(event: Event) -> None:
            raise StorageError("the disk is gone")

        source.observer = interrupt
        with pytest.raises(StorageError, match="the disk is gone"):
            await source.migrate_to(target)
        with pytest.raises(StoreCorruptError, match="only 5 rows of this base"):
            await target.initialize_storages()
        source.observer = lambda event: None
        await source.migrate_to(target)
        async with retriever("two", "files") as moved:
            assert (await moved.verify(deep=True)).clean
            with pytest.raises(ConfigError, match="is open"):
                await source.migrate_to(moved)
            with pytest.raises(ConfigError, match="is open"):
                await moved.import_base(tmp_path / "base.jsonl")
            assert (await moved.export(tmp_path / "base.jsonl"))["documents"] == 1
        assert await retriever("three").import_base(tmp_path / "base.jsonl") > 0
