"""What the Neo4j storage does beyond its contract: addresses and secrets, writers at once, what it leaves behind, its order."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from neo4j.exceptions import ConstraintError

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, StorageError, StoreCorruptError
from easy_knowledge_retriever.kg import bolt
from easy_knowledge_retriever.kg.graph_storage import cypher
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage
from easy_knowledge_retriever.kg.graph_storage.cypher import Transaction, ask
from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter
from tests.support.bolt import DATABASE, PASSWORD, USER, bolt_uri, emptied, nodes

NO_SERVER = "bolt://127.0.0.1:9"


def _storage(folder: Path) -> Neo4JStorage:
    return Neo4JStorage(emptied(folder), USER, PASSWORD, DATABASE).bind("graph")


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Neo4JStorage]:
    opened = _storage(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(MissingExtraError, match=r"easy-knowledge-retriever\[neo4j\]"):
        Neo4JStorage()


async def test_where_nobody_listens_the_address_is_told_and_what_to_do() -> None:
    storage = Neo4JStorage(NO_SERVER, "somebody", "hunter2").bind("graph")
    with pytest.raises(StorageError, match=r"'bolt://127.0.0.1:9' cannot be reached.*NEO4J_URI") as raised:
        await storage.open()
    assert "hunter2" not in f"{raised.value}{raised.value.__cause__!r}"


async def test_a_refused_login_is_told_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    storage = Neo4JStorage(bolt_uri(), USER, "hunter2").bind("graph")
    with pytest.raises(StorageError, match=r"refuses the login of 'root'.*neo4j_password") as raised:
        await storage.open()
    assert "hunter2" not in f"{raised.value}{raised.value.__cause__!r}{caplog.text}"


async def test_a_database_that_is_not_there_is_named() -> None:
    storage = Neo4JStorage(bolt_uri(), USER, PASSWORD, "nowhere").bind("graph")
    with pytest.raises(StorageError, match=r"no database 'nowhere'"):
        await storage.open()
    with pytest.raises(StorageError, match="not open"):
        await storage.flush()


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(vars(Neo4JStorage(NO_SERVER, "somebody", "hunter2")))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"neo4j_uri": "http://there"}, "neo4j_uri begins with 'http'"),
        ({"neo4j_uri": "bolt://me:hunter2@there"}, "neo4j_uri holds a login"),
        ({"neo4j_connection_pool_size": 0}, "neo4j_connection_pool_size"),
        ({"neo4j_connection_timeout": 0}, "connection_timeout"),
        ({"neo4j_connection_acquisition_timeout": float("inf")}, "acquisition_timeout"),
        ({"neo4j_max_transaction_retry_time": -1}, "retry_time"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        Neo4JStorage(**arguments)
    assert "hunter2" not in str(raised.value)


def test_the_environment_is_read_and_an_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URI", "USERNAME", "PASSWORD", "DATABASE", "WORKSPACE"):
        monkeypatch.setenv(f"NEO4J_{name}", "bolt://there" if name == "URI" else f"env_{name.lower()}")
    storage = Neo4JStorage().bind("graph", "told")
    server = storage._server
    assert (server.uri, server.database) == ("bolt://there", "env_database")
    assert (server.username, server.password) == ("env_username", "env_password")
    assert storage._space == "env_workspace/graph"
    given = Neo4JStorage("bolt://here", "u", "p", "d", workspace="w").bind("graph", "told")
    assert given._server.uri == "bolt://here"
    assert (given._server.username, given._server.password, given._server.database) == ("u", "p", "d")
    assert given._space == "w/graph"


async def test_no_name_stands_in_a_statement(storage: Neo4JStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    odd = "x'}) DETACH DELETE n //"

    async def listen(transaction: Transaction, statement: str, **parameters: object) -> list[list[Any]]:
        said.append(statement)
        return await ask(transaction, statement, **parameters)

    monkeypatch.setattr(cypher, "ask", listen)
    monkeypatch.setattr("easy_knowledge_retriever.kg.graph_storage.neo4j_impl.ask", listen)
    seen = SearchFilter(document_ids=frozenset({odd}), collections=frozenset({odd}))
    await storage.put_entities([Entity(odd, names=((odd, 1),)), Entity("b")])
    await storage.put_relations([Relation(RelationKey.of(odd, "b"), chunk_ids=(odd,))])
    await storage.put_mentions([MentionEdge(odd, odd, odd, odd), MentionEdge("b", odd, odd, odd)])
    assert (await storage.relations_of([odd], seen)).keys() == {odd}
    assert (await storage.subgraph([odd], [odd], hops=2, max_nodes=9, max_degree=9, filter=seen)).size == 3
    assert (await storage.neighbourhood(odd, 2, 9)).entities[0].key == odd
    assert await storage.visible(seen) == {odd, "b"}
    await storage.delete_relations([RelationKey.of(odd, "b")])
    await storage.delete_mentions([odd])
    await storage.delete_entities([odd])
    await storage.drop()
    assert len(said) > 20
    assert not any(odd in statement or "graph" in statement for statement in said)


async def test_writers_at_once_make_one_node_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of several processes, which know nothing of each other's turns."""
    monkeypatch.setattr(bolt.BoltServer, "turn", lambda _server, _space: asyncio.Lock())
    storages = [_storage(tmp_path) for _ in range(4)]
    for storage in storages:
        await storage.open()
    names = [f"n{n}" for n in range(30)]
    async with task_group() as group:
        for storage in storages:
            group.create_task(storage.put_entities([Entity(name) for name in names]))
    async with task_group() as group:
        for storage in storages:
            group.create_task(storage.put_mentions([MentionEdge(name, "c", "d") for name in names]))
    async with task_group() as group:
        for storage in storages:
            group.create_task(storage.put_relations([Relation(RelationKey.of("n0", name)) for name in names]))
    assert await storages[0].counts() == GraphCounts(30, 30, 30)
    for storage in storages:
        await storage.close()


