"""In-memory reference storages for tests: brute force, with real snapshots and transactions."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar, cast

import numpy as np

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.base import JsonObject, Session, Storage, Store
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import FIELD_WEIGHTS, LexicalStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.settings import check_slug
from easy_knowledge_retriever.types import (
    DocRecord,
    DocStatus,
    Entity,
    FloatVector,
    Hit,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    SearchFilter,
    Subgraph,
    VectorRecord,
)

__all__ = [
    "MemoryDocStatusStorage",
    "MemoryGraphStorage",
    "MemoryKVStorage",
    "MemoryLexicalStorage",
    "MemorySession",
    "MemoryStore",
    "MemoryVectorStorage",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Tables = dict[tuple[str, ...], dict[Hashable, object]]
"""(role, workspace, namespace, part) → rows. Tables that were committed are never changed, only replaced."""


@dataclass(frozen=True, slots=True)
class MemorySession:
    """Tables to read from; a transaction's are a copy of its own."""

    tables: Tables
    writable: bool


class MemoryStore(Store):
    """Tables in memory. Storages that are given the same store commit together."""

    def __init__(self) -> None:
        self.tables: Tables = {}
        self._turn = asyncio.Lock()

    @property
    def key(self) -> Hashable:
        return self

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Keeps the rows, so that it can be opened again."""

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[MemorySession]:
        yield MemorySession(self.tables, writable=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemorySession]:
        async with self._turn:
            session = MemorySession({place: dict(rows) for place, rows in self.tables.items()}, writable=True)
            yield session
            self.tables = session.tables


class _MemoryStorage(Storage):
    """What the five roles share.

    Args:
        store: Where the rows are; a store of its own if not given.
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self._store = store or MemoryStore()
        self._workspace = ""
        self._namespace = ""
        self._session: MemorySession | None = None
        self._open = False

    @property
    def store(self) -> MemoryStore:
        return self._store

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = copy.copy(self)
        bound._namespace, bound._workspace, bound._open = namespace, check_slug(workspace), False
        return bound

    def sharing(self, store: Store) -> Self:
        if not isinstance(store, MemoryStore):
            raise ConfigError(f"{store!r} is not a MemoryStore")
        shared = copy.copy(self)
        shared._store = store
        return shared

    def within(self, session: Session) -> Self:
        if not isinstance(session, MemorySession):
            raise ConfigError(f"{session!r} is not a session of a MemoryStore")
        inside = copy.copy(self)
        inside._session = session
        return inside

    async def open(self) -> None:
        self._open = True

    async def flush(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._open = False

    async def drop(self) -> None:
        self._check_open()
        async with self._writing() as tables:
            for place in [place for place in tables if place[:3] == self._place("")[:3]]:
                del tables[place]

    def _place(self, part: str) -> tuple[str, ...]:
        return (type(self).__name__, self._workspace, self._namespace, part)

    def _check_open(self) -> None:
        if not self._open:
            raise StorageNotOpenError(f"{type(self).__name__} {self._namespace!r} is not open", hint="await storage.open()")

    def _rows(self, part: str = "") -> Mapping[Hashable, object]:
        self._check_open()
        tables = self._session.tables if self._session else self._store.tables
        return tables.get(self._place(part), {})

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Tables]:
        if self._session is None:
            async with self._store.transaction() as session:
                yield session.tables
        elif self._session.writable:
            yield self._session.tables
        else:
            raise StorageError("a snapshot cannot be written to", hint="write inside a transaction")

    async def _put(self, rows: Mapping[K, V], part: str = "") -> None:
        self._check_open()
        async with self._writing() as tables:
            tables.setdefault(self._place(part), {}).update(cast("Mapping[Hashable, object]", rows))

    async def _delete(self, gone: Callable[[object], bool], part: str = "") -> None:
        self._check_open()
        async with self._writing() as tables:
            rows = tables.get(self._place(part), {})
            tables[self._place(part)] = {key: row for key, row in rows.items() if not gone(key)}


