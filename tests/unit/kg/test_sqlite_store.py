"""The SQLite file: what a crash, another process, another loop, a cancellation or a damaged file do to it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import (
    ConfigError,
    StorageError,
    StorageNotOpenError,
    StoreCorruptError,
    StoreVersionError,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.sqlite import SqliteStore, mirror
from easy_knowledge_retriever.kg.sqlite import store as store_module
from easy_knowledge_retriever.kg.sqlite.schema import VERSION
from easy_knowledge_retriever.kg.sqlite.store import FILE_NAME
from easy_knowledge_retriever.kg.turns import Turns
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.types import DocRecord, DocStatus, Entity, LexicalRecord, MentionEdge, VectorRecord

ONES = np.ones(4, np.float32)
PATIENCE = 20


class Undo(Exception):
    """Raised to leave a transaction."""


def made(folder: Path, lock_timeout: float = 10.0) -> KnowledgeBase:
    return knowledge_base(
        SqliteKVStorage(folder, lock_timeout=lock_timeout),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )


@pytest_asyncio.fixture
async def base(tmp_path: Path) -> AsyncIterator[KnowledgeBase]:
    opened = made(tmp_path, lock_timeout=1)
    await opened.open()
    async with asyncio.timeout(3 * PATIENCE):
        yield opened
    await opened.close()


def store_of(base: KnowledgeBase) -> SqliteStore:
    store = base.status.store
    assert isinstance(store, SqliteStore)
    return store


async def write(base: KnowledgeBase, mark: str) -> None:
    await base.stamps.put_many({mark: {"n": 1}})
    await base.chunk_vectors.put_many([VectorRecord(mark, ONES, mark)])
    await base.lexical.put_many([LexicalRecord(mark, {"text": ("word",)}, mark)])
    await base.graph.put_entities([Entity(mark)])
    await base.graph.put_mentions([MentionEdge(mark, mark, mark)])


async def marks(base: KnowledgeBase) -> set[str]:
    """The marks that every role shows; fails if two roles differ."""
    shown = [
        {key async for key, _ in base.stamps.scan()},
        {hit.id for hit in await base.chunk_vectors.search(ONES, 1000)},
        {hit.id for hit in await base.lexical.search(["word"], 1000)},
        set(await base.graph.keys()),
        set((await base.graph.subgraph([], await base.graph.keys(), hops=1, max_nodes=9999, max_degree=9)).chunk_ids),
    ]
    assert all(found == shown[0] for found in shown)
    return shown[0]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


CHILD = """
import asyncio, sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_sqlite_store import made, marks, write
async def main():
    base = made(Path({folder!r}))
    await base.open()
    {body}
    await base.close()
