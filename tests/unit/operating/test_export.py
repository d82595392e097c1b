"""A whole base as a file, and a file as a base."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import ConfigError, NotFound, StorageError, StoreCorruptError, StoreVersionError
from easy_knowledge_retriever.events import BaseProgress, Event
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.operating import filling
from easy_knowledge_retriever.operating.exporting import export_base
from easy_knowledge_retriever.operating.filling import refuse_unfinished
from easy_knowledge_retriever.operating.importing import import_base
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import empty_base
from tests.unit.operating.moving_base import fill_with_documents, on, opened


@pytest.fixture
async def exported(tmp_path: Path) -> Path:
    base = await empty_base()
    await fill_with_documents(base)
    await export_base(base, tmp_path / "base.jsonl")
    return tmp_path / "base.jsonl"


@pytest.mark.parametrize("backend", ["sqlite", "files"])
async def test_an_imported_base_is_the_one_that_was_exported(tmp_path: Path, backend: str) -> None:
    base = await empty_base()
    await fill_with_documents(base)
    counts = await export_base(base, tmp_path / "base.jsonl")
    assert counts["chunks"] == 7
    assert counts["llm_cache"] == 1
    events: list[Event] = []
    async with opened(on(backend, tmp_path / "new")) as new:
        assert await import_base(new, tmp_path / "base.jsonl", events.append) == counts.total()
        assert await canonical_dump(new) == await canonical_dump(base)
        assert (await verify(new, deep=True)).findings == ()
        assert await new.llm_cache.get_many(["a reply"]) == {"a reply": {"text": "kept", "at": 1}}
        await export_base(new, tmp_path / "again.jsonl")
    assert events[-1] == BaseProgress("import", "status", counts.total())
    async with opened(on(backend, tmp_path / "newer")) as newer:  # vectors that were read once stay as they are
        await import_base(newer, tmp_path / "again.jsonl")
        await export_base(newer, tmp_path / "once more.jsonl")
    assert (tmp_path / "once more.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


async def test_an_empty_base_is_exported_and_imported(tmp_path: Path) -> None:
    assert (await export_base(await empty_base(), tmp_path / "base.jsonl")).total() == 0
    assert await import_base(await empty_base(), tmp_path / "base.jsonl") == 0


async def test_every_member_of_a_base_is_exported_or_left_out_on_purpose(exported: Path) -> None:
    roles = {json.loads(line)[0] for line in exported.read_bytes().splitlines()[1:-1]}
    assert {"documents", "chunks", "manifests", "extractions", "names", "parses", "stamps", "status"} <= roles
    assert {"chunk_vectors", "entity_vectors", "entities", "relations", "mentions", "llm_cache"} <= roles
    assert "vector_index" not in roles


async def test_only_an_empty_base_is_imported_into(exported: Path) -> None:
    base = await empty_base()
    await fill_with_documents(base)
    before = await canonical_dump(base)
    with pytest.raises(ConfigError, match="holds something already"):
        await import_base(base, exported)
    assert await canonical_dump(base) == before


@pytest.mark.parametrize("rows", [1, 3])
async def test_an_interrupted_import_is_no_base_and_goes_on(exported: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(filling, "_ROWS", rows)
    whole, half, written = await empty_base(), await empty_base(), []
    await import_base(whole, exported)

    def interrupt(event: Event) -> None:
        assert isinstance(event, BaseProgress)
        written.append(event.rows)
        if event.rows >= 30:
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError, match="the disk is gone"):
        await import_base(half, exported, interrupt)
    with pytest.raises(StoreCorruptError, match="run the same import"):
        await refuse_unfinished(half)
    last, events = written[-1], list[Event]()
    await import_base(half, exported, events.append)
    assert isinstance(events[0], BaseProgress)
    assert events[0].rows == last + rows
    await refuse_unfinished(half)
    assert await canonical_dump(half) == await canonical_dump(whole)


async def test_half_of_another_import_gives_way(exported: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(filling, "_ROWS", 10)
    other, half = await empty_base(), await empty_base()
    await export_base(other, tmp_path / "empty.jsonl")
    await fill_with_documents(other)
    await other.llm_cache.put_many({"another reply": {"text": "kept", "at": 1}})
    await export_base(other, tmp_path / "other.jsonl")

    def interrupt(event: Event) -> None:
        raise StorageError("the disk is gone")

    with pytest.raises(StorageError):
        await import_base(half, exported, interrupt)
    await import_base(half, tmp_path / "empty.jsonl")
    assert await import_base(half, tmp_path / "other.jsonl") > 0
    assert await canonical_dump(half) == await canonical_dump(other)


async def test_an_export_that_fails_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "base.jsonl"
    path.write_text("before")
    base = await empty_base()
    await fill_with_documents(base)

    async def fail() -> list[str]:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(type(base.graph), "keys", lambda _: fail())
    with pytest.raises(StorageError):
        await export_base(base, path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["base.jsonl"]
    with pytest.raises(StorageError, match="was not written"):
        await export_base(await empty_base(), tmp_path / "nowhere" / "base.jsonl")


def _sealed(*lines: bytes) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    end = {"rows": {"rows": len(lines) - 1}, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


HEAD = b'{"format":"easy-knowledge-retriever base","version":1}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# a document\n",
        b'{"format":"something else","version":1}\n',
        b"[1]\n",
        b"[" * 100_000,
        HEAD + b"\n",
        _sealed(HEAD, b"[]"),
        _sealed(HEAD, b"{"),
        _sealed(HEAD, b'["kv",1,{}]'),
        _sealed(HEAD, b'["nothing","key",{}]'),
        _sealed(HEAD, b'["chunks","key",{"id":"key"}]'),
        _sealed(HEAD, b'["chunk_vectors","key",{"vector":"!"}]'),
        _sealed(HEAD, b'["chunk_vectors","key",{"vector":"AAA="}]'),
        _sealed(HEAD, b'["mentions","key",{"edges":[[]]}]'),
        _sealed(HEAD, b'["relations","key",{"edges":[[]]}]'),
        _sealed(HEAD, b'["status","key",{"id":"key"}]'),
    ],
)
async def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "base.jsonl").write_bytes(content)
    base = await empty_base()
    with pytest.raises(StoreCorruptError):
        await import_base(base, tmp_path / "base.jsonl")
    assert not await base.status.page()


async def test_a_changed_or_cut_file_is_refused_before_anything_is_written(exported: Path) -> None:
    whole = exported.read_bytes()
    for damaged in (whole[:-200], whole.replace(b"Kell", b"Hell", 1), whole[:-1] + b"\n\n", whole + b"[]\n"):
        exported.write_bytes(damaged)
        base = await empty_base()
        with pytest.raises(StoreCorruptError, match="cut off or was changed"):
            await import_base(base, exported)
        await refuse_unfinished(base)


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base.jsonl").write_bytes(HEAD.replace(b"1}", b"2}") + b"\n")
    with pytest.raises(StoreVersionError, match="has format 2, this library knows up to 1"):
        await import_base(await empty_base(), tmp_path / "base.jsonl")
    with pytest.raises(NotFound):
        await import_base(await empty_base(), tmp_path / "nothing.jsonl")
    with pytest.raises(StorageError):
        await import_base(await empty_base(), tmp_path)
