"""The PostgreSQL store: versions, roles, secrets, loops, cancellation, and what it says when something is wrong."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import (
    ConfigError,
    MissingExtraError,
    StorageError,
    StoreVersionError,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.postgres import server as server_module
from easy_knowledge_retriever.kg.postgres import storage as storage_module
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.storages import open_description, storage_set
from easy_knowledge_retriever.types import DocRecord, DocStatus, Entity, LexicalRecord
from tests.support.postgres import on_postgres, postgres

DATABASE = "store"


async def _kv(folder: Path, **more: Any) -> PGKVStorage:
    storage = PGKVStorage(**await on_postgres(folder, DATABASE, **more)).bind("rows", "w")
    await storage.open()
    return storage


async def test_two_stores_see_what_the_other_committed(tmp_path: Path) -> None:
    one, other = await _kv(tmp_path), await _kv(tmp_path)
    assert one.store is not other.store
    await one.put_many({"a": {"n": 1}})
    assert await other.get_many(["a"]) == {"a": {"n": 1}}
    await other.put_many({"a": {"n": 2}})
    assert await one.get_many(["a"]) == {"a": {"n": 2}}
    await one.close()
    await other.close()


@pytest.mark.parametrize("asks", [True, False])
async def test_a_connection_that_breaks_in_a_transaction_says_so_and_is_replaced(tmp_path: Path, asks: bool) -> None:
    storage = await _kv(tmp_path)
    await storage.put_many({"a": {"n": 1}})
    ended = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{DATABASE}'"
    with pytest.raises(StorageError if asks else RuntimeError):
        async with storage.store.transaction() as inside:
            await storage.within(inside).put_many({"a": {"n": 2}})
            await postgres().execute("postgres", ended)
            if not asks:
                raise RuntimeError
            await storage.within(inside).get_many(["a"])
    assert await storage.get_many(["a"]) == {"a": {"n": 1}}
    await storage.close()


async def test_two_that_open_a_new_database_at_once_do_not_clash() -> None:
    name = await postgres().database("fresh")
    storages = [PGVectorStorage(**postgres().options(name)).bind("rows") for _ in range(4)]
    async with task_group() as group:
        for storage in storages:
            group.create_task(storage.open())
    for storage in storages:
        assert await storage.ids() == []
        await storage.close()


async def test_tables_of_a_newer_version_are_refused_and_left_alone() -> None:
    name = await postgres().database("newer")
    storage = PGKVStorage(**postgres().options(name)).bind("rows")
    await storage.open()
    await storage.put_many({"a": {}})
    await storage.close()
    await postgres().execute(name, "UPDATE ekr.part SET version = 99 WHERE name = 'base'")
    with pytest.raises(StoreVersionError, match="99"):
        await storage.open()
    connection = await postgres().connect(name)
    assert await connection.fetchval("SELECT count(*) FROM ekr.kv") == 1
    await connection.close()


async def test_values_can_be_kept_without_pgvector() -> None:
    name = await postgres().database("plain")
    storage = PGKVStorage(**postgres().options(name)).bind("rows")
    await storage.open()
    await storage.close()
    connection = await postgres().connect(name)
    assert await connection.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 0
    await connection.close()


async def test_a_transaction_of_another_process_is_waited_for_so_long(tmp_path: Path) -> None:
    one, other = await _kv(tmp_path), await _kv(tmp_path, lock_timeout=0.05)
    assert one.store is not None
    async with one.store.transaction() as session:
        await one.within(session).put_many({"a": {}})
        with pytest.raises(WorkingDirLockedError):
            await other.put_many({"b": {}})
        assert await other.get_many(["a", "b"]) == {}
    await other.put_many({"b": {}})
    assert (await one.get_many(["a", "b"])).keys() == {"a", "b"}
    await one.close()
    await other.close()


async def test_workspaces_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one = await _kv(tmp_path)
    other = PGKVStorage(**await on_postgres(tmp_path, DATABASE, lock_timeout=0.05)).bind("rows", "elsewhere")
    await other.open()
    assert one.store is not None
    async with one.store.transaction() as session:
        await one.within(session).put_many({"a": {}})
        await other.put_many({"a": {}})
    await one.close()
    await other.close()


async def test_a_statement_that_failed_undoes_the_transaction_even_if_it_was_caught(tmp_path: Path) -> None:
    storage = await _kv(tmp_path)
    assert storage.store is not None
    with pytest.raises(StorageError, match="undone"):
        async with storage.store.transaction() as session:
            inside = storage.within(session)
            await inside.put_many({"a": {}})
            with pytest.raises(StorageError):
                await inside.put_many({"k" * 20_000 + "".join(map(chr, range(200, 12_000))): {}})
    assert await storage.get_many(["a"]) == {}
    await storage.close()


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
async def test_a_text_that_cannot_be_stored_is_refused_and_the_transaction_goes_on(tmp_path: Path, text: str) -> None:
    storage = await _kv(tmp_path)
    assert storage.store is not None
    async with storage.store.transaction() as session:
        with pytest.raises(StorageError, match="NUL or is not valid"):
            await storage.within(session).put_many({text: {}})
        await storage.within(session).put_many({"b": {}})
    assert [key async for key, _ in storage.scan()] == ["b"]
    options = await on_postgres(tmp_path, DATABASE)
    status, graph = PGDocStatusStorage(**options).bind("rows", "w"), PGGraphStorage(**options).bind("rows", "w")
    lexical = PGLexicalStorage(**options).bind("rows", "w")
    for other in (status, graph, lexical):
        await other.open()
    with pytest.raises(StorageError):
        await status.put([DocRecord("id", text, DocStatus.PENDING)])
    with pytest.raises(StorageError):
        await graph.put_entities([Entity(text)])
    with pytest.raises(StorageError):
        await lexical.put_many([LexicalRecord("id", {"text": ("word",)}, text)])
    for one in (storage, status, graph, lexical):
        await one.close()


async def test_a_query_that_is_cancelled_leaves_no_dirty_connection(tmp_path: Path) -> None:
    storage = await _kv(tmp_path, max_connections=2)

    async def sleep() -> None:
        async with storage._store.transaction() as session:
            await storage.within(session).put_many({"a": {}})
            await session.rows("SELECT pg_sleep(60)")

    for _ in range(5):
        async with asyncio.timeout(20), task_group() as group:
            task = group.create_task(sleep())
            await asyncio.sleep(0.05)
            task.cancel()
        assert task.cancelled()
        assert await storage.get_many(["a"]) == {}
    async with asyncio.timeout(20):
        await storage.put_many({"b": {}})
    await storage.close()


async def test_another_event_loop_is_told_so(tmp_path: Path) -> None:
    storage = await _kv(tmp_path)

    async def elsewhere() -> None:
        with pytest.raises(StorageError, match="another event loop"):
            await storage.get_many(["a"])
        with pytest.raises(StorageError, match="another event loop"):
            await storage.put_many({"a": {}})

    await asyncio.to_thread(asyncio.run, elsewhere())
    await storage.close()


async def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    storage = PGKVStorage(host=str(tmp_path), port=5999, user="me", password="canary-1", database="db").bind("rows")
    with pytest.raises(StorageError) as raised:
        await storage.open()
    assert "cannot be reached" in str(raised.value)
    shown = f"{raised.value} {raised.value!r} {storage!r} {storage.store!r} {storage.store.key if storage.store else ''}"
    assert "canary-1" not in shown


async def test_a_missing_database_is_named() -> None:
    storage = PGKVStorage(**postgres().options("nowhere")).bind("rows")
    with pytest.raises(StorageError, match="'nowhere'"):
        await storage.open()


async def test_a_name_can_never_be_code() -> None:
    for name in ("a; DROP TABLE ekr.kv", 'a"', "a'b", "a b", "é"):
        with pytest.raises(ConfigError):
            PGKVStorage(name)
        with pytest.raises(ConfigError):
            PGKVStorage().bind("rows", name)
        with pytest.raises(ConfigError):
            PGKVStorage().bind(name)


@pytest.mark.parametrize("options", [{"port": 0 - 1}, {"lock_timeout": -1}, {"max_connections": 1}, {"durability": "some"}])
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PGKVStorage(**options)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="hots"):
        PGKVStorage(hots="localhost")  # type: ignore[call-arg]  # that is the point


def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USER": "u", "PASSWORD": "canary-2", "DATABASE": "d", "HOST": "h", "PORT": "7"}.items():
        monkeypatch.setenv(f"POSTGRES_{name}", value)
    server = PGKVStorage(host="mine")._store.server
    assert (server.user, server.password, server.database, server.host, server.port) == ("u", "canary-2", "d", "mine", 7)
    assert "canary-2" not in repr(server) + str(server)


@pytest.fixture
def _unwarned() -> Iterator[None]:
    storage_module._warn_once.cache_clear()
    yield
    storage_module._warn_once.cache_clear()


@pytest.mark.usefixtures("_unwarned")
def test_an_embedding_function_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    PGKVStorage(embedding_func=len)
    PGVectorStorage(embedding_func=len)
    assert [record.message for record in caplog.records] == ["embedding_func is ignored: a storage does not embed"]


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError

    server_module.asyncpg_package.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match="postgres"):
        PGKVStorage()
    monkeypatch.undo()
    server_module.asyncpg_package.cache_clear()


async def test_the_lexical_index_follows_the_values(tmp_path: Path) -> None:
    options = await on_postgres(tmp_path, DATABASE)
    base = open_description(Settings(workspace="w"), PGKVStorage(**options), None, None, None, None)
    assert isinstance(base.lexical, PGLexicalStorage)
    assert base.lexical.store is base.documents.storage.store


def test_all_storages_can_be_named() -> None:
    chosen = storage_set("postgres")
    base = open_description(
        Settings(durability="relaxed"),
        chosen["kv_storage"],
        chosen["doc_status_storage"],
        chosen["vector_storage"],
        chosen["lexical_storage"],
        chosen["graph_storage"],
    )
    assert len({storage.store.key for storage in base.storages() if storage.store}) == 1


async def test_relaxed_commits_are_flushed(tmp_path: Path) -> None:
    storage = await _kv(tmp_path, durability="relaxed")
    await storage.put_many({"a": {}})
    await storage.flush()
    assert await storage.get_many(["a"]) == {"a": {}}
    await storage.close()


async def test_a_superuser_is_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        storage = await _kv(tmp_path)
    assert "row-level security" in caplog.text
    assert "superuser" in caplog.text
    await storage.close()