asyncio.run(main())
"""


def script(folder: Path, body: str) -> list[str]:
    code = CHILD.format(tests=str(Path(__file__).parent), folder=str(folder), body=body.strip().replace("\n", "\n    "))
    return [sys.executable, "-c", code]


@contextmanager
def process(folder: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs ``body`` on the open base of a folder."""
    child = subprocess.Popen(script(folder, body), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


HOLD = """
async with base.transaction() as inside:
    await write(inside, "theirs")
    await inside.stamps.get_many(["theirs"])
    print("held", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
print("done", flush=True)
await asyncio.to_thread(sys.stdin.readline)
"""


async def test_a_second_writer_is_told_who_writes(base: KnowledgeBase, tmp_path: Path) -> None:
    await write(base, "ours")
    with process(tmp_path, HOLD) as child:
        assert await asyncio.to_thread(line_of, child) == "held"
        with pytest.raises(WorkingDirLockedError) as refused:
            await write(base, "later")
        assert refused.value.exit_code == 7
        if sys.platform == "linux":
            assert f"process {child.pid} " in refused.value.message
        assert await marks(base) == {"ours"}
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
        assert await asyncio.to_thread(line_of, child) == "done"
        assert await marks(base) == {"ours", "theirs"}
    await write(base, "later")
    assert await marks(base) == {"ours", "theirs", "later"}


async def test_a_killed_writer_leaves_the_last_commit_and_no_lock(base: KnowledgeBase, tmp_path: Path) -> None:
    await write(base, "ours")
    with process(tmp_path, HOLD) as child:
        assert await asyncio.to_thread(line_of, child) == "held"
        child.send_signal(signal.SIGKILL)
        child.wait()
        await write(base, "later")
        assert await marks(base) == {"ours", "later"}
    again = made(tmp_path)
    await again.open()
    assert await marks(again) == {"ours", "later"}
    await again.close()


COMMITS = """
for n in range(10000):
    async with base.transaction() as inside:
        await write(inside, f"{n:05}")
    print(n, flush=True)
"""


@pytest.mark.parametrize("commits", [0, 3, 17])
def test_a_kill_at_any_time_loses_no_commit(tmp_path: Path, commits: int) -> None:
    with process(tmp_path, COMMITS) as child:
        while line_of(child) != str(commits):
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        rest = child.communicate()[0].split()

    async def look() -> set[str]:
        base = made(tmp_path)
        await base.open()
        found = await marks(base)
        await base.close()
        return found

    found = asyncio.run(look())
    told = int(rest[-1]) if rest else commits
    assert found in ({f"{n:05}" for n in range(told + 1)}, {f"{n:05}" for n in range(told + 2)})
    assert names_in(tmp_path) == ["knowledge.db"]


async def test_readers_see_another_process_commit_as_a_whole(base: KnowledgeBase, tmp_path: Path) -> None:
    body = """
for n in range(25):
    async with base.transaction() as inside:
        await write(inside, str(n))
print("done", flush=True)
"""
    with process(tmp_path, body) as child:
        done = asyncio.Event()

        async def wait() -> None:
            await asyncio.to_thread(line_of, child)
            done.set()

        async with task_group() as group:
            group.create_task(wait())
            while not done.is_set():
                async with base.snapshot() as view:
                    assert await marks(view) == {str(n) for n in range(len(await view.chunk_vectors.ids()))}
    assert await marks(base) == {str(n) for n in range(25)}


async def test_what_another_process_deletes_is_gone(base: KnowledgeBase, tmp_path: Path) -> None:
    for mark in "abc":
        await write(base, mark)
    assert await marks(base) == set("abc")
    body = """
async with base.transaction() as inside:
    await inside.stamps.delete_many(["b"])
    await inside.chunk_vectors.delete_many(["b"])
    await inside.lexical.delete_many(["b"])
    await inside.graph.delete_entities(["b"])
"""
    async with base.snapshot() as before:
        child = await asyncio.create_subprocess_exec(*script(tmp_path, body))
        assert await child.wait() == 0
        assert await marks(base) == set("ac")
        assert await marks(before) == set("abc")


async def test_a_cancelled_transaction_leaves_nothing_and_stays_cancelled(base: KnowledgeBase) -> None:
    written = asyncio.Event()

    async def change(rows: int) -> None:
        async with base.transaction() as inside:
            await write(inside, "a")
            written.set()
            await inside.stamps.put_many({str(n): {"text": "x" * 1000} for n in range(rows)})
            await asyncio.Event().wait()

    for rows in (1, 3000):
        written.clear()
        async with task_group() as group:
            task = group.create_task(change(rows))
            await written.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()
        assert await marks(base) == set()
    await write(base, "b")
    assert await marks(base) == {"b"}


async def test_whoever_waits_for_a_turn_can_be_cancelled(base: KnowledgeBase) -> None:
    async def change(mark: str) -> None:
        async with base.transaction() as inside:
            await write(inside, mark)

    begun, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with base.transaction() as inside:
            await write(inside, "a")
            begun.set()
            await go.wait()

    async with task_group() as group:
        group.create_task(hold())
        await begun.wait()
        waiting = [group.create_task(change(mark)) for mark in "bcd"]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        go.set()
    assert waiting[1].cancelled()
    assert await marks(base) == set("abd")


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on() -> None:
    turns = Turns()
    served: list[str] = []

    async def work(name: str) -> None:
        async with turns.turn():
            served.append(name)

    async with task_group() as group:
        async with turns.turn():
            one = group.create_task(work("one"))
            group.create_task(work("two"))
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the turn has been given to the first
        one.cancel()
    assert served in (["two"], ["one", "two"])
    async with asyncio.timeout(PATIENCE), turns.turn():
        pass


async def test_a_turn_does_not_wait_for_a_closed_loop() -> None:
    turns = Turns()
    started = threading.Event()

    def lose() -> None:
        loop = asyncio.new_event_loop()

        async def wait() -> None:
            async with turns.turn():
                pass

        task = loop.create_task(wait())
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is lost on purpose
        loop.close()
        started.set()

    async with turns.turn():
        thread = threading.Thread(target=lose)
        thread.start()
        assert await asyncio.to_thread(started.wait, PATIENCE)
        thread.join()
    async with asyncio.timeout(PATIENCE), turns.turn():
        pass


async def test_a_transaction_within_a_transaction_is_refused(base: KnowledgeBase) -> None:
    with pytest.raises(StorageError, match="open here already"):
        async with base.transaction():
            await write(base, "a")
    with pytest.raises(StorageError, match="open here already"):
        async with base.transaction(), task_group() as group:
            group.create_task(write(base, "a"))
    await write(base, "b")
    assert await marks(base) == {"b"}


async def test_closing_within_a_transaction_is_refused(base: KnowledgeBase) -> None:
    store = SqliteStore(store_of(base).path.parent)
    await store.open()
    with pytest.raises(StorageError, match="open here already"):
        async with store.transaction():
            await store.close()
    await store.close()


async def test_two_stores_on_one_file_can_be_written_side_by_side(base: KnowledgeBase, tmp_path: Path) -> None:
    other = made(tmp_path)
    await other.open()

    async def change(which: KnowledgeBase, mark: str) -> None:
        async with which.transaction() as inside:
            await write(inside, mark)

    async with task_group() as group:
        for n in range(6):
            group.create_task(change(base if n % 2 else other, str(n)))
    assert await marks(base) == await marks(other) == set("012345")
    await other.close()


async def test_stores_of_two_folders_never_meet(base: KnowledgeBase, tmp_path: Path) -> None:
    other = made(tmp_path / "other")
    await other.open()
    await write(other, "b")
    async with base.transaction() as inside, other.transaction() as beside:
        await write(inside, "a")
        await write(beside, "c")
    assert await marks(base) == {"a"}
    assert await marks(other) == {"b", "c"}
    await other.close()


async def test_another_loop_in_another_thread_can_use_it(base: KnowledgeBase) -> None:
    async def work(first: int) -> None:
        for n in range(first, first + 5):
            async with base.transaction() as inside:
                await write(inside, str(n))
            async with base.snapshot() as view:
                assert str(n) in await marks(view)

    threads = [threading.Thread(target=asyncio.run, args=(work(10 * n),)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    await work(40)
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()
    assert await marks(base) == {str(n) for first in (10, 20, 30, 40) for n in range(first, first + 5)}


async def test_after_a_fork_it_has_to_be_opened_again(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(StorageNotOpenError, match="before a fork"):
            await base.stamps.get_many(["a"])
    assert await base.stamps.get_many(["a"]) == {}


async def test_many_snapshots_at_once(base: KnowledgeBase) -> None:
    await write(base, "a")

    async def look() -> None:
        async with base.snapshot() as view:
            assert await marks(view) == {"a"}
            async with base.snapshot() as another:
                assert await marks(another) == {"a"}

    async with asyncio.timeout(PATIENCE), task_group() as group:
        for _ in range(50):
            group.create_task(look())


async def test_a_session_ends_with_its_block(base: KnowledgeBase) -> None:
    async with base.snapshot() as view:
        pass
    with pytest.raises(StorageNotOpenError):
        await view.stamps.get_many(["a"])
    async with base.transaction() as inside:
        pass
    for late in (inside.stamps.put_many({"a": {}}), inside.stamps.delete_many(["a"])):
        with pytest.raises(StorageNotOpenError):
            await late
    async with base.snapshot() as view:
        with pytest.raises(StorageError, match="cannot be written"):
            await view.stamps.drop()


async def test_a_snapshot_that_outlives_its_store(tmp_path: Path) -> None:
    base = made(tmp_path)
    await base.open()
    await write(base, "a")
    async with base.snapshot() as view:
        await base.close()
        with pytest.raises(StorageNotOpenError):
            await view.stamps.get_many(["a"])
    await base.open()
    assert await marks(base) == {"a"}
    await base.close()


async def test_one_storage_closed_leaves_the_others_open(tmp_path: Path) -> None:
    one = SqliteKVStorage(tmp_path).bind("one")
    two = one.bind("two")
    await one.open()
    await two.open()
    await one.close()
    await two.put_many({"a": {}})
    with pytest.raises(StorageNotOpenError):
        await one.get_many(["a"])
    await two.close()
    with pytest.raises(StorageNotOpenError):
        await two.get_many(["a"])


async def test_text_that_is_not_unicode_spoils_its_transaction_only(base: KnowledgeBase) -> None:
    with pytest.raises(StorageError, match="not valid Unicode"):
        await base.stamps.put_many({"a": {"text": "\ud800"}})
    with pytest.raises(StorageError, match="an earlier write"):
        async with base.transaction() as inside:
            await inside.stamps.put_many({"before": {}})
            await inside.stamps.put_many({"a": {"text": "\ud800"}})
            with pytest.raises(StorageError, match="not valid Unicode"):
                await inside.stamps.get_many(["a"])
            await inside.stamps.put_many({"after": {}})
    async with base.transaction() as inside:
        many = {str(n): {"text": "x" if n else "\ud800"} for n in range(100)}
        with pytest.raises(StorageError, match="not valid Unicode"):
            await inside.stamps.put_many(many)
        await inside.stamps.put_many({"kept": {}})
    assert [key async for key, _ in base.stamps.scan()] == ["kept"]


async def test_keys_may_hold_any_character(base: KnowledgeBase) -> None:
    keys = ["a", "a\0", "a\0b", "'", '"', "\x7f", "é", "e\u0301", ""]
    await base.stamps.put_many({key: {"key": key} for key in keys})
    assert await base.stamps.get_many(keys) == {key: {"key": key} for key in keys}
    assert [key async for key, _ in base.stamps.scan()] == sorted(keys)
    await base.stamps.delete_many(["a\0"])
    assert "a\0" not in await base.stamps.get_many(keys)


@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\U0010ffff", "\ud7ff", "é"])
async def test_a_scan_finds_all_that_begin_with_a_prefix(base: KnowledgeBase, prefix: str) -> None:
    keys = [
        start + end
        for start in ("", "`", "a", "b", "\ud7ff", "\ue000", "é", "\U0010ffff")
        for end in ("", "\0", "z", "\U0010ffff")
    ]
    await base.stamps.put_many({key: {} for key in keys})
    assert [key async for key, _ in base.stamps.scan(prefix)] == sorted({key for key in keys if key.startswith(prefix)})


async def test_equal_values_are_equal_bytes(base: KnowledgeBase) -> None:
    await base.stamps.put_many({"one": {"b": 1, "a": [1, {"d": 2, "c": "é"}]}, "two": {"a": [1, {"c": "é", "d": 2}], "b": 1}})
    async with store_of(base).snapshot() as session:
        texts = await session.run(lambda view: view.rows("SELECT value FROM kv ORDER BY key"))
    assert texts == [('{"a":[1,{"c":"é","d":2}],"b":1}',)] * 2


async def test_relaxed_durability_is_made_good_by_a_flush(tmp_path: Path) -> None:
    storage = SqliteKVStorage(tmp_path, durability="relaxed").bind("rows")
    await storage.open()
    await storage.put_many({"a": {}})
    await storage.flush()
    copy = sqlite3.connect(f"file:{tmp_path / 'knowledge.db'}?mode=ro&immutable=1", uri=True)  # without the journal beside it
    assert copy.execute("SELECT key FROM kv").fetchall() == [("a",)]
    copy.close()
    await storage.close()


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="durability"):
        SqliteStore(tmp_path, durability="some")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="lock_timeout"):
        SqliteStore(tmp_path, lock_timeout=-1)
    storage = SqliteKVStorage(tmp_path)
    with pytest.raises(ConfigError):
        storage.sharing(SqliteStore(tmp_path / "other"))
    with pytest.raises(ConfigError):
        storage.bind("rows", "no/slug")


async def test_a_session_of_another_store_is_refused(base: KnowledgeBase, tmp_path: Path) -> None:
    async with store_of(base).snapshot() as session:
        with pytest.raises(ConfigError):
            SqliteKVStorage(tmp_path).within(session)


def test_a_description_touches_nothing(tmp_path: Path) -> None:
    made(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot create"):
        await made(tmp_path / "file" / "folder").open()


async def _closed_base(folder: Path, rows: int = 1) -> Path:
    base = made(folder)
    await base.open()
    for n in range(rows):
        await write(base, str(n))
    await base.close()
    return folder / "knowledge.db"


@pytest.mark.parametrize("other", [VERSION + 1, VERSION - 1])
async def test_another_format_is_refused_and_left_alone(tmp_path: Path, other: int) -> None:
    path = await _closed_base(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {other}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError):
        await made(tmp_path).open()
    assert path.read_bytes() == before


def _foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.close()


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not a database " * 1000),
    "another database": _foreign,
    "cut": _cut,
    "no header": lambda path: path.write_bytes(b"\0" * 100 + path.read_bytes()[100:]),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, damage: str) -> None:
    path = await _closed_base(tmp_path, 20)
    DAMAGE[damage](path)
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError) as refused:
        await made(tmp_path).open()
    assert str(path) in refused.value.message
    assert path.read_bytes() == before


async def test_a_damaged_page_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    path = await _closed_base(tmp_path, 50)
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"\xff" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    base = made(tmp_path)
    with pytest.raises(StoreCorruptError):
        await base.open()
        await marks(base)
    await base.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("kv", "value", "[1"),
        ("kv", "value", "7"),
        ("kv", "value", b"\xff\xff"),
        ("vector", "value", b"\0\0\0"),
        ("lexical", "terms", b"\0" * 9),
        ("status", "value", "{}"),
    ],
)
async def test_a_damaged_row_is_noticed_when_it_is_read(tmp_path: Path, table: str, column: str, value: object) -> None:
    path = await _closed_base(tmp_path, 3)
    base = made(tmp_path)
    await base.open()
    await base.status.put([DocRecord("a", "a", DocStatus.PROCESSED)])
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorruptError):
        await base.status.page()
        await marks(base)
    await base.close()