async def test_a_node_that_another_process_made_meanwhile_is_tried_once_more(storage: Neo4JStorage) -> None:
    tries = []

    async def work(_transaction: Transaction) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConstraintError("made meanwhile")
        return "written"

    assert await storage._write(work) == "written"
    tries.append(1)

    async def always(_transaction: Transaction) -> None:
        raise ConstraintError("made meanwhile")

    with pytest.raises(StorageError, match="nothing of this call was written"):
        await storage._write(always)


async def test_a_call_that_fails_writes_nothing(storage: Neo4JStorage) -> None:
    async def work(transaction: Transaction) -> None:
        await ask(transaction, cypher.PUT_ENTITIES, rows=[storage._entity_row(Entity("a"))])
        await ask(transaction, "RETURN 1 AS a RETURN")

    with pytest.raises(StorageError, match="failed"):
        await storage._write(work)
    assert await storage.keys() == []


async def test_deleting_everything_leaves_nothing(storage: Neo4JStorage) -> None:
    await storage.put_entities([Entity("a"), Entity("b")])
    await storage.put_relations(
        [Relation(RelationKey("a", "b")), Relation(RelationKey("a", "x")), Relation(RelationKey("y", "z"))]
    )
    await storage.put_mentions([MentionEdge("a", "1", "d"), MentionEdge("w", "2", "d"), MentionEdge("a", "3", "d")])
    assert nodes() == 9
    await storage.delete_relations([RelationKey("y", "z")])
    await storage.delete_mentions(["2", "3"])
    assert nodes() == 4
    await storage.delete_entities(["a", "b"])
    assert nodes() == 0


