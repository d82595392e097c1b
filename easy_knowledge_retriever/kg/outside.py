"""Storages that cannot commit together with the document status: their writes are noted, and done after the commit.

What a transaction writes to them is a row of the *home* store, written in its one commit. Then it is done, in order, made
durable, and the row is deleted. Writes are idempotent, so after a crash they are all done once more. See
``docs/decisions/0018-mixed-storages.md``.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

import numpy as np

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.types import (
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

__all__ = ["NotedGraph", "NotedLexical", "NotedVectors", "Step", "Steps", "redo"]

Step = tuple[str, str, Sequence[Any]]
"""Place, action and rows, all of it JSON."""


class Steps:
    """The writes of one transaction, in order."""

    def __init__(self) -> None:
        self.taken: list[Step] = []

    def add(self, place: str, action: str, rows: Sequence[Any] = ()) -> None:
        """Notes one.

        Args:
            place: Which storage of the base.
            action: What is done there.
            rows: With what.
        """
        if rows or action == "drop":
            self.taken.append((place, action, rows))


class _Noted(Storage):
    """A storage whose writes are noted. Reading shows it as it was before them."""

    def __init__(self, place: str, steps: Steps) -> None:
        self._place = place
        self._steps = steps

    def bind(self, namespace: str, workspace: str = "") -> Self:
        raise StorageError(f"{self._place!r} belongs to a transaction", hint="bind the storages of the base")

    async def open(self) -> None:
        """Open already."""

    async def flush(self) -> None:
        """Done after the commit."""

    async def close(self) -> None:
        """Closed by the base."""

    async def drop(self) -> None:
        self._steps.add(self._place, "drop")


class NotedVectors(_Noted, VectorStorage):
    """Vectors inside a transaction of another store.

    Args:
        storage: Reads.
        place: Its name in the steps.
        steps: Takes the writes.
    """

    def __init__(self, storage: VectorStorage, place: str, steps: Steps) -> None:
        super().__init__(place, steps)
        self._storage = storage

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        shapes = {record.vector.shape for record in records}
        if len(shapes) > 1:
            raise StorageError(f"vectors of several shapes: {sorted(shapes)}", hint="one embedding model makes one dimension")
        for record in records:
            length = float(np.linalg.norm(record.vector))
            if not (np.isfinite(length) and length > 0):
                raise StorageError(f"the vector of {record.id!r} is zero or not finite", hint="check the embedding model")
        rows = [[r.id, _packed(r.vector), r.document_id, r.collection] for r in records]
        self._steps.add(self._place, "put", rows)

    async def delete_many(self, ids: Sequence[str]) -> None:
        self._steps.add(self._place, "delete", list(ids))

    async def search(
        self, vector: FloatVector, top_k: int, filter: SearchFilter | None = None, ids: Collection[str] | None = None
    ) -> list[Hit]:
        return await self._storage.search(vector, top_k, filter, ids)

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        return await self._storage.vectors(ids)

    async def ids(self) -> list[str]:
        return await self._storage.ids()

    async def count(self) -> int:
        return await self._storage.count()


class NotedLexical(_Noted, LexicalStorage):
    """A BM25 index inside a transaction of another store; arguments as :class:`NotedVectors`."""

    def __init__(self, storage: LexicalStorage, place: str, steps: Steps) -> None:
        super().__init__(place, steps)
        self._storage = storage

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        rows = [[r.id, {name: list(terms) for name, terms in r.fields.items()}, r.document_id, r.collection] for r in records]
        self._steps.add(self._place, "put", rows)

    async def delete_many(self, ids: Sequence[str]) -> None:
        self._steps.add(self._place, "delete", list(ids))

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
        return await self._storage.search(terms, top_k, filter, k1=k1, b=b, field_weights=field_weights)

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        return await self._storage.document_frequencies(terms)

    async def ids(self) -> list[str]:
        return await self._storage.ids()

    async def count(self) -> int:
        return await self._storage.count()


class NotedGraph(_Noted, GraphStorage):
    """A graph inside a transaction of another store; arguments as :class:`NotedVectors`."""

    def __init__(self, storage: GraphStorage, place: str, steps: Steps) -> None:
        super().__init__(place, steps)
        self._storage = storage

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        self._steps.add(self._place, "put entities", [codecs.encode_entity(entity) for entity in entities])

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        self._steps.add(self._place, "put relations", [codecs.encode_relation(relation) for relation in relations])

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        self._steps.add(self._place, "put mentions", [asdict(mention) for mention in mentions])

    async def delete_entities(self, keys: Sequence[str]) -> None:
        self._steps.add(self._place, "delete entities", list(keys))

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        self._steps.add(self._place, "delete relations", [list(key) for key in keys])

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        self._steps.add(self._place, "delete mentions", list(chunk_ids))

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        return await self._storage.entities(keys, filter)

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        return await self._storage.relations(keys)

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        return await self._storage.relations_of(keys, filter)

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        return await self._storage.relation_keys_of(keys, filter, limit)

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        return await self._storage.mentions_of(keys, filter, limit)

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        return await self._storage.mentions_in(chunk_ids)

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        return await self._storage.degrees(keys)

    async def visible(self, filter: SearchFilter) -> set[str]:
        return await self._storage.visible(filter)

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
        return await self._storage.subgraph(
            chunk_ids, entity_keys, hops=hops, max_nodes=max_nodes, max_degree=max_degree, filter=filter
        )

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        return await self._storage.neighbourhood(key, max_depth, max_nodes)

    async def labels(self) -> list[str]:
        return await self._storage.labels()

    async def keys(self) -> list[str]:
        return await self._storage.keys()

    async def relation_keys(self) -> list[RelationKey]:
        return await self._storage.relation_keys()

    async def counts(self) -> GraphCounts:
        return await self._storage.counts()


async def redo(storage: Storage, action: str, rows: Sequence[Any]) -> None:
    """Does what was noted.

    Args:
        storage: That of the place, itself.
        action: As it was noted.
        rows: As they were noted.

    Raises:
        StorageError: It could not be done, or is not known.
    """
    if action == "drop":
        await storage.drop()
    elif isinstance(storage, VectorStorage) and action in _VECTORS:
        await _VECTORS[action](storage, rows)
    elif isinstance(storage, LexicalStorage) and action in _LEXICAL:
        await _LEXICAL[action](storage, rows)
    elif isinstance(storage, GraphStorage) and action in _GRAPH:
        await _GRAPH[action](storage, rows)
    else:
        raise StorageError(f"cannot do {action!r} in {type(storage).__name__}", hint="a newer version wrote this base")


def _packed(vector: FloatVector) -> str:
    return base64.b64encode(np.asarray(vector, np.dtype("<f4")).tobytes()).decode()


def _unpacked(text: str) -> FloatVector:
    return np.frombuffer(base64.b64decode(text), np.dtype("<f4")).astype(np.float32)


Doing = Callable[[Any, Sequence[Any]], Awaitable[None]]
_VECTORS: Final[Mapping[str, Doing]] = {
    "put": lambda to, rows: to.put_many([VectorRecord(key, _unpacked(text), *rest) for key, text, *rest in rows]),
    "delete": lambda to, rows: to.delete_many(rows),
}
_LEXICAL: Final[Mapping[str, Doing]] = {
    "put": lambda to, rows: to.put_many(
        [LexicalRecord(key, {name: tuple(terms) for name, terms in parts.items()}, *rest) for key, parts, *rest in rows]
    ),
    "delete": lambda to, rows: to.delete_many(rows),
}
_GRAPH: Final[Mapping[str, Doing]] = {
    "put entities": lambda to, rows: to.put_entities([codecs.decode_entity(row) for row in rows]),
    "put relations": lambda to, rows: to.put_relations([codecs.decode_relation(row) for row in rows]),
    "put mentions": lambda to, rows: to.put_mentions([MentionEdge(**row) for row in rows]),
    "delete entities": lambda to, rows: to.delete_entities(rows),
    "delete relations": lambda to, rows: to.delete_relations([RelationKey(*row) for row in rows]),
    "delete mentions": lambda to, rows: to.delete_mentions(rows),
}
