"""Mends what can be derived, in one transaction, without a model; and with one, the vectors that are missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from easy_knowledge_retriever.ingestion.model_guard import SAME_MODEL, model_of
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.stamps import EmbeddingStamp, Stamps, Unembedded, put_stamps, stamps_of
from easy_knowledge_retriever.ingestion.verification.mending import Means, mend_documents, mend_ledger, mend_names
from easy_knowledge_retriever.ingestion.verification.mending_indexes import (
    derived_graph,
    mend_graph,
    mend_kept,
    mend_lexical,
    mend_vectors,
)
from easy_knowledge_retriever.ingestion.verification.state import read_state
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.indexing import chunk_vectors
from easy_knowledge_retriever.types import Chunk, Entity, FloatVectors, Relation, VectorRecord

__all__ = ["embed_missing", "repair"]

_AT_ONCE: Final = 256
_SAMPLE: Final = 3


async def repair(kb: KnowledgeBase, means: Means) -> None:
    """Derives again what can be derived. No text of a user goes, but rows of documents that are gone do.

    Args:
        kb: The base. Nothing else may write to it meanwhile.
        means: How an ingest derives it.

    Raises:
        StorageError: It could not be written; nothing of it is.
    """
    await recover(kb)
    async with kb.transaction() as inside:
        await mend_documents(inside, await read_state(inside), means)
        await mend_ledger(inside, await read_state(inside), means)
        await mend_names(inside, await read_state(inside))
        state = await read_state(inside)
        change = await derived_graph(inside, state, means)
        await mend_graph(inside, state, change)
        await mend_lexical(inside, state)
        waiting = await mend_vectors(inside, state, change)
        await mend_kept(inside, state, change)
        stamps = state.stamps
        await put_stamps(inside, stamps, Stamps(stamps.generation + 1, stamps.embedding, waiting))


@dataclass(frozen=True, slots=True)
class _Missing:
    stamps: Stamps
    chunks: tuple[Chunk, ...]
    facts: tuple[Entity | Relation, ...]


async def embed_missing(kb: KnowledgeBase, embedding: EmbeddingService, stamp: Callable[[], Awaitable[EmbeddingStamp]]) -> None:
    """Makes the vectors that are missing, and notes the model if it is the one that made the others.

    Where a few vectors of chunks are not those that this model makes of their texts, nothing is done: that is for
    ``reindex``.

    Args:
        kb: The base.
        embedding: The model.
        stamp: Gives what is noted of it.

    Raises:
        UpstreamError: The model failed.
        StorageError: The base could not be changed.
    """
    while await _made_by(kb, embedding):
        missing = await _missing(kb)
        unnoted = missing.stamps.embedding != model_of(embedding) and await kb.chunk_vectors.count()
        if not (missing.chunks or missing.facts or unnoted):
            return
        texts = [*(chunk.indexed_text for chunk in missing.chunks), *(fact.indexed_text for fact in missing.facts)]
        vectors = await _embedded(embedding, texts)
        model = await stamp() if unnoted else missing.stamps.embedding
        async with kb.transaction() as inside:
            stamps = await stamps_of(inside)
            if stamps != missing.stamps:
                continue
            await _put(inside, missing, vectors)
            await put_stamps(inside, stamps, Stamps(stamps.generation + 1, model, Unembedded()))
        return


async def _made_by(kb: KnowledgeBase, embedding: EmbeddingService) -> bool:
    """Whether a few of the vectors that are there are what the model makes of their texts."""
    ids = (await kb.chunk_vectors.ids())[:_SAMPLE]
    chunks, stored = await kb.chunks.get_many(ids), await kb.chunk_vectors.vectors(ids)
    known = [key for key in ids if key in chunks and key in stored]
    if not known:
        return True
    if any(stored[key].size != embedding.embedding_dim for key in known):
        return False
    made = await embedding.embed([chunks[key].indexed_text for key in known], "document")
    return all(float(stored[key] @ vector) >= SAME_MODEL for key, vector in zip(known, made, strict=True))


async def _missing(kb: KnowledgeBase) -> _Missing:
    async with kb.snapshot() as seen:
        stamps = await stamps_of(seen)
        there = set(await seen.chunk_vectors.ids())
        chunks = [chunk async for key, chunk in seen.chunks.scan() if key not in there]
        waiting = stamps.unembedded
        facts: list[Entity | Relation] = [*(await seen.graph.entities(waiting.entities)).values()]
        facts += (await seen.graph.relations(waiting.relations)).values()
    return _Missing(stamps, tuple(chunks), tuple(facts))


async def _embedded(embedding: EmbeddingService, texts: Sequence[str]) -> FloatVectors:
    parts = [await embedding.embed(texts[at : at + _AT_ONCE], "document") for at in range(0, len(texts), _AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, embedding.embedding_dim), np.float32)


async def _put(kb: KnowledgeBase, missing: _Missing, vectors: FloatVectors) -> None:
    of_chunks, of_facts = vectors[: len(missing.chunks)], vectors[len(missing.chunks) :]
    await kb.chunk_vectors.put_many(chunk_vectors(missing.chunks, of_chunks))
    pairs = list(zip(missing.facts, of_facts, strict=True))
    await kb.entity_vectors.put_many([VectorRecord(fact.key, vector) for fact, vector in pairs if isinstance(fact, Entity)])
    await kb.relation_vectors.put_many([VectorRecord(f.key.id, vector) for f, vector in pairs if isinstance(f, Relation)])
