"""The files of a folder: what failures, crashes, other processes and damaged files do to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easy_knowledge_retriever.errors import (
    ConfigError,
    StorageError,
    StorageNotOpenError,
    StoreCorruptError,
    StoreVersionError,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.kg.codecs import encode_entity
from easy_knowledge_retriever.kg.files import disk, storage
from easy_knowledge_retriever.kg.files import state as state_module
from easy_knowledge_retriever.kg.files import store as store_module
from easy_knowledge_retriever.kg.files.manifest import read_manifest
from easy_knowledge_retriever.kg.files.store import FileStore
from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.json_doc_status_impl import JsonDocStatusStorage
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage
from easy_knowledge_retriever.types import DocRecord, DocStatus, Entity, LexicalRecord, MentionEdge, VectorRecord
from tests.support.disk import watch

ONES = np.ones(2, np.float32)


def made(folder: Path, **options: Any) -> KnowledgeBase:
    return knowledge_base(
        JsonKVStorage(folder, **options),
        JsonDocStatusStorage(folder),
        NanoVectorDBStorage(folder),
        BM25Storage(folder),
        NetworkXStorage(folder),
    )


async def opened(folder: Path, **options: Any) -> KnowledgeBase:
    base = made(folder, **options)
    await base.open()
    return base


def store_of(base: KnowledgeBase) -> FileStore:
    store = base.status.store
    assert isinstance(store, FileStore)
    return store


async def put(base: KnowledgeBase, mark: str) -> None:
    """One commit over all roles."""
    async with base.transaction() as inside:
        await inside.stamps.put_many({mark: {"text": "x" * 200}})
        await inside.chunk_vectors.put_many([VectorRecord(mark, ONES, mark)])
        await inside.lexical.put_many([LexicalRecord(mark, {"text": ("word",)})])
        await inside.graph.put_entities([Entity(mark)])
        await inside.graph.put_mentions([MentionEdge(mark, mark, mark)])
        await inside.status.put([DocRecord(mark, mark, DocStatus.PROCESSED)])


async def marks(base: KnowledgeBase) -> list[str]:
    """What every role shows; the same everywhere."""
    found = [
        [key async for key, _ in base.stamps.scan()],
        sorted(hit.id for hit in await base.chunk_vectors.search(ONES, 1000)),
        sorted(hit.id for hit in await base.lexical.search(["word"], 1000)),
        await base.graph.keys(),
        [record.id for record in await base.status.page()],
    ]
    assert all(other == found[0] for other in found), found
    return found[0]


async def reopened(folder: Path) -> list[str]:
    base = await opened(folder)
    found = await marks(base)
    await base.close()
    return found


def journal_of(folder: Path) -> Path:
    (found,) = folder.glob("journal-*.log")
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_reading_writes_nothing(tmp_path: Path) -> None:
    assert await reopened(tmp_path / "base") == []
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize("least", [1 << 20, 1])
async def test_commits_are_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(state_module, "LEAST", least)
    base = await opened(tmp_path)
    names = [f"{number:02}" for number in range(30)]
    for name in names:
        await put(base, name)
    assert await reopened(tmp_path) == names
    await base.close()
    assert await reopened(tmp_path) == names
    kept = files_in(tmp_path).keys()
    manifest = await read_manifest(tmp_path)
    assert kept == {"manifest.json", "claims", manifest.journal, *manifest.snapshots.values()}
    assert (manifest.generation > 3) == (least == 1)


async def test_a_commit_costs_what_it_writes(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    await base.stamps.put_many({f"{number}": {"text": "x" * 200} for number in range(5000)})
    before = journal_of(tmp_path).stat().st_size
    await put(base, "b")
    first = journal_of(tmp_path).stat().st_size - before
    assert first < 2000
    generation = (await read_manifest(tmp_path)).generation
    await base.close()
    assert (await read_manifest(tmp_path)).generation == generation


async def test_the_journal_is_folded_when_it_outgrows_a_share_of_the_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "LEAST", 1000)
    written: list[int] = []
    original = disk.write_atomically

    def counted(path: Path, pieces: Any) -> None:
        original(path, pieces)
        written.append(path.stat().st_size)

    monkeypatch.setattr(disk, "write_atomically", counted)
    kv = JsonKVStorage(tmp_path).bind("rows")
    await kv.open()
    for number in range(400):
        await kv.put_many({f"{number:03}": {"text": "x" * 100}})
    await kv.close()
    journalled = 400 * 140
    assert sum(written) < 5 * journalled  # each byte some times, however many commits there are


async def test_snapshots_are_of_what_changed_only(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    await store_of(base).checkpoint()
    await base.stamps.put_many({"b": {}})
    await store_of(base).checkpoint()
    await base.close()
    manifest = await read_manifest(tmp_path)
    assert manifest.snapshots["kv_stamps"] == "kv_stamps.3.json"
    assert manifest.snapshots["vectors_chunk_vectors"] == "vectors_chunk_vectors.2.json"


async def test_nothing_is_left_of_what_was_deleted(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    for mark in ("canary", "kept"):
        await put(base, mark)
    await store_of(base).checkpoint()
    async with base.transaction() as inside:
        await inside.stamps.delete_many(["canary"])
        await inside.chunk_vectors.delete_many(["canary"])
        await inside.lexical.delete_many(["canary"])
        await inside.graph.delete_entities(["canary"])
        await inside.status.delete(["canary"])
    assert any(b"canary" in data for data in files_in(tmp_path).values())
    await store_of(base).scrub()
    assert not any(b"canary" in data for data in files_in(tmp_path).values())
    assert await marks(base) == ["kept"]
    await base.close()
    assert await reopened(tmp_path) == ["kept"]


async def test_what_is_not_open_here_is_carried_over(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    await base.close()
    alone = JsonKVStorage(tmp_path).bind("stamps")
    await alone.open()
    await alone.put_many({"b": {}})
    await alone.store.checkpoint()
    await alone.delete_many(["b"])
    await alone.close()
    assert await reopened(tmp_path) == ["a"]


def _fail_at(monkeypatch: pytest.MonkeyPatch, number: int, error: int) -> Callable[[], int]:
    count = 0

    def fail(_name: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if args and str(args[0]).endswith("claims"):
            return
        count += 1
        if count == number:
            raise OSError(error, os.strerror(error))

    watch(monkeypatch, fail)
    return lambda: count


@pytest.mark.parametrize(("error", "least"), [(28, 1), (5, 1 << 20)])
async def test_whatever_call_fails_the_state_is_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, least: int
) -> None:
    monkeypatch.setattr(state_module, "LEAST", least)
    for number in range(1, 200):
        folder = tmp_path / f"{number}"
        base = await opened(folder)
        await put(base, "a")
        with monkeypatch.context() as patch:
            calls = _fail_at(patch, number, error)
            try:
                await put(base, "b")
                failed = False
            except StorageError as failure:
                failed = True
                assert str(folder) in str(failure)
                assert "bytes are free" in failure.hint
        assert await marks(base) in (["a"], ["a", "b"])
        seen = await reopened(folder)
        if failed and calls() >= number:
            with pytest.raises(StorageError, match="since a failure"):
                await put(base, "c")
        await base.close()
        again = await opened(folder)
        assert await marks(again) == seen
        assert seen in (["a"], ["a", "b"])
        await put(again, "d")
        assert await marks(again) == [*seen, "d"]
        await again.close()
        assert not [name for name in files_in(folder) if ".tmp-" in name]
        if calls() < number:
            assert not failed
            break
    assert number > (2 if least > 1 else 20)


async def test_a_torn_tail_is_cut_and_nothing_else(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    whole = journal_of(tmp_path).stat().st_size
    await put(base, "b")
    await base.close()
    data = journal_of(tmp_path).read_bytes()
    for length in range(whole, len(data), 97):
        journal_of(tmp_path).write_bytes(data[:length])
        assert await reopened(tmp_path) == ["a"]
        assert journal_of(tmp_path).stat().st_size == length
    base = await opened(tmp_path)
    await put(base, "c")
    await base.close()
    assert await reopened(tmp_path) == ["a", "c"]


async def test_a_corrupt_middle_is_refused_and_kept(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    for mark in "abc":
        await put(base, mark)
    await base.close()
    data = journal_of(tmp_path).read_bytes()
    for place in range(0, len(data) * 2 // 3 - 1, 101):
        spoilt = bytearray(data)
        spoilt[place] ^= 4
        journal_of(tmp_path).write_bytes(spoilt)
        with pytest.raises(StoreCorruptError):
            await opened(tmp_path)
        assert journal_of(tmp_path).read_bytes() == spoilt


async def test_missing_files_are_refused(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    await store_of(base).checkpoint()
    await base.close()
    for missing in (journal_of(tmp_path), tmp_path / "kv_stamps.2.json"):
        data = missing.read_bytes()
        missing.unlink()
        with pytest.raises(StoreCorruptError, match="is missing"):
            await opened(tmp_path)
        missing.write_bytes(data)
    assert await reopened(tmp_path) == ["a"]


def _seal(path: Path, text: str) -> None:
    path.write_bytes(b"".join(disk.sealed([text])))


async def test_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    _seal(path, '{"format":99,"after":[0,0]}')
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="99"):
        await opened(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("body", ['{"format":2}', '{"format":null}', "[1]", '{"format":2,"after":1}'])
async def test_a_manifest_that_says_nonsense_is_refused(tmp_path: Path, body: str) -> None:
    _seal(tmp_path / "manifest.json", body)
    with pytest.raises(StoreCorruptError):
        await opened(tmp_path)


KINDS = [JsonKVStorage, JsonDocStatusStorage, NanoVectorDBStorage, BM25Storage, NetworkXStorage]


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_of_another_shape_are_refused(tmp_path: Path, kind: Any) -> None:
    made = kind(tmp_path).bind("rows")
    header = f'"format":2,"kind":"{made.rows.kind}","namespace":"rows"'
    for members in ('"rows":[1]', '"rows":{"a":1},"data":1', '"graph":{"nodes":1},"embedding_dim":2,"data":[{}],"matrix":""'):
        _seal(tmp_path / f"{made.rows.kind}_rows.json", f"{{{header},{members}}}")
        with pytest.raises(StoreCorruptError):
            await made.open()


async def test_a_snapshot_of_another_namespace_is_refused(tmp_path: Path) -> None:
    _seal(tmp_path / "kv_rows.json", '{"format":1,"kind":"kv","namespace":"other","workspace":"","rows":{}}')
    with pytest.raises(StoreCorruptError, match="belongs to 'kv' 'other'"):
        await JsonKVStorage(tmp_path).bind("rows").open()


def _format_1(folder: Path) -> None:
    def header(kind: str, namespace: str) -> str:
        return f'{{"format":1,"kind":"{kind}","namespace":"{namespace}","workspace":"",'

    status = json.dumps({"id": "a", "name": "a", "status": "processed"})
    _seal(folder / "kv_stamps.json", header("kv", "stamps") + '"rows":{"a":{"n":1}}}')
    _seal(folder / "status_doc_status.json", header("status", "doc_status") + f'"rows":[{status}]}}')
    row = '{"__id__":"a","document_id":"d","collection":""}'
    _seal(
        folder / "vectors_chunk_vectors.json",
        header("vectors", "chunk_vectors") + f'"embedding_dim":2,"data":[{row}],"matrix":"AACAPwAAAAA="}}',
    )
    _seal(folder / "bm25_lexical.json", header("bm25", "lexical") + '"rows":{"a":["d","",{"text":{"word":1}}]}}')
    entity = json.dumps({"value": encode_entity(Entity("a")), "id": ["entity", "a"]})
    _seal(
        folder / "graph_graph.json",
        header("graph", "graph")
        + f'"graph":{{"directed":false,"multigraph":false,"graph":{{}},"nodes":[{entity}],"edges":[]}}}}',
    )


async def test_the_earlier_format_is_read_and_kept_until_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _format_1(tmp_path)
    before = files_in(tmp_path)
    assert await reopened(tmp_path) == ["a"]
    assert files_in(tmp_path) == before
    for number in range(1, 30):
        base = await opened(tmp_path)
        with monkeypatch.context() as patch:
            calls = _fail_at(patch, number, 5)
            try:
                await put(base, "b")
            except StorageError:
                assert await reopened(tmp_path) in (["a"], ["a", "b"])
            assert all((tmp_path / name).read_bytes() == data for name, data in before.items())
        await base.close()
        if calls() < number:
            break
    base = await opened(tmp_path)
    await store_of(base).checkpoint()
    await base.close()
    assert await reopened(tmp_path) == ["a", "b"]
    assert not before.keys() & files_in(tmp_path).keys()


async def test_what_a_crash_left_is_removed_at_opening(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    await put(base, "a")
    await base.close()
    leftover = tmp_path / "kv_stamps.2.json.tmp-0123"
    leftover.write_bytes(b'{"rows":{"a"')
    assert await reopened(tmp_path) == ["a"]
    assert not leftover.exists()


async def test_two_stores_on_one_folder_see_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = await opened(tmp_path), await opened(tmp_path)
    await put(one, "a")
    async with other.snapshot() as before:
        await put(one, "b")
        await store_of(one).checkpoint()
        await put(one, "c")
        assert await marks(before) == ["a"]
        assert await marks(other) == ["a", "b", "c"]
        assert await marks(before) == ["a"]
    await put(other, "d")
    assert await marks(one) == ["a", "b", "c", "d"]
    loads: list[Path] = []
    original = disk.read_sealed

    async def counted(path: Path) -> bytes | None:
        loads.append(path)
        return await original(path)

    monkeypatch.setattr(disk, "read_sealed", counted)
    await store_of(one).checkpoint()
    assert await marks(other) == ["a", "b", "c", "d"]
    assert not [path for path in loads if path.name != "manifest.json"]  # it had read the whole journal
    await one.close()
    await other.close()


async def test_a_commit_that_was_taken_back_is_forgotten(tmp_path: Path) -> None:
    one, other = await opened(tmp_path), await opened(tmp_path)
    await put(one, "a")
    length = journal_of(tmp_path).stat().st_size
    await put(one, "b")
    assert await marks(other) == ["a", "b"]
    disk.cut(journal_of(tmp_path), length)
    assert await marks(other) == ["a"]
    await put(other, "c")
    assert await reopened(tmp_path) == ["a", "c"]
    await one.close()
    await other.close()


@pytest.mark.parametrize("durability", ["full", "relaxed"])
async def test_relaxed_syncs_at_flush_and_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any) -> None:
    kv = JsonKVStorage(tmp_path, durability=durability).bind("rows")
    await kv.open()
    await kv.put_many({"a": {}})
    calls: list[str] = []
    watch(monkeypatch, lambda name, _: calls.append(name))
    await kv.put_many({"b": {}})
    assert calls.count("fsync") == (durability == "full")
    calls.clear()
    await kv.flush()
    assert calls.count("fsync") == (durability == "relaxed")
    calls.clear()
    await kv.flush()
    assert calls == []
    await kv.put_many({"c": {}})
    calls.clear()
    await kv.close()
    assert calls.count("fsync") == (durability == "relaxed")


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        FileStore(tmp_path, durability="none")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        FileStore(tmp_path, lock_timeout=-1)


async def test_a_transaction_inside_another_is_refused(tmp_path: Path) -> None:
    base = await opened(tmp_path)
    async with base.transaction():
        with pytest.raises(StorageError, match="open here already"):
            await base.stamps.put_many({"a": {}})
    async with base.snapshot() as ended:
        pass
    with pytest.raises(StorageNotOpenError):
        await ended.status.page()
    await base.close()


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.unit.kg.files.test_store import marks, opened, put

async def write(folder, name, count):
    base = await opened(Path(folder))
    for number in range(int(count)):
        await put(base, f"{name}{number:04}")
        print(f"{name}{number:04}", flush=True)
    await base.close()

async def hold(folder, *_):
    base = await opened(Path(folder))
    async with base.transaction():
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run({"write": write, "hold": hold}[sys.argv[1]](*sys.argv[2:]))
"""


