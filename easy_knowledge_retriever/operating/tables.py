"""What a base says, for people and for other programs: entities, relations and chunks as rows of a table, each looked at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.types import Chunk, Entity, FloatVector, Relation

__all__ = ["COLUMNS", "KINDS", "Cell", "Record", "records_of"]

T = TypeVar("T")
Cell = str | int | float | None
Record = Mapping[str, Cell]

KINDS: Final = ("entity", "relation", "chunk")
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "entity": ("id", "name", "type", "description", "mentions", "documents", "chunk_ids"),
    "relation": ("id", "source", "target", "keywords", "description", "weight", "mentions", "documents", "chunk_ids"),
    "chunk": ("id", "documents", "document_id", "collection", "page_start", "page_end", "heading", "text"),
}
"""Kind → the columns it has, besides ``kind`` and ``vector``."""
_AT_ONCE: Final = 500
_BETWEEN: Final = "; "


async def records_of(view: KnowledgeBase, *, vectors: bool) -> AsyncGenerator[Record]:
    """Entities, relations and chunks, in this order, each kind in the order of its ids.

    Args:
        view: A snapshot.
        vectors: Whether each has its vector, as text; an entity or relation may have none.
    """
    for keys in _parts(await view.graph.keys()):
        entities = await view.graph.entities(keys)
        known = await _vectors(view.entity_vectors, keys, wanted=vectors)
        for key in keys:
            yield _entity(entities[key]) | _vector(known.get(key), wanted=vectors)
    for pairs in _parts(await view.graph.relation_keys()):
        relations = await view.graph.relations(pairs)
        known = await _vectors(view.relation_vectors, [pair.id for pair in pairs], wanted=vectors)
        names = await view.graph.entities(sorted({key for pair in pairs for key in pair}))
        for pair in pairs:
            yield _relation(relations[pair], names) | _vector(known.get(pair.id), wanted=vectors)
    async for record in _chunks(view, vectors=vectors):
        yield record


async def _chunks(view: KnowledgeBase, *, vectors: bool) -> AsyncGenerator[Record]:
    part: list[Chunk] = []
    async for _, chunk in view.chunks.scan():
        part.append(chunk)
        if len(part) == _AT_ONCE:
            for record in await _with_vectors(view, part, vectors=vectors):
                yield record
            part = []
    for record in await _with_vectors(view, part, vectors=vectors):
        yield record


async def _with_vectors(view: KnowledgeBase, chunks: Sequence[Chunk], *, vectors: bool) -> list[Record]:
    known = await _vectors(view.chunk_vectors, [chunk.id for chunk in chunks], wanted=vectors)
    return [_chunk(chunk) | _vector(known.get(chunk.id), wanted=vectors) for chunk in chunks]


async def _vectors(index: VectorStorage, ids: Sequence[str], *, wanted: bool) -> dict[str, FloatVector]:
    return await index.vectors(ids) if wanted and ids else {}


def _entity(entity: Entity) -> dict[str, Cell]:
    return {
        "kind": "entity",
        "id": entity.key,
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "mentions": entity.mention_count,
        "documents": _BETWEEN.join(entity.file_paths),
        "chunk_ids": _BETWEEN.join(entity.chunk_ids),
    }


def _relation(relation: Relation, names: Mapping[str, Entity]) -> dict[str, Cell]:
    first, second = relation.key
    return {
        "kind": "relation",
        "id": relation.key.id,
        "source": names[first].name if first in names else relation.first_name,
        "target": names[second].name if second in names else relation.second_name,
        "keywords": ", ".join(word for word, _ in relation.keywords),
        "description": relation.description,
        "weight": relation.weight,
        "mentions": relation.mention_count,
        "documents": _BETWEEN.join(relation.file_paths),
        "chunk_ids": _BETWEEN.join(relation.chunk_ids),
    }


def _chunk(chunk: Chunk) -> dict[str, Cell]:
    return {
        "kind": "chunk",
        "id": chunk.id,
        "documents": chunk.document_name,
        "document_id": chunk.document_id,
        "collection": chunk.collection,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
        "text": chunk.text,
    }


def _vector(vector: FloatVector | None, *, wanted: bool) -> dict[str, Cell]:
    if not wanted:
        return {}
    return {"vector": " ".join(f"{value:.7g}" for value in vector.tolist()) if vector is not None else ""}


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), _AT_ONCE):
        yield items[at : at + _AT_ONCE]