async def test_two_open_the_same_new_folder_at_once(tmp_path: Path) -> None:
    bases = [made(tmp_path) for _ in range(5)]
    async with task_group() as group:
        for base in bases:
            group.create_task(base.open())
    await write(bases[0], "a")
    assert await marks(bases[-1]) == {"a"}
    for base in bases:
        await base.close()
    assert names_in(tmp_path) == ["knowledge.db"]


async def test_a_full_disk_undoes_the_transaction(base: KnowledgeBase) -> None:
    await write(base, "a")
    store = store_of(base)
    async with store.transaction() as session:
        await session.run(lambda inside: inside.rows("PRAGMA max_page_count = 100"))
    with pytest.raises(StorageError, match="full"):
        async with base.transaction() as inside:
            await inside.stamps.put_many({str(n): {"text": random.Random(n).randbytes(5000).hex()} for n in range(200)})
    assert await marks(base) == {"a"}
    with pytest.raises(StorageError):
        async with base.transaction() as inside:
            with pytest.raises(StorageError, match="full"):
                await inside.stamps.put_many({str(n): {"text": random.Random(n).randbytes(5000).hex()} for n in range(200)})
            await inside.stamps.put_many({"b": {}})
    await write(base, "c")
    assert await marks(base) == {"a", "c"} or await marks(base) == {"a", "b", "c"}