def _child(what: str, folder: Path, name: str = "", count: int = 0) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", CHILD, what, str(folder), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4])


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
@pytest.mark.parametrize("lines", [1, 20])
async def test_a_killed_writer_loses_nothing_it_told_of(tmp_path: Path, lines: int) -> None:
    with _child("write", tmp_path, "x", 10_000) as child:
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
    found = await reopened(tmp_path)
    assert found[: len(told)] == told
    base = await opened(tmp_path)
    await put(base, "y")
    assert (await marks(base))[-1] == "y"
    await base.close()


async def test_two_processes_write_and_a_third_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await opened(tmp_path)
    await put(base, "0")
    with _child("write", tmp_path, "a", 20) as one, _child("write", tmp_path, "b", 20) as other:
        while one.poll() is None or other.poll() is None:
            async with base.snapshot() as view:
                await marks(view)
    assert one.returncode == other.returncode == 0
    assert len(await marks(base)) == 41
    await base.close()


async def test_a_writer_that_does_not_end_is_named(tmp_path: Path) -> None:
    base = await opened(tmp_path, lock_timeout=0.05)
    await put(base, "a")
    with _child("hold", tmp_path) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert await marks(base) == ["a"]
        with pytest.raises(WorkingDirLockedError, match=f"process {child.pid} .* since 2"):
            await put(base, "b")
        child.kill()
    assert await marks(base) == ["a"]
    await put(base, "c")
    assert await marks(base) == ["a", "c"]
    await base.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