async def test_many_rows_go_in_batches(storage: Neo4JStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cypher, "BATCH", 3)
    keys = [f"k{n}" for n in range(10)]
    await storage.put_entities([Entity(key) for key in keys])
    await storage.put_relations([Relation(RelationKey.of("k0", key)) for key in keys])
    await storage.put_mentions([MentionEdge(key, f"c{n % 2}", "d") for n, key in enumerate(keys)])
    assert list(await storage.entities(keys)) == keys
    assert await storage.counts() == GraphCounts(10, 10, 10)
    assert (await storage.subgraph(["c0"], [], hops=4, max_nodes=50, max_degree=50)).size == 12


async def test_another_event_loop_is_told_so(storage: Neo4JStorage) -> None:
    with pytest.raises(StorageError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, storage.keys())


async def test_a_value_that_somebody_changed_is_refused(storage: Neo4JStorage) -> None:
    await storage.put_entities([Entity("a")])
    await storage._write(lambda transaction: ask(transaction, "MATCH (e:EkrEntity {key: 'a'}) SET e.value = '{}'"))
    with pytest.raises(StoreCorruptError):
        await storage.entities(["a"])


async def test_what_another_storage_wrote_is_seen_at_once(storage: Neo4JStorage, tmp_path: Path) -> None:
    other = _storage(tmp_path)
    await other.open()
    for n in range(5):
        await other.put_entities([Entity(f"{n}")])
        assert len(await storage.keys()) == n + 1
    await other.close()


@pytest.mark.parametrize("seed", range(4))
async def test_it_answers_in_the_order_of_sqlite(storage: Neo4JStorage, tmp_path: Path, seed: int) -> None:
    reference = SqliteGraphStorage(tmp_path).bind("graph")
    await reference.open()
    await _fill(storage, random.Random(seed))
    await _fill(reference, random.Random(seed))
    for seen in (None, SearchFilter(document_ids=frozenset({"d1", "d2"})), SearchFilter(collections=frozenset({"c0"}))):
        assert await _answers(storage, seen) == await _answers(reference, seen)
    await reference.close()


async def _fill(storage: GraphStorage, choice: random.Random) -> None:
    names = [f"e{n}" for n in range(12)]
    for _ in range(2):
        await storage.put_entities([Entity(name, names=((name.upper(), choice.randrange(3)),)) for name in names])
        await storage.put_relations(
            [
                Relation(
                    RelationKey.of(*choice.choices(names, k=2)),
                    weight=choice.choice([1.0, 2.5]),
                    chunk_ids=tuple(sorted({str(choice.randrange(8)) for _ in range(2)})),
                )
                for _ in range(20)
            ]
        )
        mentions = [(choice.choice(names), choice.randrange(8), choice.choice([1.0, 2.0])) for _ in range(30)]
        await storage.put_mentions([MentionEdge(e, f"{c}", f"d{c % 4}", f"c{c % 2}", w) for e, c, w in mentions])
        await storage.delete_entities(choice.sample(names, 2))
        await storage.delete_mentions([str(choice.randrange(8))])


async def _answers(storage: GraphStorage, seen: SearchFilter | None) -> list[object]:
    keys = await storage.keys()
    walks: list[object] = []
    for hops, max_nodes, max_degree in ((1, 30, 4), (2, 8, 30), (4, 30, 5)):
        walk = await storage.subgraph(["2", "9"], keys[:2], hops=hops, max_nodes=max_nodes, max_degree=max_degree, filter=seen)
        arrays = [array.tolist() for array in (walk.first, walk.second, walk.weight)]
        walks += [walk.chunk_ids, walk.entity_keys, arrays]
    return [
        keys,
        *walks,
        await storage.labels(),
        await storage.entities(keys, seen),
        await storage.relations_of(keys, seen),
        await storage.relation_keys_of(keys, seen, 2),
        await storage.mentions_of(keys, seen, 3),
        await storage.mentions_in([str(n) for n in range(8)]),
        await storage.degrees(keys),
        await storage.neighbourhood(keys[0], 2, 6),
        await storage.counts(),
    ]
