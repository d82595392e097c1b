"""Vectors and postings against their rows: I2, I3, I4, I7, I15, I16, I17."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import groupby

import numpy as np

from easy_knowledge_retriever.ingestion.model_guard import model_of
from easy_knowledge_retriever.ingestion.verification.findings import Finding, differing
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.indexing import has_vector, lexical_records
from easy_knowledge_retriever.types import Chunk, FloatVector, LexicalRecord

__all__ = ["check_indexes", "check_model", "check_postings", "check_vectors", "is_sound", "records_by_document"]


def check_model(state: State, embedding: EmbeddingService | None) -> Iterator[Finding]:
    """I16."""
    made = state.stamps.embedding
    if made is None:
        if state.chunks:
            yield Finding("I16", "embedding", "no model is noted for the vectors")
    elif embedding is not None and made != model_of(embedding):
        configured = f"configured is {embedding.fingerprint!r} of dimension {embedding.embedding_dim}"
        yield Finding(
            "I16",
            "embedding",
            f"the vectors are of {made.fingerprint!r} of dimension {made.dimension}, {configured}: run 'ekr reindex'",
        )


async def check_indexes(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """The ids: I2, I3, I4, I7 and I15."""
    waiting = state.stamps.unembedded
    entities = {key for key, entity in state.entities.items() if has_vector(entity) and key not in waiting.entities}
    relations = {key.id for key, relation in state.relations.items() if has_vector(relation) and key not in waiting.relations}
    vectors, entity_vectors = await kb.chunk_vectors.ids(), await kb.entity_vectors.ids()
    relation_vectors, postings = await kb.relation_vectors.ids(), await kb.lexical.ids()
    for name, ids in (("chunk", vectors), ("entity", entity_vectors), ("relation", relation_vectors), ("posting", postings)):
        for key, count in Counter(ids).items():
            if count > 1:
                yield Finding("I15", key, f"there are {count} {name} rows of it")
    for key in sorted(state.chunks.keys() - set(vectors)):
        yield Finding("I2", key, "it has no vector")
    for key in sorted(set(vectors) - state.chunks.keys()):
        yield Finding("I3", key, "its vector has no chunk")
    for finding in (
        *differing("I4", "posting", postings, state.chunks),
        *differing("I7", "entity vector", entity_vectors, entities),
        *differing("I7", "relation vector", relation_vectors, relations),
    ):
        yield finding


def records_by_document(chunks: dict[str, Chunk]) -> Iterator[list[LexicalRecord]]:
    """The postings of all chunks, a document at a time."""
    by_document = sorted(chunks.values(), key=lambda chunk: (chunk.document_id, chunk.order))
    for _, own in groupby(by_document, key=lambda chunk: chunk.document_id):
        yield lexical_records(tuple(own))


async def check_postings(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I4 of document frequencies."""
    counted: Counter[str] = Counter()
    for records in records_by_document(state.chunks):
        for record in records:
            counted.update({term for terms in record.fields.values() for term in terms})
    stored = await kb.lexical.document_frequencies(sorted(counted))
    for term, count in sorted(counted.items()):
        if stored.get(term, 0) != count:
            yield Finding("I4", term, f"its document frequency is {stored.get(term, 0)}, counted are {count}")


async def check_vectors(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I2 of dimensions, and I17."""
    dimension = state.stamps.embedding.dimension if state.stamps.embedding else None
    for storage in (kb.chunk_vectors, kb.entity_vectors, kb.relation_vectors):
        async for finding in _sound(storage, dimension):
            yield finding


async def _sound(storage: VectorStorage, dimension: int | None) -> AsyncIterator[Finding]:
    for key, vector in (await storage.vectors(await storage.ids())).items():
        if dimension is not None and vector.size != dimension:
            yield Finding("I2", key, f"its vector has {vector.size} dimensions, not {dimension}")
        if not is_sound(vector):
            yield Finding("I17", key, f"its vector has the length {np.linalg.norm(vector)}")


def is_sound(vector: FloatVector) -> bool:
    """Whether it has a direction."""
    length = float(np.linalg.norm(vector))
    return bool(np.isfinite(length)) and length > 0
