"""The knowledge graph in PostgreSQL: a table of entities, one of relations, one of mentions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from easy_knowledge_retriever.kg.codecs import decode_entity, decode_relation, encode_entity, encode_relation
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.kg.postgres import PGSession, PGStorage
from easy_knowledge_retriever.kg.postgres.storage import decoded, encoded
from easy_knowledge_retriever.kg.postgres.walking import Seen, Walk
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["PGGraphStorage"]

_MENTION = "m.entity, m.chunk, m.document_id, m.collection, m.weight, m.source"


class PGGraphStorage(PGStorage, GraphStorage):
    """Entities, relations and mentions in PostgreSQL. A walk asks once a hop, and never reads the edges of a hub.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        options: How the database is reached, see ``PGOptions``.
    """

    role: ClassVar[str] = "graph"

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write(
                "INSERT INTO ekr.entity (space, workspace, key, name, value)"
                " SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::text[])"
                " ON CONFLICT (space, key) DO UPDATE SET name = excluded.name, value = excluded.value",
                space,
                self._space.workspace,
                *_columns((e.key, e.name, encoded(encode_entity(e))) for e in latest),
            )

        latest = list({entity.key: entity for entity in entities}.values())
        if latest:
            await self._change(write)

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        async def write(session: PGSession, space: int) -> None:
            rows = [(space, self._space.workspace, *_relation_row(relation)) for relation in latest]
            await session.write_many(
                "INSERT INTO ekr.relation (space, workspace, first, second, weight, chunks, value)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (space, first, second)"
                " DO UPDATE SET weight = excluded.weight, chunks = excluded.chunks, value = excluded.value",
                rows,
            )

        latest = list({relation.key: relation for relation in relations}.values())
        if latest:
            await self._change(write)

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        async def write(session: PGSession, space: int) -> None:
            rows = ((m.entity, m.chunk_id, m.document_id, m.collection, float(m.weight), m.source) for m in latest)
            await session.write(
                "INSERT INTO ekr.mention (space, workspace, entity, chunk, document_id, collection, weight, source)"
                " SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::float8[], $8::text[])"
                " ON CONFLICT (space, entity, chunk) DO UPDATE SET document_id = excluded.document_id,"
                " collection = excluded.collection, weight = excluded.weight, source = excluded.source",
                space,
                self._space.workspace,
                *_columns(rows),
            )

        latest = list({(mention.entity, mention.chunk_id): mention for mention in mentions}.values())
        if latest:
            await self._change(write)

    async def delete_entities(self, keys: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            for table, column in (("mention", "entity"), ("relation", "first"), ("relation", "second"), ("entity", "key")):
                await session.write(f"DELETE FROM ekr.{table} WHERE space = $1 AND {column} = ANY($2::text[])", space, list(keys))

        if keys:
            await self._change(write)

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write(
                "DELETE FROM ekr.relation AS r USING unnest($2::text[], $3::text[]) AS gone (first, second)"
                " WHERE r.space = $1 AND r.first = gone.first AND r.second = gone.second",
                space,
                *_columns(keys),
            )

        if keys:
            await self._change(write)

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            sql = "DELETE FROM ekr.mention WHERE space = $1 AND chunk = ANY($2::text[])"
            await session.write(sql, space, list(chunk_ids))

        if chunk_ids:
            await self._change(write)

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        return await self._read(lambda session, space: _Graph(session, space).entities(keys, filter))

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        async def work(session: PGSession, space: int) -> dict[RelationKey, Relation]:
            sql = (
                f"SELECT {_RELATION} FROM unnest($2::text[], $3::text[]) AS wanted (first, second) JOIN ekr.relation AS r"
                " ON r.space = $1 AND r.first = wanted.first AND r.second = wanted.second"
            )
            found = [_relation(session, row) for row in await session.rows(sql, space, *_columns(keys))]
            by_key = {relation.key: relation for relation in found}
            return {key: by_key[key] for key in keys if key in by_key}

        return await self._read(work) if keys else {}

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        return await self._read(lambda session, space: _Graph(session, space).relations_of(keys, filter))

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        return await self._read(lambda session, space: _Graph(session, space).relation_keys_of(keys, filter, limit))

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        async def work(session: PGSession, space: int) -> dict[str, list[MentionEdge]]:
            seen = Seen.by(filter)
            sql = (
                f"SELECT {_MENTION} FROM (SELECT m.*, row_number() OVER (PARTITION BY m.entity ORDER BY m.weight DESC, m.chunk)"
                f" AS place FROM ekr.mention AS m WHERE m.space = $1 AND m.entity = ANY(${seen.after}::text[])"
                f" AND {seen.entity('m.entity')}{seen.mention('m')}) AS m"
                f" WHERE place <= coalesce(${seen.after + 1}::bigint, place) ORDER BY m.entity, place"
            )
            found: defaultdict[str, list[MentionEdge]] = defaultdict(list)
            for row in await session.rows(sql, space, *seen.values, list(keys), limit):
                found[row[0]].append(MentionEdge(*row))
            return {key: found[key] for key in keys if key in found}

        return await self._read(work) if keys else {}

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        async def work(session: PGSession, space: int) -> dict[str, list[MentionEdge]]:
            sql = f"SELECT {_MENTION} FROM ekr.mention AS m WHERE space = $1 AND chunk = ANY($2::text[]) ORDER BY entity"
            found: defaultdict[str, list[MentionEdge]] = defaultdict(list)
            for row in await session.rows(sql, space, list(chunk_ids)):
                found[row[1]].append(MentionEdge(*row))
            return {chunk: found[chunk] for chunk in chunk_ids if chunk in found}

        return await self._read(work) if chunk_ids else {}

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        async def work(session: PGSession, space: int) -> dict[str, int]:
            # A relation of an entity with itself counts once.
            sql = (
                "SELECT key, (SELECT count(*) FROM ekr.relation AS r WHERE r.space = $1 AND r.first = e.key) + (SELECT count(*)"
                " FROM ekr.relation AS r WHERE r.space = $1 AND r.second = e.key AND r.first <> r.second)"
                " FROM ekr.entity AS e WHERE space = $1 AND key = ANY($2::text[])"
            )
            found: dict[str, int] = dict(await session.rows(sql, space, list(keys)))
            return {key: found[key] for key in keys if key in found}

        return await self._read(work) if keys else {}

    async def visible(self, filter: SearchFilter) -> set[str]:
        seen = Seen.by(filter)
        sql = f"SELECT key FROM ekr.entity AS e WHERE space = $1{seen.mentioned('e.key')}"
        return {key for (key,) in await self._read(lambda session, space: session.rows(sql, space, *seen.values))}

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
        async def work(session: PGSession, space: int) -> Subgraph:
            walk = Walk(session, space, filter, max_nodes, max_degree)
            await walk.begin(chunk_ids, entity_keys)
            await walk.go(hops)
            return await walk.subgraph()

        return await self._read(work)

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        async def work(session: PGSession, space: int) -> Neighbourhood:
            graph = _Graph(session, space)
            if key == "*":
                reached = await graph.by_degree(max_nodes)
            else:
                reached = await graph.around(key, max_depth, max_nodes)
            kept = reached[: max(max_nodes, 0)]
            entities = await graph.entities(kept, None)
            found = await graph.relations_of(kept, None)
            inside = {r.key: r for relations in found.values() for r in relations if entities.keys() >= set(r.key)}
            heaviest = sorted(inside.values(), key=lambda r: (-r.weight, r.key))
            return Neighbourhood(tuple(entities.values()), tuple(heaviest), len(kept) < len(reached))

        return await self._read(work)

    async def labels(self) -> list[str]:
        return await self._texts("SELECT name FROM ekr.entity WHERE space = $1 ORDER BY name")

    async def keys(self) -> list[str]:
        return await self._texts("SELECT key FROM ekr.entity WHERE space = $1 ORDER BY key")

    async def relation_keys(self) -> list[RelationKey]:
        sql = "SELECT first, second FROM ekr.relation WHERE space = $1 ORDER BY first, second"
        return [RelationKey(*row) for row in await self._read(lambda session, space: session.rows(sql, space))]

    async def counts(self) -> GraphCounts:
        counted = ", ".join(f"(SELECT count(*) FROM ekr.{table} WHERE space = $1)" for table in _TABLES)
        rows = await self._read(lambda session, space: session.rows(f"SELECT {counted}", space))
        return GraphCounts(*rows[0])

    async def _texts(self, sql: str) -> list[str]:
        return [text for (text,) in await self._read(lambda session, space: session.rows(sql, space))]

    async def _drop(self, session: PGSession, space: int) -> None:
        for table in _TABLES:
            await session.write(f"DELETE FROM ekr.{table} WHERE space = $1", space)


_TABLES = ("entity", "relation", "mention")
_RELATION = "r.chunks, r.value"


@dataclass(frozen=True, slots=True)
class _Graph:
    """Questions that several methods ask."""

    session: PGSession
    space: int

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None) -> dict[str, Entity]:
        """See ``GraphStorage.entities``."""
        seen = Seen.by(filter)
        sql = (
            f"SELECT key, value FROM ekr.entity AS e WHERE space = $1 AND key = ANY(${seen.after}::text[])"
            f"{seen.mentioned('e.key')}"
        )
        found: dict[str, str] = dict(await self.session.rows(sql, self.space, *seen.values, list(keys))) if keys else {}
        return {key: decoded(self.session, found[key], decode_entity) for key in keys if key in found}

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None) -> dict[str, list[Relation]]:
        """See ``GraphStorage.relations_of``."""
        found: defaultdict[str, list[Relation]] = defaultdict(list)
        for key, *row in await self._at(keys, filter, None, _RELATION):
            found[key].append(_relation(self.session, row))
        return {key: found[key] for key in keys if key in found}

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None, limit: int | None
    ) -> dict[str, list[RelationKey]]:
        """See ``GraphStorage.relation_keys_of``."""
        found: defaultdict[str, list[RelationKey]] = defaultdict(list)
        for key, first, second in await self._at(keys, filter, limit, "r.first, r.second"):
            found[key].append(RelationKey(first, second))
        return {key: found[key] for key in keys if key in found}

    async def by_degree(self, most: int) -> list[str]:
        """Entities of highest degree, one more than ``most`` if there are."""
        sql = (
            "SELECT e.key FROM ekr.entity AS e LEFT JOIN (SELECT node, count(*) AS degree FROM ekr.relation AS r,"
            " LATERAL (VALUES (r.first), (r.second)) AS ends (node) WHERE r.space = $1"
            f" AND {Seen.by(None).relation('r')} GROUP BY node) AS counted ON counted.node = e.key"
            " WHERE e.space = $1 ORDER BY coalesce(degree, 0) DESC, e.key LIMIT $2"
        )
        return [key for (key,) in await self.session.rows(sql, self.space, max(most, 0) + 1)]

    async def around(self, key: str, max_depth: int, max_nodes: int) -> list[str]:
        """Entities around one, breadth first; more than ``max_nodes`` only so far that one can tell."""
        reached = frontier = list(await self.entities([key], None))
        for _ in range(max_depth):
            if not frontier or len(reached) > max_nodes:
                break
            near = await self.relation_keys_of(frontier, None, None)
            ends = dict.fromkeys(end for node in frontier for pair in near.get(node, ()) for end in pair)
            known = set(reached)
            frontier = [end for end in ends if end not in known]
            reached = [*reached, *frontier]
        return reached

    async def _at(self, keys: Sequence[str], filter: SearchFilter | None, limit: int | None, columns: str) -> list[Any]:
        """An entity and columns of a relation at it, the heaviest first at each."""
        if not keys:
            return []
        seen = Seen.by(filter)
        ends = " UNION ALL ".join(
            f"SELECT r.{end} AS key, r.* FROM ekr.relation AS r WHERE r.space = $1 AND r.{end} = ANY(${seen.after}::text[])"
            f" AND {seen.relation('r')}{rest}"
            for end, rest in (("first", ""), ("second", " AND r.first <> r.second"))
        )
        sql = (
            f"SELECT r.key, {columns} FROM (SELECT r.*, row_number() OVER (PARTITION BY key ORDER BY weight DESC, first, second)"
            f" AS place FROM ({ends}) AS r) AS r WHERE place <= coalesce(${seen.after + 1}::bigint, place) ORDER BY key, place"
        )
        return await self.session.rows(sql, self.space, *seen.values, list(keys), limit)


def _columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The columns of rows, which are at least one."""
    return [list(column) for column in zip(*rows, strict=True)]


def _relation_row(relation: Relation) -> tuple[Any, ...]:
    """Columns of a relation. Its chunks stand by themselves: what may be seen is decided by them."""
    rest = {name: value for name, value in encode_relation(relation).items() if name != "chunk_ids"}
    return (*relation.key, float(relation.weight), list(relation.chunk_ids), encoded(rest))


def _relation(session: PGSession, row: Sequence[Any]) -> Relation:
    chunks, value = row
    return decoded(session, value, lambda data: decode_relation({**data, "chunk_ids": chunks}))
