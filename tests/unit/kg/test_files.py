"""Files are whole or refused, whatever fails while they are written."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, StorageError, StoreCorruptError, StoreVersionError
from easy_knowledge_retriever.kg import files
from easy_knowledge_retriever.kg.files import off_loop, read_sealed, seal, write_atomically
from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.kv_storage.json_doc_status_impl import JsonDocStatusStorage
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage

SYSTEM_CALLS = ("open", "fsync", "replace", "mkdir")


def _watch(monkeypatch: pytest.MonkeyPatch, before: Callable[[str, tuple[Any, ...]], None]) -> None:
    """Tells ``before`` of every call of the system that writing a file makes."""
    for name in SYSTEM_CALLS:
        original = getattr(os, name)

        def watched(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
            before(_name, args)
            return _original(*args, **kwargs)

        monkeypatch.setattr(os, name, watched)


async def _filled(folder: Path) -> JsonKVStorage:
    storage = JsonKVStorage(folder).bind("rows")
    await storage.open()
    await storage.put_many({"a": {"n": 1}})
    await storage.flush()
    return storage


def test_the_order_of_an_atomic_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []
    path = tmp_path / "file"
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "0")  # type: ignore[attr-defined]
    _watch(monkeypatch, lambda name, args: calls.append((name, "" if isinstance(args[0], int) else Path(args[0]).name)))
    write_atomically(path, b"new")
    assert calls == [("open", "file.tmp-0"), ("fsync", ""), ("replace", "file.tmp-0"), ("open", tmp_path.name), ("fsync", "")]
    assert path.read_bytes() == b"new"


def test_whatever_call_fails_the_file_is_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "er" / "file"
    failing, count = 0, 0

    def fail(_name: str, _args: tuple[Any, ...]) -> None:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "No space left on device")

    _watch(monkeypatch, fail)
    for old in (None, b"old"):
        for failing in range(1, 30):  # noqa: B007 — read by the function above
            count = 0
            try:
                write_atomically(path, b"new")
            except StorageError as failure:
                assert str(path) in str(failure)
                assert "bytes are free" in failure.hint
            else:
                break
            found = path.read_bytes() if path.exists() else None
            assert found in {old, b"new"}
            assert not list(tmp_path.rglob("*.tmp-*"))
            if old is not None:
                path.write_bytes(old)
        assert failing > 4
        path.write_bytes(b"old")


@pytest.mark.skipif(os.name == "nt", reason="no mode bits")
def test_mode_bits_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640


async def test_a_sealed_object_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(seal('{"a":[1,"\\u00e9"]}'))
    members = json.loads(path.read_bytes())
    assert members["a"] == [1, "é"]
    assert len(members["digest"]) == 64
    assert await read_sealed(path) == b'{"a":[1,"\\u00e9"]}'
    assert await read_sealed(tmp_path / "absent") is None


async def test_a_file_cut_anywhere_is_refused_and_kept(tmp_path: Path) -> None:
    storage = await _filled(tmp_path)
    whole = storage.path.read_bytes()
    await storage.close()
    for length in range(len(whole)):
        storage.path.write_bytes(whole[:length])
        with pytest.raises(StoreCorruptError):
            await storage.open()
        assert storage.path.read_bytes() == whole[:length]
    storage.path.write_bytes(whole)
    await storage.open()
    assert await storage.get_many(["a"]) == {"a": {"n": 1}}
    await storage.close()


async def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    storage = await _filled(tmp_path)
    await storage.close()
    whole = storage.path.read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1
        storage.path.write_bytes(changed)
        with pytest.raises(StoreCorruptError):
            await storage.open()


async def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    storage = await _filled(tmp_path)
    await storage.close()
    other = storage.bind("other")
    other.path.write_bytes(storage.path.read_bytes())
    with pytest.raises(StoreCorruptError, match="belongs to 'kv' 'rows'"):
        await other.open()


async def test_a_file_of_a_newer_library_is_refused(tmp_path: Path) -> None:
    storage = JsonKVStorage(tmp_path).bind("rows")
    storage.path.write_bytes(seal('{"format":99}'))
    with pytest.raises(StoreVersionError, match="99"):
        await storage.open()
    assert storage.path.exists()


@pytest.mark.parametrize("body", ['{"rows":1}', '{"format":1}', '{"format":null}', "[1]"])
async def test_a_whole_file_that_says_nonsense_is_refused(tmp_path: Path, body: str) -> None:
    storage = JsonKVStorage(tmp_path).bind("rows")
    storage.path.write_bytes(seal(body))
    with pytest.raises(StoreCorruptError):
        await storage.open()


@pytest.mark.parametrize("kind", [JsonKVStorage, JsonDocStatusStorage, NanoVectorDBStorage, BM25Storage, NetworkXStorage])
async def test_rows_of_another_shape_are_refused(tmp_path: Path, kind: Any) -> None:
    storage = kind(tmp_path).bind("rows")
    header = f'"format":1,"kind":"{storage.kind}","namespace":"rows","workspace":""'
    for members in ('"rows":[1]', '"rows":{"a":1},"data":1', '"graph":{"nodes":1},"embedding_dim":2,"data":[{}],"matrix":""'):
        storage.path.write_bytes(seal(f"{{{header},{members}}}"))
        if kind is JsonKVStorage and '"a":1' in members:
            continue
        with pytest.raises(StoreCorruptError):
            await storage.open()


async def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    storage = JsonKVStorage(tmp_path).bind("rows")
    storage.path.mkdir()
    with pytest.raises(StorageError, match="cannot be read"):
        await storage.open()


async def test_what_a_crash_left_is_removed_at_opening(tmp_path: Path) -> None:
    storage = await _filled(tmp_path)
    await storage.close()
    leftover = storage.path.with_name(storage.path.name + ".tmp-0123")
    leftover.write_bytes(b'{"rows":{"a"')
    await storage.open()
    assert not leftover.exists()
    assert await storage.get_many(["a"]) == {"a": {"n": 1}}
    await storage.close()


async def test_flush_writes_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    original = write_atomically

    def counted(path: Path, data: bytes) -> None:
        written.append(path)
        original(path, data)

    monkeypatch.setattr(files, "write_atomically", counted)
    storage = JsonKVStorage(tmp_path).bind("rows")
    await storage.open()
    await storage.flush()
    assert written == []
    await storage.put_many({"a": {}})
    await storage.flush()
    await storage.flush()
    assert written == [storage.path]
    await storage.get_many(["a"])
    await storage.close()
    assert len(written) == 1


async def test_a_flush_that_failed_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = await _filled(tmp_path)
    await storage.put_many({"b": {"n": 2}})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            await storage.flush()
        with pytest.raises(StorageError, match="No space left"):
            await storage.close()
    beside = JsonKVStorage(tmp_path).bind("rows")
    await beside.open()
    assert [key async for key, _ in beside.scan()] == ["a"]
    await beside.close()
    await storage.close()
    await beside.open()
    assert [key async for key, _ in beside.scan()] == ["a", "b"]
    await beside.close()


async def _cancelled(work: Callable[[], Coroutine[Any, Any, None]], started: asyncio.Event, go: threading.Event) -> None:
    """Starts ``work``, cancels it when it says that it is in its thread, and lets the thread go on."""
    async with task_group() as group:
        task = group.create_task(work())
        await started.wait()
        task.cancel()
        await asyncio.sleep(0)
        go.set()
    assert task.cancelled()


async def test_a_cancelled_flush_is_a_cancellation_and_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await _filled(tmp_path)
    await storage.put_many({"b": {"n": 2}})
    loop, started, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    original = write_atomically

    def slow(path: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(started.set)
        go.wait()
        original(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", slow)
        await _cancelled(storage.flush, started, go)
    assert await read_sealed(storage.path) is not None
    await storage.close()
    await storage.open()
    assert [key async for key, _ in storage.scan()] == ["a", "b"]
    await storage.close()


async def test_a_cancelled_call_off_the_loop_waits_and_reports_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    loop, started, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        go.wait()
        raise StorageError("lost")

    async def call() -> None:
        await off_loop(work)

    await _cancelled(call, started, go)
    assert "lost" in caplog.text


async def test_writes_and_flushes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    storage = JsonKVStorage(tmp_path).bind("rows")
    await storage.open()

    async def write(number: int) -> None:
        await storage.put_many({f"{number}-{part}": {"n": part} for part in range(50)})
        await storage.flush()

    async with task_group() as group:
        for number in range(20):
            group.create_task(write(number))
    again = JsonKVStorage(tmp_path).bind("rows")
    await again.open()
    assert len([key async for key, _ in again.scan()]) == 1000
    await again.close()
    await storage.close()


WRITER = """
import asyncio, sys
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage

async def main():
    storage = JsonKVStorage(sys.argv[1]).bind("rows")
    await storage.open()
    for number in range(10_000):
        await storage.put_many({f"{number:05}": {"text": "x" * 2000}})
        await storage.flush()
        sys.stdout.write(f"{number:05}\\n")
        sys.stdout.flush()

asyncio.run(main())
"""


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _flushed_until_killed(folder: Path, lines: int) -> list[str]:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        flushed = [child.stdout.readline().strip() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
    return flushed


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
@pytest.mark.parametrize("lines", [1, 7, 20])
async def test_a_killed_writer_loses_nothing_it_flushed(tmp_path: Path, lines: int) -> None:
    flushed = _flushed_until_killed(tmp_path, lines)
    storage = JsonKVStorage(tmp_path).bind("rows")
    await storage.open()
    found = [key async for key, _ in storage.scan()]
    assert found[: len(flushed)] == flushed
    assert _names(tmp_path) == [storage.path.name]
    await storage.close()


def test_a_constructor_s_values_survive_binding(tmp_path: Path) -> None:
    storage = JsonKVStorage(tmp_path, workspace="mine")
    assert storage.bind("rows", "other").path == storage.bind("rows").path
    assert storage.under("elsewhere").bind("rows").path.is_relative_to(tmp_path)
    assert JsonKVStorage(tmp_path).bind("rows", "mine").path == storage.bind("rows").path


def test_files_are_in_the_folder_of_whoever_says_one() -> None:
    assert JsonKVStorage().bind("rows").path == Path("rag_storage/kv_rows.json")
    assert JsonKVStorage().under("base").bind("rows").path == Path("base/kv_rows.json")
    assert JsonKVStorage().bind("rows").under("base").path == Path("base/kv_rows.json")


def test_a_workspace_is_a_slug_and_no_part_of_a_path(tmp_path: Path) -> None:
    path = JsonKVStorage(tmp_path).bind("rows", "secret-project").path
    assert "secret" not in str(path.relative_to(tmp_path))
    for name in ("..", "a/b", "a b", "é"):
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path).bind("rows", name)
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path).bind(name)
        with pytest.raises(ConfigError):
            JsonKVStorage(tmp_path, workspace=name)


def test_an_embedding_function_is_ignored_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files._warn_once.cache_clear()
    for _ in range(3):
        JsonKVStorage(tmp_path, embedding_func=len)
        NanoVectorDBStorage(tmp_path, embedding_func=len)
    assert [record.args for record in caplog.records] == [("JsonKVStorage",), ("NanoVectorDBStorage",)]


async def test_a_value_that_is_not_json_is_refused_with_its_batch(tmp_path: Path) -> None:
    storage = await _filled(tmp_path)
    values: list[Any] = [{"n": float("nan")}, {"n": {1, 2}}, {"n": object()}]
    for value in values:
        with pytest.raises(StorageError, match="'bad'"):
            await storage.put_many({"a": {"n": 2}, "bad": value})
    assert await storage.get_many(["a", "bad"]) == {"a": {"n": 1}}
    await storage.close()