async def test_every_question_by_key_goes_through_an_index(base: KnowledgeBase) -> None:
    asked: list[str] = []
    store = store_of(base)
    async with base.transaction() as inside:
        await write(inside, "a")
        await inside.chunks.storage.get_many(["a"])
        writer: Any = store._writer
        writer.set_trace_callback(asked.append)
        for mark in ("a", "b"):
            await write(inside, mark)
        await inside.status.get(["a"])
        await inside.chunk_vectors.vectors(["a"])
        await inside.chunk_vectors.search(ONES, 3, ids=["a"])
        await inside.graph.relations_of(["a"])
        await inside.graph.mentions_of(["a"])
        await inside.graph.mentions_in(["a"])
        await inside.graph.degrees(["a"])
        await inside.graph.delete_entities(["a"])
        await inside.graph.delete_mentions(["a"])
        await inside.lexical.delete_many(["a"])
        writer.set_trace_callback(None)
        keyed = {sql for sql in asked if " WHERE space = " in sql and (" IN (SELECT" in sql or " key = " in sql)}
        assert len(keyed) > 10
        for sql in keyed:
            plan = " ".join(row[3] for row in writer.execute(f"EXPLAIN QUERY PLAN {sql}"))
            assert "SEARCH" in plan, sql
            assert "space=? AND" in plan, (sql, plan)


