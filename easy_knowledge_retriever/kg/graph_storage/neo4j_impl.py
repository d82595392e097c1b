"""The graph in Neo4j: entities and chunks as nodes, relations and mentions as relationships, and no extension needed."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self, TypeVar

from easy_knowledge_retriever.errors import StorageError, StorageNotOpenError, StoreCorruptError
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.bolt import BoltServer, Driver, neo4j_package
from easy_knowledge_retriever.kg.codecs import decode_entity, decode_relation, encode_entity, encode_relation
from easy_knowledge_retriever.kg.files import off_loop
from easy_knowledge_retriever.kg.graph_storage import cypher
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.kg.graph_storage.cypher import GraphView, RelationRow, Transaction, ask
from easy_knowledge_retriever.settings import check_slug, environment
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["Neo4JStorage"]

logger = logging.getLogger("easy_knowledge_retriever")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Opened:
    driver: Driver
    loop: asyncio.AbstractEventLoop
    turn: asyncio.Lock
    bookmarks: Any
    """By which a read sees what was written before, on whichever member of a cluster."""


class Neo4JStorage(GraphStorage):
    """A graph in Neo4j 5.7 or later, or in another server that speaks its protocol and Cypher.

    Each call is one transaction. Everything goes in batches, through constraints that are made when it is opened; neither
    APOC nor a full-text or vector index is used. It belongs to the event loop in which it was opened.

    Args:
        neo4j_uri: Address, such as ``neo4j://localhost:7687``; else ``NEO4J_URI``, else that one.
        neo4j_username: User name; else ``NEO4J_USERNAME``.
        neo4j_password: Password; else ``NEO4J_PASSWORD``.
        neo4j_database: Database, which must exist; else ``NEO4J_DATABASE``, else the default one of the server.
        neo4j_connection_pool_size: Connections at most.
        neo4j_connection_timeout: Seconds to wait for a connection to be made.
        neo4j_connection_acquisition_timeout: Seconds to wait for one that is free.
        neo4j_max_transaction_retry_time: Seconds for which a transaction that met another one is tried again.
        workspace: Separates bases in one database. One given here, or else in ``NEO4J_WORKSPACE``, is kept whatever
            ``bind`` is told.
        embedding_func: Ignored with a warning: a storage does not embed.

    Raises:
        MissingExtraError: The package neo4j is not installed.
    """

    def __init__(  # noqa: PLR0913 — the names are those of the public surface
        self,
        neo4j_uri: str | None = None,
        neo4j_username: str | None = None,
        neo4j_password: str | None = None,
        neo4j_database: str | None = None,
        neo4j_connection_pool_size: int = 100,
        *,
        neo4j_connection_timeout: float = 30.0,
        neo4j_connection_acquisition_timeout: float = 60.0,
        neo4j_max_transaction_retry_time: float = 30.0,
        workspace: str = "",
        embedding_func: object = None,
    ) -> None:
        if embedding_func is not None:
            _warn_once()
        neo4j_package()
        known = environment()
        self._server = BoltServer(
            neo4j_uri or known.neo4j_uri or "neo4j://localhost:7687",
            neo4j_database or known.neo4j_database or "",
            neo4j_username or known.neo4j_username or "",
            neo4j_password or known.neo4j_password or "",
            neo4j_connection_pool_size,
            neo4j_connection_timeout,
            neo4j_connection_acquisition_timeout,
            neo4j_max_transaction_retry_time,
        )
        self._own_workspace = check_slug(workspace or known.neo4j_workspace or "")
        self._space = f"{self._own_workspace}/"
        self._opened: _Opened | None = None

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = copy.copy(self)
        bound._space = f"{self._own_workspace or check_slug(workspace)}/{check_slug(namespace)}"
        bound._opened = None
        return bound

    async def open(self) -> None:
        if self._opened is not None:
            return
        driver = await self._server.connect()
        turn, bookmarks = self._server.turn(self._space), neo4j_package().AsyncGraphDatabase.bookmark_manager()
        self._opened = _Opened(driver, asyncio.get_running_loop(), turn, bookmarks)
        try:
            for statement in cypher.SCHEMA:
                await self._write(partial(ask, statement=statement))
        except BaseException:
            await self.close()
            raise

    async def flush(self) -> None:
        self._here()  # what was committed is durable

    async def close(self) -> None:
        if self._opened is not None:
            driver = self._here().driver
            self._opened = None
            await driver.close()

    async def drop(self) -> None:
        for statement in cypher.DROP:
            while (await self._write(partial(ask, statement=statement, space=self._space)))[0][0]:
                pass

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        latest = {entity.key: entity for entity in entities}
        rows = await off_loop(lambda: [self._entity_row(entity) for entity in latest.values()])
        await self._write(partial(ask, statement=cypher.PUT_ENTITIES, rows=rows))

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        latest = {relation.key: relation for relation in relations}
        columns = await off_loop(lambda: {key: _relation_columns(relation) for key, relation in latest.items()})

        async def work(transaction: Transaction) -> None:
            await self._put_ends(transaction, [end for key in latest for end in key])
            places = await self._places(transaction, latest)
            rows = [{**place, "columns": columns[key]} for key, place in places.items()]
            await ask(transaction, cypher.PUT_RELATIONS, rows=rows)

        await self._write(work)

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        latest = {(mention.entity, mention.chunk_id): mention for mention in mentions}
        rows = [self._mention_row(mention) for mention in latest.values()]
        chunks = [{"id": self._chunk(chunk_id), "key": chunk_id} for chunk_id in dict.fromkeys(pair[1] for pair in latest)]

        async def work(transaction: Transaction) -> None:
            await self._put_ends(transaction, [pair[0] for pair in latest])
            await ask(transaction, cypher.PUT_CHUNKS, rows=chunks, space=self._space)
            of = await cypher.degrees(transaction, cypher.MENTION_DEGREES, [row["entity"] for row in rows])
            within = await cypher.degrees(transaction, cypher.CHUNK_DEGREES, [row["chunk"] for row in rows])
            few = [row for row in rows if of[row["entity"]] < within[row["chunk"]]]
            many = [row for row in rows if of[row["entity"]] >= within[row["chunk"]]]
            await ask(transaction, cypher.PUT_MENTIONS_AT, rows=few)
            await ask(transaction, cypher.PUT_MENTIONS_IN, rows=many)

        await self._write(work)

    async def delete_entities(self, keys: Sequence[str]) -> None:
        ids = [self._entity(key) for key in dict.fromkeys(keys)]

        async def work(transaction: Transaction) -> None:
            ends = [end for (end,) in await ask(transaction, cypher.EMPTY_ENDS, ids=ids)]
            chunks = [chunk for (chunk,) in await ask(transaction, cypher.CHUNKS_OF, ids=ids)]
            await ask(transaction, cypher.DELETE_ENTITIES, ids=ids)
            await ask(transaction, cypher.PRUNE_ENTITIES, ids=ends)
            await ask(transaction, cypher.PRUNE_CHUNKS, ids=chunks)

        await self._write(work)

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        wanted = list(dict.fromkeys(RelationKey(*key) for key in keys))

        async def work(transaction: Transaction) -> None:
            places = await self._places(transaction, wanted)
            await ask(transaction, cypher.DELETE_RELATIONS, rows=list(places.values()))
            ends = dict.fromkeys(self._entity(end) for key in wanted for end in key)
            await ask(transaction, cypher.PRUNE_ENTITIES, ids=list(ends))

        await self._write(work)

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        ids = [self._chunk(chunk_id) for chunk_id in dict.fromkeys(chunk_ids)]

        async def work(transaction: Transaction) -> None:
            ends = [end for (end,) in await ask(transaction, cypher.EMPTY_IN, ids=ids)]
            await ask(transaction, cypher.DELETE_CHUNKS, ids=ids)
            await ask(transaction, cypher.PRUNE_ENTITIES, ids=ends)

        await self._write(work)

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        async def work(view: GraphView) -> dict[str, str]:
            wanted = keys if filter is None else await view.visible(keys)
            return await self._values(view.transaction, wanted)

        values = await self._view(work, filter)
        return await off_loop(lambda: _entities(values))

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        rows = await self._read(lambda transaction: self._rows(transaction, keys))
        return await off_loop(lambda: {row.key: _relation(row) for row in rows})

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        at = await self._view(lambda view: view.relations_at(keys, whole=True), filter)
        return await off_loop(lambda: {key: [_relation(row) for row in rows] for key, rows in at.items()})

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        at = await self._view(lambda view: view.relations_at(keys), filter)
        return {key: [row.key for row in rows[:limit]] for key, rows in at.items()}

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        found = await self._view(lambda view: view.mentions_at(keys, whole=True), filter)
        return {key: mentions[:limit] for key, mentions in found.items()}

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        return await self._view(lambda view: view.mentions_in(chunk_ids, whole=True))

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        ids = [self._entity(key) for key in dict.fromkeys(keys)]
        rows = await self._read(partial(ask, statement=cypher.DEGREES, ids=ids))
        return {key: degree for key, degree in rows}

    async def visible(self, filter: SearchFilter) -> set[str]:
        return await self._view(lambda view: view.all_visible(), filter)

    async def subgraph(
        self,
        chunk_ids: Sequence[str],
        entity_keys: Sequence[str],
        *,
        hops: int,
        max_nodes: int,
        max_degree: int,
        filter: SearchFilter | None = None,
    ) -> Subgraph:
        return await self._view(
            lambda view: view.walk(chunk_ids, entity_keys, hops=hops, max_nodes=max_nodes, max_degree=max_degree), filter
        )

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        async def work(view: GraphView) -> tuple[bool, dict[str, str], list[RelationRow]]:
            reached = await (view.by_degree() if key == "*" else view.reached(key, max_depth, max_nodes))
            kept = reached[: max(max_nodes, 0)]
            values = await self._values(view.transaction, kept)
            pairs = [row.key for row in await view.relations_among(kept)]
            return len(kept) < len(reached), values, await self._rows(view.transaction, pairs)

        truncated, values, rows = await self._view(work)
        entities, relations = await off_loop(lambda: (_entities(values), [_relation(row) for row in rows]))
        relations.sort(key=lambda relation: (-relation.weight, relation.key))
        return Neighbourhood(tuple(entities.values()), tuple(relations), truncated)

    async def labels(self) -> list[str]:
        return sorted(name for _, name in await self._all(cypher.NAMES))

    async def keys(self) -> list[str]:
        return sorted(key for key, _ in await self._all(cypher.NAMES))

    async def relation_keys(self) -> list[RelationKey]:
        return sorted(RelationKey(*row) for row in await self._all(cypher.RELATION_KEYS))

    async def counts(self) -> GraphCounts:
        async def work(transaction: Transaction) -> list[int]:
            return [(await ask(transaction, statement, space=self._space))[0][0] for statement in cypher.COUNTS]

        return GraphCounts(*await self._read(work))

    def _here(self) -> _Opened:
        if self._opened is None:
            raise StorageNotOpenError(f"Neo4JStorage of {self._space!r} is not open", hint="call open() first")
        if self._opened.loop is not asyncio.get_running_loop():
            raise StorageError("this Neo4JStorage was opened in another event loop", hint="use it there, or open one here")
        return self._opened

    def _session(self, opened: _Opened) -> Any:
        return opened.driver.session(**self._server.session(), bookmark_manager=opened.bookmarks)

    async def _write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Result of work in one transaction, which the driver tries again where it met another one."""
        opened = self._here()
        async with opened.turn, self._session(opened) as session:
            with self._server.translated():
                try:
                    written: T = await session.execute_write(work)
                except neo4j_package().exceptions.ConstraintError:  # another process made the same node meanwhile
                    written = await session.execute_write(work)
                return written

    async def _read(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        opened = self._here()
        with self._server.translated():
            async with self._session(opened) as session:
                found: T = await session.execute_read(work)
                return found

    async def _view(self, work: Callable[[GraphView], Awaitable[T]], filter: SearchFilter | None = None) -> T:
        return await self._read(lambda transaction: work(GraphView(transaction, self._space, filter)))

    async def _all(self, statement: str) -> list[list[Any]]:
        return await self._read(partial(ask, statement=statement, space=self._space))

    async def _values(self, transaction: Transaction, keys: Iterable[str]) -> dict[str, str]:
        """What is kept of the entities that exist, in the order given."""
        wanted = list(dict.fromkeys(keys))
        found = dict(await ask(transaction, cypher.ENTITIES, ids=[self._entity(key) for key in wanted]))
        return {key: found[key] for key in wanted if key in found}

    async def _rows(self, transaction: Transaction, keys: Iterable[RelationKey]) -> list[RelationRow]:
        """The relations that exist, in the order given."""
        wanted = list(dict.fromkeys(keys))
        places = await self._places(transaction, wanted)
        rows = await ask(transaction, cypher.RELATIONS, rows=list(places.values()))
        found = {RelationKey(first, second): rest for first, second, *rest in rows}
        return [RelationRow(key, *found[key]) for key in wanted if key in found]

    def _entity(self, key: str) -> str:
        return cypher.entity_id(self._space, key)

    def _chunk(self, chunk_id: str) -> str:
        return cypher.chunk_id_of(self._space, chunk_id)

    async def _put_ends(self, transaction: Transaction, keys: Iterable[str]) -> None:
        rows = [{"id": self._entity(key), "key": key} for key in dict.fromkeys(keys)]
        await ask(transaction, cypher.PUT_ENDS, rows=rows, space=self._space)

    async def _places(self, transaction: Transaction, keys: Iterable[RelationKey]) -> dict[RelationKey, dict[str, Any]]:
        """Where relations are: their ids, and their ends, the one with fewer relations first."""
        ends = {key: [self._entity(end) for end in key] for key in keys}
        counts = await cypher.degrees(transaction, cypher.RELATION_DEGREES, [end for pair in ends.values() for end in pair])
        places: dict[RelationKey, dict[str, Any]] = {}
        for key, pair in ends.items():
            near, far = sorted(pair, key=counts.__getitem__)
            places[key] = {"id": cypher.relation_id(self._space, key), "near": near, "far": far}
        return places

    def _entity_row(self, entity: Entity) -> dict[str, Any]:
        shown = {"key": entity.key, "name": entity.name, "type": entity.type}
        columns = {"space": self._space, **shown, "value": _encoded(encode_entity(entity))}
        return {"id": self._entity(entity.key), "columns": columns}

    def _mention_row(self, mention: MentionEdge) -> dict[str, Any]:
        columns = {
            "entity": mention.entity,
            "chunk": mention.chunk_id,
            "document": mention.document_id,
            "collection": mention.collection,
            "weight": float(mention.weight),
            "source": mention.source,
        }
        ids = {"entity": self._entity(mention.entity), "chunk": self._chunk(mention.chunk_id)}
        return {"id": cypher.mention_id(self._space, mention), **ids, "columns": columns}


def _relation_columns(relation: Relation) -> dict[str, Any]:
    # Its chunks stand by themselves: a walk reads them without the rest.
    rest = {name: value for name, value in encode_relation(relation).items() if name != "chunk_ids"}
    return {
        "first": relation.key.first,
        "second": relation.key.second,
        "weight": float(relation.weight),
        "chunks": list(relation.chunk_ids),
        "value": _encoded(rest),
    }


def _encoded(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _entities(values: Mapping[str, str]) -> dict[str, Entity]:
    return {key: _decoded(value, decode_entity) for key, value in values.items()}


def _relation(row: RelationRow) -> Relation:
    return _decoded(row.value, lambda data: decode_relation({**data, "chunk_ids": row.chunk_ids}))


def _decoded(value: Any, decode: Callable[[Any], T]) -> T:
    try:
        return decode(json.loads(value))
    except (AttributeError, LookupError, TypeError, ValueError) as failure:
        raise StoreCorruptError(f"the graph holds a value that was not written so: {failure!r}") from failure


@cache
def _warn_once() -> None:
    logger.warning("Neo4JStorage was given an embedding_func and ignores it: storages do not embed")
