"""The graph in Cypher: its statements, and what one transaction sees of it through a filter.

Nodes have the label ``EkrEntity`` or ``EkrChunk``, edges the type ``RELATES`` or ``MENTIONED_IN``; each has an ``id``, a digest
of its space, kind and key, that a constraint keeps unique. Names and values are parameters. An entity without a ``value`` is
only the end of an edge that was put before it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from easy_knowledge_retriever.types import ExtractionSource, MentionEdge, RelationKey, SearchFilter, Subgraph

__all__ = [
    "BATCH",
    "GraphView",
    "RelationRow",
    "Transaction",
    "ask",
    "chunk_id_of",
    "degrees",
    "entity_id",
    "mention_id",
    "relation_id",
]

BATCH = 500
"""Rows of one statement."""
Transaction = Any
"""A transaction of the driver."""
Row: TypeAlias = list[Any]
ENTITY, CHUNK = "entity", "chunk"
Node: TypeAlias = tuple[str, str]
"""``(ENTITY, key)`` or ``(CHUNK, id)``."""

SCHEMA = (
    "CREATE CONSTRAINT ekr_entity_id IF NOT EXISTS FOR (n:EkrEntity) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT ekr_chunk_id IF NOT EXISTS FOR (n:EkrChunk) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT ekr_relates_id IF NOT EXISTS FOR ()-[r:RELATES]-() REQUIRE r.id IS UNIQUE",
    "CREATE CONSTRAINT ekr_mentioned_id IF NOT EXISTS FOR ()-[r:MENTIONED_IN]-() REQUIRE r.id IS UNIQUE",
    "CREATE INDEX ekr_entity_space IF NOT EXISTS FOR (n:EkrEntity) ON (n.space)",
    "CREATE INDEX ekr_chunk_space IF NOT EXISTS FOR (n:EkrChunk) ON (n.space)",
)
"""Without the constraints two writers at once make two nodes of one."""

PUT_ENTITIES = "UNWIND $rows AS row MERGE (e:EkrEntity {id: row.id}) SET e += row.columns"
PUT_ENDS = "UNWIND $rows AS row MERGE (e:EkrEntity {id: row.id}) ON CREATE SET e.space = $space, e.key = row.key"
PUT_CHUNKS = "UNWIND $rows AS row MERGE (c:EkrChunk {id: row.id}) ON CREATE SET c.space = $space, c.key = row.key"
_ENDS = "UNWIND $rows AS row MATCH (near:EkrEntity {id: row.near}) MATCH (far:EkrEntity {id: row.far})"
_RELATION = "UNWIND $rows AS row MATCH (:EkrEntity {id: row.near})-[r:RELATES {id: row.id}]-()"
PUT_RELATIONS = f"{_ENDS} MERGE (near)-[r:RELATES {{id: row.id}}]-(far) SET r += row.columns"
RELATIONS = f"{_RELATION} RETURN DISTINCT r.first, r.second, r.weight, r.chunks, r.value"
DELETE_RELATIONS = f"{_RELATION} DELETE r"
_MENTIONED = "UNWIND $rows AS row MATCH (e:EkrEntity {id: row.entity}) MATCH (c:EkrChunk {id: row.chunk})"
PUT_MENTIONS_AT = f"{_MENTIONED} MERGE (e)-[m:MENTIONED_IN {{id: row.id}}]->(c) SET m += row.columns"
PUT_MENTIONS_IN = f"{_MENTIONED} MERGE (c)<-[m:MENTIONED_IN {{id: row.id}}]-(e) SET m += row.columns"
RELATION_DEGREES, MENTION_DEGREES, CHUNK_DEGREES = (
    f"UNWIND $ids AS id MATCH (n:{label} {{id: id}}) RETURN id, COUNT {{ (n)-[:{kind}]-() }}"
    for label, kind in (("EkrEntity", "RELATES"), ("EkrEntity", "MENTIONED_IN"), ("EkrChunk", "MENTIONED_IN"))
)
"""An edge is looked for at the end with fewer edges: the other may be a name that is everywhere, with all of its edges read."""
DELETE_ENTITIES = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id}) DETACH DELETE e"
DELETE_CHUNKS = "UNWIND $ids AS id MATCH (c:EkrChunk {id: id}) DETACH DELETE c"
EMPTY_ENDS = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id})-[:RELATES]-(o:EkrEntity) WHERE o.value IS NULL RETURN DISTINCT o.id"
EMPTY_IN = "UNWIND $ids AS id MATCH (:EkrChunk {id: id})--(e:EkrEntity) WHERE e.value IS NULL RETURN DISTINCT e.id"
CHUNKS_OF = "UNWIND $ids AS id MATCH (:EkrEntity {id: id})--(c:EkrChunk) RETURN DISTINCT c.id"
PRUNE_ENTITIES = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id}) WHERE e.value IS NULL AND NOT EXISTS { (e)--() } DELETE e"
PRUNE_CHUNKS = "UNWIND $ids AS id MATCH (c:EkrChunk {id: id}) WHERE NOT EXISTS { (c)--() } DELETE c"
DROP = tuple(
    f"MATCH (n:{label} {{space: $space}}) WITH n LIMIT {BATCH * 10} DETACH DELETE n RETURN count(*)"
    for label in ("EkrEntity", "EkrChunk")
)
ENTITIES = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id}) WHERE e.value IS NOT NULL RETURN e.key, e.value"
NAMES = "MATCH (e:EkrEntity {space: $space}) WHERE e.value IS NOT NULL RETURN e.key, e.name"
RELATION_KEYS = "MATCH (:EkrEntity {space: $space})-[r:RELATES]->() RETURN r.first, r.second"
COUNTS = (
    "MATCH (e:EkrEntity {space: $space}) WHERE e.value IS NOT NULL RETURN count(e)",
    "MATCH (:EkrEntity {space: $space})-[r:RELATES]->() RETURN count(r)",
    "MATCH (:EkrChunk {space: $space})<-[m:MENTIONED_IN]-() RETURN count(m)",
)
DEGREES = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id}) WHERE e.value IS NOT NULL RETURN e.key, COUNT { (e)-[:RELATES]-() }"
BY_DEGREE = "MATCH (e:EkrEntity {space: $space}) WHERE e.value IS NOT NULL RETURN e.key, COUNT { (e)-[:RELATES]-(:EkrEntity) }"
_EDGES = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id}) WHERE e.value IS NOT NULL RETURN e.key, COUNT { (e)--() }"
_AT = "UNWIND $ids AS id MATCH (e:EkrEntity {id: id})-[r:RELATES]-(o:EkrEntity) WHERE e.value IS NOT NULL AND o.value IS NOT NULL"
_AMONG = "UNWIND $ids AS id MATCH (:EkrEntity {id: id})-[r:RELATES]->(o:EkrEntity) WHERE o.id IN $all"
_ENDS_OF = "r.first, r.second, r.weight"
_EDGE = "m.entity, m.chunk, m.weight"
_MENTION = f"{_EDGE}, m.document, m.collection, m.source"


class RelationRow(NamedTuple):
    """A relation as an edge."""

    key: RelationKey
    weight: float
    chunk_ids: Sequence[str] = ()
    """Where they were asked for, or a filter is to look at them."""
    value: str | None = None
    """The rest of it, where that was asked for."""


def entity_id(space: str, key: str) -> str:
    """Id of an entity."""
    return _digest(f"{space}/entity/{key}")


def chunk_id_of(space: str, chunk_id: str) -> str:
    """Id of the node of a chunk."""
    return _digest(f"{space}/chunk/{chunk_id}")


def relation_id(space: str, key: RelationKey) -> str:
    """Id of a relation."""
    return _digest(f"{space}/relation/{key.id}")


def mention_id(space: str, mention: MentionEdge) -> str:
    """Id of a mention."""
    return _digest(f"{space}/mention/{RelationKey(mention.entity, mention.chunk_id).id}")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


async def ask(transaction: Transaction, statement: str, **parameters: object) -> list[Row]:
    """Answers to a statement; ``rows`` and ``ids`` are given in batches."""
    lists = [name for name in ("rows", "ids") if name in parameters]
    found: list[Row] = []
    if not lists:
        return await (await transaction.run(statement, parameters)).values()  # type: ignore[no-any-return]
    [name] = lists
    given: Any = parameters[name]
    for start in range(0, len(given), BATCH):
        batch = {**parameters, name: given[start : start + BATCH]}
        found += await (await transaction.run(statement, batch)).values()
    return found


async def degrees(transaction: Transaction, statement: str, ids: Sequence[str]) -> Counter[str]:
    """How many edges nodes have, with those that a batch is about to make.

    Args:
        transaction: A transaction.
        statement: One of the statements that count.
        ids: The nodes, as often as the batch names them.
    """
    counted = Counter(ids)
    counted.update(dict(await ask(transaction, statement, ids=list(counted))))
    return counted


@dataclass(frozen=True, slots=True)
class GraphView:
    """What one transaction sees of a graph through a filter: entities that exist and have a visible mention, and so on."""

    transaction: Transaction
    space: str
    filter: SearchFilter | None = None

    async def visible(self, keys: Iterable[str]) -> list[str]:
        """Those of some entities that can be seen, in the order given."""
        wanted = list(dict.fromkeys(keys))
        where = "e.value IS NOT NULL"
        if self.filter is not None:
            where += f" AND EXISTS {{ (e)-[m:MENTIONED_IN]->() WHERE {self._admitted} }}"
        found = await self._at_entities("MATCH (e:EkrEntity {id: id})", where, "e.key", wanted)
        there = {key for (key,) in found}
        return [key for key in wanted if key in there]

    async def all_visible(self) -> set[str]:
        """All entities with a visible mention."""
        statement = (
            "MATCH (e:EkrEntity {space: $space})-[m:MENTIONED_IN]->()"
            f" WHERE e.value IS NOT NULL AND {self._admitted} RETURN DISTINCT e.key"
        )
        return {key for (key,) in await ask(self.transaction, statement, space=self.space, **self._parameters)}

    async def relations_at(self, keys: Iterable[str], *, whole: bool = False) -> dict[str, list[RelationRow]]:
        """The visible relations at each entity, heaviest first, then by key.

        Args:
            keys: Entities.
            whole: Whether the values are wanted.
        """
        wanted = list(dict.fromkeys(keys))
        returned = f"{_ENDS_OF}, r.chunks, r.value" if whole else self._relation
        ids = [entity_id(self.space, key) for key in wanted]
        rows = await ask(self.transaction, f"{_AT} RETURN e.key, {returned}", ids=ids)
        at: defaultdict[str, dict[RelationKey, RelationRow]] = defaultdict(dict)
        for key, first, second, *rest in rows:
            at[key][RelationKey(first, second)] = RelationRow(RelationKey(first, second), *rest)
        seen = await self._seen([row for found in at.values() for row in found.values()])
        ordered = {key: sorted(at[key].values(), key=lambda row: (-row.weight, row.key)) for key in wanted if key in at}
        kept = {key: [row for row in rows if row.key in seen] for key, rows in ordered.items()}
        return {key: rows for key, rows in kept.items() if rows}

    async def relations_among(self, keys: Collection[str]) -> list[RelationRow]:
        """The visible relations between some entities that can be seen."""
        ids = [entity_id(self.space, key) for key in keys]
        rows = await ask(self.transaction, f"{_AMONG} RETURN {self._relation}", ids=ids, all=ids)
        found = [RelationRow(RelationKey(first, second), *rest) for first, second, *rest in rows]
        seen = await self._seen(found)
        return [row for row in found if row.key in seen]

    async def mentions_at(self, keys: Sequence[str], *, whole: bool = False) -> dict[str, list[MentionEdge]]:
        """The visible mentions of each entity, heaviest first, then by chunk.

        Args:
            keys: Entities.
            whole: Whether more than ends and weights is wanted.
        """
        where = f"e.value IS NOT NULL AND {self._admitted}"
        rows = await self._at_entities(
            "MATCH (e:EkrEntity {id: id})-[m:MENTIONED_IN]->()", where, _MENTION if whole else _EDGE, keys
        )
        found = _grouped(rows, 0)
        return {
            key: sorted(found[key], key=lambda mention: (-mention.weight, mention.chunk_id))
            for key in dict.fromkeys(keys)
            if key in found
        }

    async def mentions_in(self, chunk_ids: Iterable[str], *, whole: bool = False) -> dict[str, list[MentionEdge]]:
        """The visible mentions in each chunk, by entity.

        Args:
            chunk_ids: Chunks.
            whole: Whether more than ends and weights is wanted, and those of entities that are not there as well.
        """
        wanted = list(dict.fromkeys(chunk_ids))
        where = self._admitted if whole else f"e.value IS NOT NULL AND {self._admitted}"
        statement = (
            f"UNWIND $ids AS id MATCH (:EkrChunk {{id: id}})<-[m:MENTIONED_IN]-(e:EkrEntity)"
            f" WHERE {where} RETURN {_MENTION if whole else _EDGE}"
        )
        ids = [chunk_id_of(self.space, chunk_id) for chunk_id in wanted]
        found = _grouped(await ask(self.transaction, statement, ids=ids, **self._parameters), 1)
        return {chunk_id: sorted(found[chunk_id], key=lambda mention: mention.entity) for chunk_id in wanted if chunk_id in found}

    async def walk(
        self, chunk_ids: Sequence[str], entity_keys: Sequence[str], *, hops: int, max_nodes: int, max_degree: int
    ) -> Subgraph:
        """See ``GraphStorage.subgraph``."""
        given: list[Node] = [(CHUNK, chunk_id) for chunk_id in dict.fromkeys(chunk_ids)]
        given += [(ENTITY, key) for key in await self.visible(entity_keys)]
        kept = dict.fromkeys(given[: max(max_nodes, 0)])
        frontier = list(kept)
        for hop in range(hops):
            if not frontier or len(kept) >= max_nodes:
                break
            around = await self._around(frontier, max_degree if hop else None)
            found = dict.fromkeys(other for node in frontier for other in around.get(node, ()) if other not in kept)
            frontier = list(found)[: max_nodes - len(kept)]
            kept.update(dict.fromkeys(frontier))
        chunks, entities = ([key for kind, key in kept if kind == wanted] for wanted in (CHUNK, ENTITY))
        return await self._induced(chunks, entities)

    async def _around(self, nodes: Sequence[Node], max_degree: int | None) -> dict[Node, list[Node]]:
        """The nodes one visible edge away from some: by mentions, then by relations, heaviest first. Hubs are left out."""
        entities = [key for kind, key in nodes if kind == ENTITY]
        if max_degree is not None and self.filter is None:  # what is everywhere is not even read
            ids = [entity_id(self.space, key) for key in entities]
            degrees = {key: degree for key, degree in await ask(self.transaction, _EDGES, ids=ids)}
            entities = [key for key in entities if degrees.get(key, 0) <= max_degree]
        found: defaultdict[Node, list[Node]] = defaultdict(list)
        mentioned = await self.mentions_in(key for kind, key in nodes if kind == CHUNK)
        for chunk_id, mentions in mentioned.items():
            heaviest = sorted(mentions, key=lambda mention: (-mention.weight, mention.entity))
            found[CHUNK, chunk_id] += [(ENTITY, mention.entity) for mention in heaviest]
        for key, mentions in (await self.mentions_at(entities)).items():
            found[ENTITY, key] += [(CHUNK, mention.chunk_id) for mention in mentions]
        for key, rows in (await self.relations_at(entities)).items():
            ends = [(-row.weight, row.key.second if row.key.first == key else row.key.first) for row in rows]
            found[ENTITY, key] += [(ENTITY, end) for _, end in sorted(ends)]
            # A relation of an entity with itself is an edge at both of its ends.
            found[ENTITY, key] += [(ENTITY, key) for _, end in ends if end == key]
        return {node: others for node, others in found.items() if max_degree is None or len(others) <= max_degree}

    async def _induced(self, chunks: Sequence[str], entities: Sequence[str]) -> Subgraph:
        """The kept nodes and every visible edge between them."""
        place = {key: number for number, key in enumerate(entities, len(chunks))}
        mentioned = await self.mentions_in(chunks)
        edges = [
            (number, place[mention.entity], mention.weight)
            for number, chunk_id in enumerate(chunks)
            for mention in mentioned.get(chunk_id, ())
            if mention.entity in place
        ]
        edges += [(place[row.key.first], place[row.key.second], row.weight) for row in await self.relations_among(entities)]
        edges.sort()
        return Subgraph(
            chunk_ids=tuple(chunks),
            entity_keys=tuple(entities),
            first=np.array([first for first, _, _ in edges], np.int32),
            second=np.array([second for _, second, _ in edges], np.int32),
            weight=np.array([weight for _, _, weight in edges], np.float32),
        )

    async def reached(self, key: str, max_depth: int, max_nodes: int) -> list[str]:
        """Entities around one along relations, breadth first; more than ``max_nodes`` only so far that one can tell."""
        found = dict.fromkeys(await self.visible([key]))
        frontier = list(found)
        for _ in range(max_depth):
            if not frontier or len(found) > max_nodes:
                break
            at = await self.relations_at(frontier)
            ends = dict.fromkeys(end for node in frontier for row in at.get(node, ()) for end in row.key)
            frontier = [end for end in ends if end not in found]
            found.update(dict.fromkeys(frontier))
        return list(found)

    async def by_degree(self) -> list[str]:
        """All entities, those with most relations first, then by key."""
        degrees = Counter(dict(await ask(self.transaction, BY_DEGREE, space=self.space)))
        return sorted(degrees, key=lambda key: (-degrees[key], key))

    async def _seen(self, relations: Sequence[RelationRow]) -> set[RelationKey]:
        """Those of some relations that can be seen: said in a visible chunk, between visible ends."""
        keys = {row.key for row in relations}
        if self.filter is None:
            return keys
        ends = set(await self.visible(sorted({end for key in keys for end in key})))
        chunk_ids = sorted({chunk_id for row in relations for chunk_id in row.chunk_ids})
        statement = (
            "UNWIND $ids AS id MATCH (c:EkrChunk {id: id})"
            f" WHERE EXISTS {{ (c)<-[m:MENTIONED_IN]-() WHERE {self._admitted} }} RETURN c.key"
        )
        ids = [chunk_id_of(self.space, chunk_id) for chunk_id in chunk_ids]
        chunks = {key for (key,) in await ask(self.transaction, statement, ids=ids, **self._parameters)}
        return {row.key for row in relations if ends.issuperset(row.key) and not chunks.isdisjoint(row.chunk_ids)}

    async def _at_entities(self, match: str, where: str, returned: str, keys: Iterable[str]) -> list[Row]:
        ids = [entity_id(self.space, key) for key in dict.fromkeys(keys)]
        statement = f"UNWIND $ids AS id {match} WHERE {where} RETURN {returned}"
        return await ask(self.transaction, statement, ids=ids, **self._parameters)

    @property
    def _relation(self) -> str:
        return _ENDS_OF if self.filter is None else f"{_ENDS_OF}, r.chunks"

    @property
    def _admitted(self) -> str:
        """The condition of the filter on a mention ``m``."""
        conditions = [f"m.{name} IN ${name}s" for name in ("document", "collection") if f"{name}s" in self._parameters]
        return " AND ".join(conditions) or "true"

    @property
    def _parameters(self) -> dict[str, list[str]]:
        if self.filter is None:
            return {}
        given = {"documents": self.filter.document_ids, "collections": self.filter.collections}
        return {name: sorted(texts) for name, texts in given.items() if texts is not None}


def _grouped(rows: Iterable[Row], column: int) -> dict[str, list[MentionEdge]]:
    found: defaultdict[str, list[MentionEdge]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(_mention(*row))
    return found


def _mention(
    entity: str, chunk_id: str, weight: float, document_id: str = "", collection: str = "", source: ExtractionSource = "local"
) -> MentionEdge:
    return MentionEdge(entity, chunk_id, document_id, collection, weight, source)