class MemoryKVStorage(_MemoryStorage, KVStorage):
    """Values kept as JSON text, so that nothing is shared."""

    @property
    def _values(self) -> Mapping[str, str]:
        return cast("Mapping[str, str]", self._rows())

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        rows = self._values
        return {key: json.loads(rows[key]) for key in keys if key in rows}

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        await self._put({key: json.dumps(value, default=dict) for key, value in values.items()})

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._delete(set(keys).__contains__)

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        rows = self._values
        for key in sorted(key for key in rows if key.startswith(prefix)):
            yield key, json.loads(rows[key])


class MemoryDocStatusStorage(_MemoryStorage, DocStatusStorage):
    """Records by id."""

    @property
    def _records(self) -> Mapping[str, DocRecord]:
        return cast("Mapping[str, DocRecord]", self._rows())

    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        rows = self._records
        return {key: _own(rows[key]) for key in ids if key in rows}

    async def put(self, records: Iterable[DocRecord]) -> None:
        await self._put({record.id: _own(record) for record in records})

    async def delete(self, ids: Sequence[str]) -> None:
        await self._delete(set(ids).__contains__)

    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        return [record for record in await self.page() if record.status == status]

    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        ordered = sorted(self._records.values(), key=lambda record: (record.name, record.id))
        return [_own(record) for record in ordered[offset : None if limit is None else offset + limit]]


def _own(record: DocRecord) -> DocRecord:
    return replace(record, metadata=dict(record.metadata))


class MemoryVectorStorage(_MemoryStorage, VectorStorage):
    """Exact search, a row at a time in double precision."""

    @property
    def _records(self) -> Mapping[str, VectorRecord]:
        return cast("Mapping[str, VectorRecord]", self._rows())

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        known = next(iter(self._records.values()), None)
        dim = known.vector.size if known else None
        fresh: dict[str, VectorRecord] = {}
        for record in records:
            dim = dim or record.vector.size
            fresh[record.id] = replace(record, vector=_unit(record.vector, dim).astype(np.float32))
        await self._put(fresh)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        wanted = None if ids is None else set(ids)
        rows = [
            row
            for row in self._records.values()
            if _admits(filter, row.document_id, row.collection) and (wanted is None or row.id in wanted)
        ]
        if not rows or top_k <= 0:
            return []
        query = _unit(vector, rows[0].vector.size)
        scores = {row.id: float(np.clip(row.vector.astype(np.float64) @ query, -1, 1)) for row in rows}
        return _best(scores, top_k)

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        rows = self._records
        return {key: rows[key].vector.copy() for key in ids if key in rows}

    async def delete_many(self, ids: Sequence[str]) -> None:
        await self._delete(set(ids).__contains__)

    async def ids(self) -> list[str]:
        return sorted(self._records)

    async def count(self) -> int:
        return len(self._records)


def _unit(vector: FloatVector, dim: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(values))
    if values.shape != (dim,) or not math.isfinite(length) or length == 0:
        raise StorageError(f"a vector of shape {values.shape} and length {length} in an index of dimension {dim}")
    return values / length


class MemoryLexicalStorage(_MemoryStorage, LexicalStorage):
    """BM25 as the port writes it, counted anew at every search."""

    @property
    def _records(self) -> Mapping[str, LexicalRecord]:
        return cast("Mapping[str, LexicalRecord]", self._rows())

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        await self._put({r.id: replace(r, fields={name: tuple(terms) for name, terms in r.fields.items()}) for r in records})

    async def search(
        self,
        terms: Sequence[str],
        top_k: int,
        filter: SearchFilter | None = None,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        field_weights: Mapping[str, float] | None = None,
    ) -> list[Hit]:
        rows = self._records
        weights = FIELD_WEIGHTS if field_weights is None else field_weights
        holders = await self.document_frequencies(terms)
        counts = {key: _weighted_counts(row, weights) for key, row in rows.items()}
        average = sum(sum(count.values()) for count in counts.values()) / max(len(rows), 1)
        scores: dict[str, float] = {}
        for key, count in counts.items():
            length = sum(count.values())
            if not length or not _admits(filter, rows[key].document_id, rows[key].collection):
                continue
            norm = k1 * (1 - b + b * length / average)
            scores[key] = sum(
                math.log(1 + (len(rows) - n + 0.5) / (n + 0.5)) * count[term] * (k1 + 1) / (count[term] + norm)
                for term, n in holders.items()
                if count[term] > 0
            )
        return _best({key: score for key, score in scores.items() if score > 0}, top_k)

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        held = [{term for field in row.fields.values() for term in field} for row in self._records.values()]
        found = {term: sum(term in row for row in held) for term in dict.fromkeys(terms)}
        return {term: n for term, n in found.items() if n}

    async def delete_many(self, ids: Sequence[str]) -> None:
        await self._delete(set(ids).__contains__)

    async def ids(self) -> list[str]:
        return sorted(self._records)

    async def count(self) -> int:
        return len(self._records)


