"""Rows of the indexes, made from chunks, mentions and their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from easy_knowledge_retriever.operations.merging import Identify, by_name
from easy_knowledge_retriever.operations.reading import language_of
from easy_knowledge_retriever.operations.references import own_names
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.types import (
    Chunk,
    Entity,
    Extraction,
    FloatVectors,
    LexicalRecord,
    MentionEdge,
    Relation,
    VectorRecord,
)

__all__ = ["ABOUT_HEADING", "ABOUT_TITLE", "DEFINED_HERE", "chunk_vectors", "has_vector", "lexical_records", "mention_edges"]

ABOUT_HEADING: Final = 3.0
"""Weight of a mention where the name is that of the nearest heading."""
ABOUT_TITLE: Final = 2.0
"""Where it is that of the document or of a heading further up."""
DEFINED_HERE: Final = 2.0
"""Where the chunk declares and describes it."""
_NAMED: Final = 1.0


def lexical_records(chunks: Sequence[Chunk], language: str | None = None) -> list[LexicalRecord]:
    """The analysed terms of each chunk, heading and text apart.

    Args:
        chunks: Chunks of one document.
        language: Its language; guessed from all of them if None.
    """
    if language is None:
        language = language_of("\n".join(chunk.text for chunk in chunks[:8]))
    return [
        LexicalRecord(
            id=chunk.id,
            fields={"heading": analyze(chunk.heading, language), "text": analyze(chunk.body, language)},
            document_id=chunk.document_id,
            collection=chunk.collection,
        )
        for chunk in chunks
    ]


def chunk_vectors(chunks: Sequence[Chunk], vectors: FloatVectors) -> list[VectorRecord]:
    """A vector record a chunk. ``vectors`` has shape (len(chunks), dim)."""
    return [
        VectorRecord(chunk.id, vector, chunk.document_id, chunk.collection) for chunk, vector in zip(chunks, vectors, strict=True)
    ]


def mention_edges(chunks: Sequence[Chunk], extractions: Iterable[Extraction], identify: Identify = by_name) -> list[MentionEdge]:
    """One edge an entity and chunk, however often the chunk names it: heavier where the chunk is about the entity.

    Args:
        chunks: The chunks.
        extractions: What they say, and no others.
        identify: Whom each name means.
    """
    by_id = {chunk.id: chunk for chunk in chunks}
    about = {chunk.id: _about(chunk, identify) for chunk in chunks}
    edges: dict[tuple[str, str], MentionEdge] = {}
    for extraction in extractions:
        chunk = by_id[extraction.chunk_id]
        for mention in extraction.entities:
            key = identify(chunk.document_id, mention.name).key
            defined = DEFINED_HERE if extraction.source == "declared" and mention.description else _NAMED
            weight = max(defined, about[chunk.id].get(key, _NAMED))
            edge = MentionEdge(key, chunk.id, chunk.document_id, chunk.collection, weight, extraction.source)
            old = edges.get((key, chunk.id))
            # a tie is decided by the name of the source, so that the order of the extractions is of no account
            if old is None or (-weight, edge.source) < (-old.weight, old.source):
                edges[key, chunk.id] = edge
    return list(edges.values())


def _about(chunk: Chunk, identify: Identify) -> dict[str, float]:
    """Keys of what the headings of a chunk name, with the weight of a mention there."""
    weights: dict[str, float] = {}
    for place, heading in enumerate(reversed(chunk.headings)):
        for name in own_names(heading):
            weights.setdefault(identify(chunk.document_id, name).key, ABOUT_TITLE if place else ABOUT_HEADING)
    return weights


def has_vector(fact: Entity | Relation) -> bool:
    """Whether an entity or relation is searched by meaning.

    One with a description is. A bare name that is read once, and two names that one text puts side by side, mean no more
    than the chunk they stand in, which has a vector of its own; their vectors would be most of the work of an ingest and of
    the time of a search. They are found by name.
    """
    if fact.description:
        return True
    if isinstance(fact, Relation):
        return bool(fact.keywords) and (fact.mention_count > 1 or set(fact.sources) != {"local"})
    return fact.mention_count > 1