async def test_a_store_opened_before_a_fork_is_refused_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await opened(tmp_path)
    monkeypatch.setattr(store_module.os, "getpid", lambda: -1)  # type: ignore[attr-defined]
    with pytest.raises(StorageNotOpenError, match="before a fork"):
        await base.status.page()
    monkeypatch.undo()
    await base.close()


def test_a_store_serves_several_threads(tmp_path: Path) -> None:
    import asyncio  # noqa: PLC0415 — this test alone runs loops of its own

    failures: list[BaseException] = []
    base = made(tmp_path)
    asyncio.run(base.open())

    def work(name: str) -> None:
        async def write() -> None:
            for number in range(10):
                await put(base, f"{name}{number}")
                async with base.snapshot() as view:
                    await marks(view)

        try:
            asyncio.run(write())
        except BaseException as failure:  # noqa: BLE001 — told to the thread of the test
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

    async def check() -> None:
        assert len(await marks(base)) == 30
        await base.close()

    asyncio.run(check())


def test_a_constructor_s_values_survive_binding(tmp_path: Path) -> None:
    named = JsonKVStorage(tmp_path, workspace="mine")
    assert named.bind("rows", "other").store.folder == named.bind("rows").store.folder
    assert named.under("elsewhere").bind("rows").store.folder.is_relative_to(tmp_path)
    assert JsonKVStorage(tmp_path).bind("rows", "mine").store.folder == named.bind("rows").store.folder


