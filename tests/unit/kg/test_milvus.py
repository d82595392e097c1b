"""What the Milvus storage does beyond its contract: addresses and secrets, long lists, indexes that refuse, writers at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pymilvus
import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, StorageError
from easy_knowledge_retriever.kg.milvus import MilvusServer
from easy_knowledge_retriever.kg.vector_storage import milvus_impl
from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from easy_knowledge_retriever.types import FloatVector, SearchFilter, VectorRecord
from tests.support.milvus import milvus_command, milvus_database, milvus_uri
from tests.support.servers import HOST, data_folder, free_port, serve

SECRETS = ("hunter2", "s3cr3t-token")
NO_SERVER = "http://127.0.0.1:9"


def _vector(*values: float) -> FloatVector:
    return np.array(values, np.float32)


def _random(count: int, dimension: int, seed: int = 0) -> list[FloatVector]:
    return list(np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32))


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[MilvusVectorDBStorage]:
    bound = MilvusVectorDBStorage(milvus_uri(), milvus_db_name=milvus_database(tmp_path)).bind("rows")
    await bound.open()
    yield bound
    await bound.close()


@pytest.fixture
def refusing() -> Iterator[str]:
    """Address of a server that knows nobody."""

    def refuse(_request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check username and password")

    class Refusal(grpc.GenericRpcHandler):  # type: ignore[misc]  # the package has no types
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Refusal(),))
    port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    yield f"http://{HOST}:{port}"
    server.stop(None).wait()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtraError, match=r"easy-knowledge-retriever\[milvus\]"):
        MilvusVectorDBStorage()


def test_the_root_logger_stays_as_it_is() -> None:
    assert "pymilvus" in sys.modules
    assert not any(type(handler).__module__.startswith("pymilvus") for handler in logging.getLogger().handlers)


async def test_where_nobody_listens_the_address_is_told_and_what_to_do() -> None:
    storage = MilvusVectorDBStorage(NO_SERVER, *_credentials()).bind("rows")
    with pytest.raises(StorageError, match=r"'http://127.0.0.1:9' cannot be reached.*MILVUS_URI") as raised:
        await storage.open()
    _check_no_secret(str(raised.value), repr(raised.value.__cause__))


async def test_a_refused_login_is_told_without_the_secret(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    storage = MilvusVectorDBStorage(refusing, *_credentials(), timeout=5).bind("rows")
    with pytest.raises(StorageError, match=r"refuses the login.*milvus_token") as raised:
        await storage.open()
    _check_no_secret(str(raised.value), repr(raised.value.__cause__), caplog.text)


async def test_a_database_that_is_not_there_is_named() -> None:
    storage = MilvusVectorDBStorage(milvus_uri(), milvus_db_name="nowhere").bind("rows")
    with pytest.raises(StorageError, match=r"no database 'nowhere'"):
        await storage.open()
        await storage.count()


def test_secrets_are_not_shown() -> None:
    storage = MilvusVectorDBStorage("http://admin:hunter2@127.0.0.1:9", "s3cr3t-token")
    _check_no_secret(repr(storage), repr(vars(storage)))


def test_the_environment_is_read_and_an_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URI", "TOKEN", "USER", "PASSWORD", "DB_NAME", "WORKSPACE"):
        monkeypatch.setenv(f"MILVUS_{name}", "http://there:1" if name == "URI" else f"env_{name.lower()}")
    storage = MilvusVectorDBStorage().bind("rows", "told")
    server = storage._server
    assert (server.uri, server.db_name) == ("http://there:1", "env_db_name")
    assert (server.token, server.user, server.password) == ("env_token", "env_user", "env_password")
    assert storage._workspace == "env_workspace"
    given = MilvusVectorDBStorage("http://here:2", "t", "u", "p", "d", "w").bind("rows", "told")
    assert given._server == MilvusServer("http://here:2", "d", "t", "u", "p")
    assert given._workspace == "w"


def test_an_address_in_the_environment_that_stops_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_URI", "./vectors.db")
    with pytest.raises(ConfigError, match="MILVUS_URI"):
        MilvusVectorDBStorage("http://here:2")


def test_a_time_out_is_positive() -> None:
    with pytest.raises(ConfigError, match="timeout"):
        MilvusVectorDBStorage(timeout=0)


async def test_names_with_quotes_are_values_and_no_expressions(storage: MilvusVectorDBStorage) -> None:
    odd = ["a", 'a"] or key != "', "b' or '1'=='1", "\\", "{x}", "名前\n\t\0", "x" * 60_000]
    await storage.put_many([VectorRecord(name, _vector(1, n), name, name) for n, name in enumerate(odd)])
    assert await storage.ids() == sorted(odd)
    for name in odd:
        for seen in (SearchFilter(document_ids=frozenset({name})), SearchFilter(collections=frozenset({name}))):
            assert [hit.id for hit in await storage.search(_vector(1, 0), 9, seen)] == [name]
        assert [hit.id for hit in await storage.search(_vector(1, 0), 9, ids=[name])] == [name]
        assert (await storage.vectors([name])).keys() == {name}
    await storage.delete_many(odd[1:])
    assert await storage.ids() == ["a"]


async def test_an_id_that_no_field_holds_is_refused_with_its_batch(storage: MilvusVectorDBStorage) -> None:
    with pytest.raises(StorageError, match="65535 bytes"):
        await storage.put_many([VectorRecord("a", _vector(1, 0)), VectorRecord("é" * 33_000, _vector(1, 0))])
    assert await storage.count() == 0


async def test_long_lists_are_asked_in_parts(storage: MilvusVectorDBStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_impl, "LISTED", 3)
    monkeypatch.setattr(milvus_impl, "READ", 2)
    monkeypatch.setattr(milvus_impl, "PART", 1)
    vectors = _random(40, 8)
    records = [VectorRecord(f"{n:02}", v, f"d{n % 10}", f"c{n % 4}") for n, v in enumerate(vectors)]
    await storage.put_many(records)
    seen = SearchFilter(document_ids=frozenset(f"d{n}" for n in range(8)), collections=frozenset({"c0", "c1", "c2", "c3"}))
    some = {f"{n:02}" for n in range(7, 33)}
    wanted = sorted(
        (r for r in records if r.id in some and seen.admits(r.document_id, r.collection)),
        key=lambda r: -float(r.vector @ vectors[0] / np.linalg.norm(r.vector)),
    )
    for top_k in (1, 5, 40):
        assert [hit.id for hit in await storage.search(vectors[0], top_k, seen, some)] == [r.id for r in wanted[:top_k]]
    assert (await storage.vectors(sorted(some))).keys() == some
    assert await storage.ids() == [r.id for r in records]
    await storage.delete_many(sorted(some))
    assert await storage.count() == 40 - len(some)


async def test_few_rows_among_many_are_all_found(storage: MilvusVectorDBStorage) -> None:
    vectors = _random(3000, 16)
    await storage.put_many([VectorRecord(f"{n:04}", v, "few" if n % 600 == 0 else "many") for n, v in enumerate(vectors)])
    await storage.flush()  # from here on it is the index that is searched
    hits = await storage.search(-vectors[0], 20, SearchFilter(document_ids=frozenset({"few"})))
    assert {hit.id for hit in hits} == {"0000", "0600", "1200", "1800", "2400"}
    assert hits[-1].id == "0000"
    exact = sorted(range(3000), key=lambda n: -float(vectors[n] @ vectors[7] / np.linalg.norm(vectors[n])))
    assert [hit.id for hit in await storage.search(vectors[7], 10)] == [f"{n:04}" for n in exact[:10]]


async def test_rows_that_are_all_the_same_are_all_found(storage: MilvusVectorDBStorage) -> None:
    await storage.put_many([VectorRecord(f"{n:03}", _vector(3, 4)) for n in range(400)])
    await storage.flush()
    for top_k in (1, 50, 400, 20_000):
        assert [hit.id for hit in await storage.search(_vector(3, 4), top_k)] == [f"{n:03}" for n in range(min(top_k, 400))]


async def test_an_index_that_is_refused_leaves_nothing_behind(
    storage: MilvusVectorDBStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, kinds = storage._index, []

    def index(client: Any, kind: str, parameters: dict[str, int]) -> None:
        kinds.append(kind)
        if kind == "HNSW":
            raise pymilvus.MilvusException(code=1, message="invalid index type: HNSW")
        build(client, kind, parameters)

    monkeypatch.setattr(storage, "_index", index)
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    assert kinds == ["HNSW", "AUTOINDEX"]
    assert [hit.id for hit in await storage.search(_vector(1, 0), 1)] == ["a"]


async def test_a_collection_that_was_made_by_half_is_finished(storage: MilvusVectorDBStorage) -> None:
    storage._make(storage._client, 2)
    assert await storage.count() == 0
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    assert [hit.id for hit in await storage.search(_vector(1, 0), 1)] == ["a"]


async def test_what_another_storage_dropped_is_made_again(storage: MilvusVectorDBStorage) -> None:
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    other = storage.bind("rows")
    await other.open()
    await other.drop()
    await other.close()
    assert await storage.ids() == []
    assert await storage.search(_vector(1, 0), 1) == []
    await storage.put_many([VectorRecord("b", _vector(1, 0, 0))])
    assert await storage.ids() == ["b"]


async def test_a_cancelled_write_is_done_or_not_and_never_half(storage: MilvusVectorDBStorage) -> None:
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    writing = asyncio.get_running_loop().create_task(storage.put_many([VectorRecord(f"{n}", _vector(1, n)) for n in range(50)]))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await storage.count() in {1, 51}
    await storage.put_many([VectorRecord("b", _vector(1, 0))])


def test_it_belongs_to_no_event_loop(tmp_path: Path) -> None:
    storage = MilvusVectorDBStorage(milvus_uri(), milvus_db_name=milvus_database(tmp_path)).bind("rows")
    asyncio.run(storage.open())
    asyncio.run(storage.put_many([VectorRecord("a", _vector(1, 0))]))
    assert asyncio.run(storage.ids()) == ["a"]
    asyncio.run(storage.close())


async def test_a_file_of_milvus_lite(tmp_path: Path) -> None:
    storage = MilvusVectorDBStorage(str(tmp_path / "vectors.db")).bind("rows")
    await storage.open()
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    await storage.close()
    await storage.open()
    assert await storage.ids() == ["a"]
    await storage.close()
    from milvus_lite.server_manager import server_manager_instance  # noqa: PLC0415 — its server ends here, not with the run

    server_manager_instance.release_all()


async def test_rows_of_writers_at_once_survive_the_death_of_the_server() -> None:
    """Milvus Lite loses rows of concurrent upserts at its next start, unless they were in turn or flushed."""
    port, folder = free_port(), data_folder()
    process = serve(milvus_command(folder, port), port, folder)
    storages = [MilvusVectorDBStorage(f"http://{HOST}:{port}").bind("rows") for _ in range(4)]
    for storage in storages:
        await storage.open()
    vectors = _random(800, 8)
    async with task_group() as group:
        for start in range(0, 800, 50):
            records = [VectorRecord(f"{n:03}", vectors[n]) for n in range(start, start + 50)]
            group.create_task(storages[start // 50 % 4].put_many(records))
    await storages[0].flush()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    serve(milvus_command(folder, port), port, folder)
    assert await storages[1].ids() == [f"{n:03}" for n in range(800)]
    for storage in storages:
        await storage.close()


def _credentials() -> tuple[str, str, str]:
    return SECRETS[1], "root", SECRETS[0]


def _check_no_secret(*texts: str) -> None:
    for text in texts:
        assert not any(secret in text for secret in SECRETS)
