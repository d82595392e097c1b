"""The knowledge graph in SQLite: rows for what is asked by key, arrays in memory for walks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from easy_knowledge_retriever.kg.codecs import decode_entity, decode_relation, encode_entity, encode_relation
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.kg.sqlite import SqliteSession, SqliteStorage
from easy_knowledge_retriever.kg.sqlite.adjacency import Adjacency
from easy_knowledge_retriever.kg.sqlite.session import Row
from easy_knowledge_retriever.kg.sqlite.storage import decoded, encoded, parsed
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["SqliteGraphStorage"]

_KEYS = "IN (SELECT value FROM json_each(?))"


class SqliteGraphStorage(SqliteStorage, GraphStorage):
    """Entities, relations and mentions in one SQLite file.

    Mentions and relations of entities are found by edges in memory (about 60 bytes each): the first question loads them, later
    ones what changed.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
    """

    role: ClassVar[str] = "graph"

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            latest = {row[0]: row for row in rows}
            _remove(session, "entity", space, "key", latest)
            session.write("INSERT INTO entity (space, key, name, value) VALUES (?, ?, ?, ?)", _in(space, latest.values()))

        await self._put(entities, lambda given: [(e.key, e.name, encoded(encode_entity(e))) for e in given], write)

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            latest = {RelationKey(row[0], row[1]): row for row in rows}
            session.remove("relation", space, _relation_seqs(session, space, latest))
            sql = "INSERT INTO relation (space, first, second, weight, chunks, value) VALUES (?, ?, ?, ?, ?, ?)"
            session.write(sql, _in(space, latest.values()))

        await self._put(relations, lambda given: list(map(_relation_row, given)), write)

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            latest = {row[:2]: row for row in rows}
            sql = f"SELECT seq, entity, chunk FROM mention WHERE space = ? AND chunk {_KEYS}"
            known = session.keyed(sql, space, {chunk for _, chunk in latest})
            session.remove("mention", space, [seq for seq, *pair in known if tuple(pair) in latest])
            session.write(
                "INSERT INTO mention (space, entity, chunk, document_id, collection, weight, source)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                _in(space, latest.values()),
            )

        def rows(given: Sequence[MentionEdge]) -> list[Row]:
            return [(m.entity, m.chunk_id, m.document_id, m.collection, m.weight, m.source) for m in given]

        await self._put(mentions, rows, write)

    async def delete_entities(self, keys: Sequence[str]) -> None:
        def write(session: SqliteSession, space: int, keys: list[str]) -> None:
            session.remove("mention", space, Adjacency.of(session, space, None).mention_rows(keys))
            _remove(session, "entity", space, "key", keys)
            for column in ("first", "second"):
                _remove(session, "relation", space, column, keys)

        await self._put(keys, list, write)

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        def write(session: SqliteSession, space: int, keys: list[RelationKey]) -> None:
            session.remove("relation", space, _relation_seqs(session, space, keys))

        await self._put(keys, lambda keys: [RelationKey(*key) for key in keys], write)

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        await self._put(chunk_ids, list, lambda session, space, ids: _remove(session, "mention", space, "chunk", ids))

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        return await self._read(lambda session, space: _entities(session, space, keys, filter))

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        return await self._read(lambda session, space: _relations(session, space, keys))

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        return await self._read(lambda session, space: _relations_of(session, space, keys, filter))

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        return await self._read(lambda session, space: Adjacency.of(session, space, filter).relation_keys(keys, limit))

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        def work(session: SqliteSession, space: int) -> dict[str, list[MentionEdge]]:
            chosen = Adjacency.of(session, space, filter).mentions(keys, limit)
            sql = f"SELECT seq, {_MENTION} FROM mention WHERE seq IN (SELECT value FROM json_each(?))"
            rows = session.rows(sql, (json.dumps([seq for seqs in chosen.values() for seq in seqs]),))
            edges = {seq: MentionEdge(*row) for seq, *row in rows}
            return {key: [edges[seq] for seq in seqs] for key, seqs in chosen.items()}

        return await self._read(work)

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        def work(session: SqliteSession, space: int) -> dict[str, list[MentionEdge]]:
            sql = f"SELECT {_MENTION} FROM mention WHERE space = ? AND chunk {_KEYS} ORDER BY entity"
            found: defaultdict[str, list[MentionEdge]] = defaultdict(list)
            for row in session.keyed(sql, space, chunk_ids):
                found[row[1]].append(MentionEdge(*row))
            return {chunk: found[chunk] for chunk in chunk_ids if chunk in found}

        return await self._read(work)

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        def work(session: SqliteSession, space: int) -> dict[str, int]:
            counts: Counter[str] = Counter()
            # A relation of an entity with itself counts once.
            for end, rest in (("first", ""), ("second", "AND first <> second")):
                sql = f"SELECT {end}, count(*) FROM relation WHERE space = ? AND {end} {_KEYS} {rest} GROUP BY {end}"
                counts.update(dict(session.keyed(sql, space, keys)))
            return {key: counts[key] for key in _existing(session, space, keys)}

        return await self._read(work)

    async def visible(self, filter: SearchFilter) -> set[str]:
        return await self._read(lambda session, space: Adjacency.of(session, space, filter).visible_entities())

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
        return await self._read(
            lambda session, space: Adjacency.of(session, space, filter).walk(
                chunk_ids, entity_keys, hops=hops, max_nodes=max_nodes, max_degree=max_degree
            )
        )

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        def work(session: SqliteSession, space: int) -> Neighbourhood:
            if key == "*":
                reached = _by_degree(session, space)
            else:
                reached = _around(session, space, key, max_depth, max_nodes)
            kept = reached[: max(max_nodes, 0)]
            entities = _entities(session, space, kept, None)
            found = _relations_of(session, space, kept, None)
            inside = {r.key: r for relations in found.values() for r in relations if entities.keys() >= set(r.key)}
            heaviest = sorted(inside.values(), key=lambda r: (-r.weight, r.key))
            return Neighbourhood(tuple(entities.values()), tuple(heaviest), len(kept) < len(reached))

        return await self._read(work)

    async def labels(self) -> list[str]:
        return await self._texts("SELECT name FROM entity WHERE space = ? ORDER BY name")

    async def keys(self) -> list[str]:
        return await self._texts("SELECT key FROM entity WHERE space = ? ORDER BY key")

    async def relation_keys(self) -> list[RelationKey]:
        sql = "SELECT first, second FROM relation WHERE space = ? ORDER BY first, second"
        return await self._read(lambda session, space: [RelationKey(*row) for row in session.rows(sql, (space,))])

    async def counts(self) -> GraphCounts:
        def work(session: SqliteSession, space: int) -> GraphCounts:
            tables = ("entity", "relation", "mention")
            found = [session.rows(f"SELECT count(*) FROM {table} WHERE space = ?", (space,))[0][0] for table in tables]
            return GraphCounts(*found)

        return await self._read(work)

    async def _texts(self, sql: str) -> list[str]:
        return await self._read(lambda session, space: [text for (text,) in session.rows(sql, (space,))])

    def _drop(self, session: SqliteSession, space: int) -> None:
        for table in ("entity", "relation", "mention"):
            session.remove_all(table, space)


_MENTION = "entity, chunk, document_id, collection, weight, source"


def _in(space: int, rows: Iterable[Row]) -> list[Row]:
    return [(space, *row) for row in rows]


def _remove(session: SqliteSession, table: str, space: int, column: str, keys: Iterable[str]) -> None:
    found = session.keyed(f"SELECT seq FROM {table} WHERE space = ? AND {column} {_KEYS}", space, keys)
    session.remove(table, space, [seq for (seq,) in found])


def _relation_row(relation: Relation) -> Row:
    """Columns of a relation. Its chunks stand by themselves: the walk reads them without the rest."""
    rest = {name: value for name, value in encode_relation(relation).items() if name != "chunk_ids"}
    return (*relation.key, relation.weight, encoded(list(relation.chunk_ids)), encoded(rest))


def _relation(session: SqliteSession, chunks: str | bytes, value: str | bytes) -> Relation:
    return decoded(session, value, lambda data: decode_relation({**data, "chunk_ids": parsed(chunks)}))


def _relation_seqs(session: SqliteSession, space: int, keys: Iterable[RelationKey]) -> list[int]:
    """The rows of the relations that exist."""
    sql = "SELECT seq FROM relation WHERE space = ? AND first = ? AND second = ?"
    return [seq for (seq,) in session.one_by_one(sql, [(space, *key) for key in dict.fromkeys(keys)])]


def _existing(session: SqliteSession, space: int, keys: Iterable[str]) -> list[str]:
    """The keys of entities that exist, in the order given."""
    wanted = list(dict.fromkeys(keys))
    sql = f"SELECT key FROM entity WHERE space = ? AND key {_KEYS}"
    found = {key for (key,) in session.keyed(sql, space, wanted)}
    return [key for key in wanted if key in found]


def _entities(session: SqliteSession, space: int, keys: Sequence[str], filter: SearchFilter | None) -> dict[str, Entity]:
    wanted = keys if filter is None else Adjacency.of(session, space, filter).visible(keys)
    rows: dict[str, int] = dict(session.keyed(f"SELECT key, seq FROM entity WHERE space = ? AND key {_KEYS}", space, wanted))
    there = [key for key in dict.fromkeys(keys) if key in rows]
    values = session.store.mirrors.values
    found = values.read(session, "entity", [rows[key] for key in there], partial(_entity, session))
    return dict(zip(there, found, strict=True))


def _entity(session: SqliteSession, value: str | bytes) -> Entity:
    return decoded(session, value, decode_entity)


def _relations(session: SqliteSession, space: int, keys: Iterable[RelationKey]) -> dict[RelationKey, Relation]:
    rows = _relation_seqs(session, space, keys)
    found = session.store.mirrors.values.read(session, "relation", rows, partial(_relation, session))
    by_key = {relation.key: relation for relation in found}
    return {key: by_key[key] for key in keys if key in by_key}


def _relations_of(
    session: SqliteSession, space: int, keys: Sequence[str], filter: SearchFilter | None
) -> dict[str, list[Relation]]:
    at = Adjacency.of(session, space, filter).relation_keys(keys, None)
    found = _relations(session, space, dict.fromkeys(pair for pairs in at.values() for pair in pairs))
    return {key: [found[pair] for pair in pairs] for key, pairs in at.items()}


def _by_degree(session: SqliteSession, space: int) -> list[str]:
    sql = (
        "SELECT first, second FROM relation WHERE space = ?1"
        " AND first IN (SELECT key FROM entity WHERE space = ?1) AND second IN (SELECT key FROM entity WHERE space = ?1)"
    )
    degrees = Counter(end for pair in session.rows(sql, (space,)) for end in pair)
    keys = [key for (key,) in session.rows("SELECT key FROM entity WHERE space = ?", (space,))]
    return sorted(keys, key=lambda key: (-degrees[key], key))


def _around(session: SqliteSession, space: int, key: str, max_depth: int, max_nodes: int) -> list[str]:
    """Entities around one, breadth first; more than ``max_nodes`` only so far that one can tell."""
    reached = frontier = _existing(session, space, [key])
    for _ in range(max_depth):
        if not frontier or len(reached) > max_nodes:
            break
        near = Adjacency.of(session, space, None).relation_keys(frontier, None)
        ends = dict.fromkeys(end for node in frontier for pair in near.get(node, ()) for end in pair)
        known = set(reached)
        frontier = [end for end in ends if end not in known]
        reached = [*reached, *frontier]
    return reached