def test_files_are_in_the_folder_of_whoever_says_one() -> None:
    assert JsonKVStorage().bind("rows").store.folder == Path("rag_storage").resolve()
    assert JsonKVStorage().under("base").bind("rows").store.folder == Path("base").resolve()


def test_a_workspace_is_a_slug_and_no_part_of_a_path(tmp_path: Path) -> None:
    folder = JsonKVStorage(tmp_path).bind("rows", "secret-project").store.folder
    assert "secret" not in str(folder.relative_to(tmp_path))
    for name in ("..", "a/b", "a b", "é"):
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path).bind("rows", name)
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path).bind(name)
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path, workspace=name)


def test_an_embedding_function_is_ignored_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage._warn_once.cache_clear()
    for _ in range(3):
        JsonKVStorage(tmp_path, embedding_func=len)
        NanoVectorDBStorage(tmp_path, embedding_func=len)
    assert [record.args for record in caplog.records] == [("JsonKVStorage",), ("NanoVectorDBStorage",)]


async def test_a_value_that_is_not_json_is_refused_with_its_batch(tmp_path: Path) -> None:
    kv = JsonKVStorage(tmp_path).bind("rows")
    await kv.open()
    await kv.put_many({"a": {"n": 1}})
    values: list[Any] = [{"n": float("nan")}, {"n": {1, 2}}, {"n": object()}]
    for value in values:
        with pytest.raises(StorageError, match="'bad'"):
            await kv.put_many({"a": {"n": 2}, "bad": value})
    assert await kv.get_many(["a", "bad"]) == {"a": {"n": 1}}
    await kv.close()


async def test_a_session_of_another_store_is_refused(tmp_path: Path) -> None:
    kv = JsonKVStorage(tmp_path / "one").bind("rows")
    other = JsonKVStorage(tmp_path / "other").bind("rows")
    await other.open()
    async with other.store.snapshot() as session:
        with pytest.raises(ConfigError, match="own store"):
            kv.within(session)
    with pytest.raises(ConfigError, match="same folder"):
        kv.sharing(other.store)
    await other.close()