def _weighted_counts(row: LexicalRecord, weights: Mapping[str, float]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, terms in row.fields.items():
        for term in terms:
            counts[term] += weights.get(name, 1.0)  # type: ignore[assignment]  # a Counter sums floats as well
    return counts


def _best(scores: Mapping[str, float], top_k: int) -> list[Hit]:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Hit(key, score) for key, score in ordered[: max(top_k, 0)]]


def _admits(filter: SearchFilter | None, document_id: str, collection: str) -> bool:
    return filter is None or filter.admits(document_id, collection)


@dataclass(frozen=True, slots=True)
class _View:
    """The part of the graph a filter lets see."""

    entities: Mapping[str, Entity]
    relations: Sequence[Relation]
    mentions: Sequence[MentionEdge]


Node = tuple[str, str]
"""``("chunk", id)`` or ``("entity", key)``."""


@dataclass(slots=True)
class _Walk:
    """A breadth-first walk that keeps at most ``max_nodes``, in order of discovery."""

    max_nodes: int
    kept: dict[Node, None] = field(default_factory=dict)

    def keep(self, nodes: Iterable[Node]) -> list[Node]:
        """Takes the new ones among ``nodes`` as far as there is room."""
        fresh = [node for node in dict.fromkeys(nodes) if node not in self.kept][: max(self.max_nodes - len(self.kept), 0)]
        self.kept.update(dict.fromkeys(fresh))
        return fresh