async def test_a_value_that_was_undone_is_not_remembered(base: KnowledgeBase) -> None:
    """The row written next has the number of the one that was undone."""
    with pytest.raises(ZeroDivisionError):
        async with base.transaction() as inside:
            await inside.graph.put_entities([Entity("a", summary="undone")])
            assert (await inside.graph.entities(["a"]))["a"].summary == "undone"
            raise ZeroDivisionError
    await base.graph.put_entities([Entity("a", summary="kept")])
    assert (await base.graph.entities(["a"]))["a"].summary == "kept"
    await base.graph.put_entities([Entity("a", summary="newer")])
    assert (await base.graph.entities(["a", "b"])) == {"a": Entity("a", summary="newer")}


async def test_few_values_are_remembered(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_REMEMBERED", 2)
    entities = {key: Entity(key, names=((key.upper(), 1),)) for key in "abcde"}
    await base.graph.put_entities(list(entities.values()))
    for keys in ("ab", "bc", "abcde", "e"):
        assert await base.graph.entities(list(keys)) == {key: entities[key] for key in keys}


@pytest.mark.parametrize("times", [1, 12])
async def test_closing_compacts_a_file_that_was_mostly_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(store_module, "_FEW", 100)
    base = made(tmp_path)
    await base.open()
    random_bytes = random.Random(5)
    for _ in range(times):
        await base.graph.put_entities([Entity(f"e{n}", summary=random_bytes.randbytes(500).hex()) for n in range(40)])
    await base.close()
    connection = sqlite3.connect(tmp_path / "knowledge.db")
    pages, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
    removed = connection.execute("SELECT count(*) FROM removed").fetchone()[0]
    connection.close()
    assert removed == (1 if times > 1 else 0)
    assert free == 0
    assert pages < 60
    await base.open()
    assert sorted(await base.graph.keys()) == sorted(f"e{n}" for n in range(40))
    await base.graph.put_entities([Entity("e1", summary="new")])
    assert (await base.graph.entities(["e1"]))["e1"].summary == "new"
    assert (await base.graph.counts()).entities == 40
    await base.close()


async def test_a_file_that_another_reads_is_compacted_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_FEW", 1)
    base = made(tmp_path)
    await base.open()
    for _ in range(3):
        await base.graph.put_entities([Entity("a"), Entity("b")])
    reader = sqlite3.connect(tmp_path / "knowledge.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entity").fetchone()
    await base.close()
    reader.close()
    await base.open()
    assert await base.graph.keys() == ["a", "b"]
    await base.close()


async def test_a_draft_that_a_killed_process_left_is_removed_and_a_young_one_is_not(tmp_path: Path) -> None:
    old, young = tmp_path / f"{FILE_NAME}.7-0a1b2c3d.new", tmp_path / f"{FILE_NAME}.8-0a1b2c3d.new"
    for draft in (old, young):
        draft.touch()
    os.utime(old, (time.time() - 3600,) * 2)
    store = SqliteStore(tmp_path)
    await store.open()
    await store.close()
    assert (old.exists(), young.exists()) == (False, True)
