"""Files are whole or refused, whatever fails while they are written."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import StorageError, StoreCorruptError
from easy_knowledge_retriever.kg.files import disk
from easy_knowledge_retriever.kg.files.disk import append, cut, off_loop, read_from, read_sealed, sealed, write_atomically
from tests.support.disk import watch


def test_the_order_of_an_atomic_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []
    path = tmp_path / "file"
    monkeypatch.setattr(disk.secrets, "token_hex", lambda _: "0")  # type: ignore[attr-defined]
    watch(monkeypatch, lambda name, args: calls.append((name, "" if isinstance(args[0], int) else Path(args[0]).name)))
    write_atomically(path, [b"n", b"ew"])
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

    watch(monkeypatch, fail)
    for old in (None, b"old"):
        for failing in range(1, 30):  # noqa: B007 — read by the function above
            count = 0
            try:
                write_atomically(path, [b"new"])
            except OSError:
                found = path.read_bytes() if path.exists() else None
                assert found in {old, b"new"}
                assert not list(tmp_path.rglob("*.tmp-*"))
                if old is not None:
                    path.write_bytes(old)
            else:
                break
        assert failing > 4
        path.write_bytes(b"old")


@pytest.mark.skipif(os.name == "nt", reason="no mode bits")
def test_mode_bits_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, [b"new"])
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_could_not_be_added_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            append(path, b"new", durable=True, before_sync=lambda: None)
        assert path.read_bytes() == b"old"
        append(path, b"new", durable=False, before_sync=lambda: None)
    assert path.read_bytes() == b"oldnew"
    cut(path, 4)
    assert read_from(path, 1) == b"ldn"
    assert read_from(tmp_path / "absent", 0) is None
    with pytest.raises(StorageError, match="cannot be read"):
        read_from(tmp_path, 0)


@pytest.mark.parametrize("pieces", [['{"a":[1,"\\u00e9"]}'], ['{"a":', '[1,"\\u00e9"]', "}"]])
async def test_a_sealed_object_is_plain_json(tmp_path: Path, pieces: list[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(sealed(pieces)))
    members = json.loads(path.read_bytes())
    assert members["a"] == [1, "é"]
    assert len(members["digest"]) == 64
    assert await read_sealed(path) == b'{"a":[1,"\\u00e9"]}'
    assert await read_sealed(tmp_path / "absent") is None


async def test_a_file_cut_or_changed_anywhere_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = b"".join(sealed(['{"a":1}']))
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        for spoilt in (whole[:place], bytes(changed)):
            path.write_bytes(spoilt)
            with pytest.raises(StoreCorruptError):
                await read_sealed(path)
            assert path.read_bytes() == spoilt


async def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        await read_sealed(tmp_path)


async def test_a_cancelled_call_off_the_loop_waits_and_reports_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    loop, started, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        go.wait()
        raise StorageError("lost")

    async def call(done: Callable[[], None]) -> None:
        try:
            await off_loop(work)
        finally:
            done()

    ended = threading.Event()
    async with task_group() as group:
        task = group.create_task(call(ended.set))
        await started.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            assert not ended.is_set()
        go.set()
    assert task.cancelled()
    assert "lost" in caplog.text