class MemoryGraphStorage(_MemoryStorage, GraphStorage):
    """Three tables that are read whole for every question."""

    @property
    def _entities(self) -> Mapping[str, Entity]:
        return cast("Mapping[str, Entity]", self._rows("entities"))

    @property
    def _relations(self) -> Mapping[RelationKey, Relation]:
        return cast("Mapping[RelationKey, Relation]", self._rows("relations"))

    @property
    def _mentions(self) -> Mapping[tuple[str, str], MentionEdge]:
        return cast("Mapping[tuple[str, str], MentionEdge]", self._rows("mentions"))

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        await self._put({entity.key: entity for entity in entities}, "entities")

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        await self._put({relation.key: relation for relation in relations}, "relations")

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        await self._put({(mention.entity, mention.chunk_id): mention for mention in mentions}, "mentions")

    async def delete_entities(self, keys: Sequence[str]) -> None:
        gone = set(keys)
        await self._delete(gone.__contains__, "entities")
        await self._delete(lambda key: not gone.isdisjoint(cast("RelationKey", key)), "relations")
        await self._delete(lambda key: cast("tuple[str, str]", key)[0] in gone, "mentions")

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        await self._delete(set(keys).__contains__, "relations")

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        gone = set(chunk_ids)
        await self._delete(lambda key: cast("tuple[str, str]", key)[1] in gone, "mentions")

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        seen = self._view(filter).entities
        return {key: seen[key] for key in keys if key in seen}

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        rows = self._relations
        return {key: rows[key] for key in keys if key in rows}

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        found: dict[str, list[Relation]] = {key: [] for key in keys}
        for relation in self._view(filter).relations:
            for end in set(relation.key) & found.keys():
                found[end].append(relation)
        return {key: relations for key, relations in found.items() if relations}

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        found = await self.relations_of(keys, filter)
        return {key: [relation.key for relation in relations[:limit]] for key, relations in found.items()}

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        found: dict[str, list[MentionEdge]] = {key: [] for key in keys}
        for mention in self._view(filter).mentions:
            if mention.entity in found:
                found[mention.entity].append(mention)
        return {key: mentions[:limit] for key, mentions in found.items() if mentions}

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        found: dict[str, list[MentionEdge]] = {chunk_id: [] for chunk_id in chunk_ids}
        for _, mention in sorted(self._mentions.items()):
            if mention.chunk_id in found:
                found[mention.chunk_id].append(mention)
        return {chunk_id: mentions for chunk_id, mentions in found.items() if mentions}

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        known, relations = self._entities, self._relations
        return {key: sum(key in pair for pair in relations) for key in keys if key in known}

    async def visible(self, filter: SearchFilter) -> set[str]:
        return set(self._view(filter).entities)

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
        view = self._view(filter)
        edges: dict[tuple[Node, Node], float] = {}
        for mention in view.mentions:
            edges[("chunk", mention.chunk_id), ("entity", mention.entity)] = mention.weight
        for relation in view.relations:
            edges[("entity", relation.key.first), ("entity", relation.key.second)] = relation.weight
        neighbours: defaultdict[Node, list[Node]] = defaultdict(list)
        for one, other in edges:
            neighbours[one].append(other)
            neighbours[other].append(one)

        walk = _Walk(max_nodes)
        given: list[Node] = [("chunk", chunk_id) for chunk_id in chunk_ids]
        given += [("entity", key) for key in entity_keys if key in view.entities]
        frontier = walk.keep(given)
        for hop in range(hops):
            grown = [node for node in frontier if hop == 0 or len(neighbours[node]) <= max_degree]
            frontier = walk.keep(other for node in grown for other in neighbours[node])
        return _subgraph(list(walk.kept), edges)

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        view = self._view(None)
        degrees = Counter(end for relation in view.relations for end in relation.key)
        walk = _Walk(max_nodes)
        if key == "*":
            reached = sorted(view.entities, key=lambda key: (-degrees[key], key))
            walk.keep(("entity", key) for key in reached)
        else:
            reached = [key] if key in view.entities else []
            frontier = reached
            for _ in range(max_depth):
                around = (end for near in frontier for r in view.relations if near in r.key for end in r.key)
                frontier = [end for end in dict.fromkeys(around) if end not in reached]
                reached = [*reached, *frontier]
            walk.keep(("entity", key) for key in reached)
        kept = {key for _, key in walk.kept}
        return Neighbourhood(
            entities=tuple(view.entities[key] for _, key in walk.kept),
            relations=tuple(r for r in view.relations if kept.issuperset(r.key)),
            truncated=len(kept) < len(reached),
        )

    async def labels(self) -> list[str]:
        return sorted(entity.name for entity in self._entities.values())

    async def keys(self) -> list[str]:
        return sorted(self._entities)

    async def relation_keys(self) -> list[RelationKey]:
        return sorted(self._relations)

    async def counts(self) -> GraphCounts:
        return GraphCounts(len(self._entities), len(self._relations), len(self._mentions))

    def _view(self, filter: SearchFilter | None) -> _View:
        """What the filter lets see: relations and mentions heaviest first, then in order."""
        entities, relations, mentions = self._entities, list(self._relations.values()), list(self._mentions.values())
        if filter is not None:
            mentions = [m for m in mentions if filter.admits(m.document_id, m.collection)]
            seen, chunks = {m.entity for m in mentions}, {m.chunk_id for m in mentions}
            entities = {key: entity for key, entity in entities.items() if key in seen}
            relations = [r for r in relations if not chunks.isdisjoint(r.chunk_ids)]
        return _View(
            entities=entities,
            relations=sorted((r for r in relations if entities.keys() >= set(r.key)), key=lambda r: (-r.weight, r.key)),
            mentions=sorted((m for m in mentions if m.entity in entities), key=lambda m: (-m.weight, m.chunk_id, m.entity)),
        )


def _subgraph(kept: Sequence[Node], edges: Mapping[tuple[Node, Node], float]) -> Subgraph:
    nodes = [node for node in kept if node[0] == "chunk"] + [node for node in kept if node[0] == "entity"]
    number = {node: i for i, node in enumerate(nodes)}
    inside = [(number[a], number[b], weight) for (a, b), weight in edges.items() if a in number and b in number]
    return Subgraph(
        chunk_ids=tuple(key for kind, key in nodes if kind == "chunk"),
        entity_keys=tuple(key for kind, key in nodes if kind == "entity"),
        first=np.array([a for a, _, _ in inside], dtype=np.int32),
        second=np.array([b for _, b, _ in inside], dtype=np.int32),
        weight=np.array([weight for _, _, weight in inside], dtype=np.float32),
    )
