"""Vectors that were paid for, durable until the version they belong to is committed."""

from __future__ import annotations

from typing import Final

import numpy as np

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, staged_key
from easy_knowledge_retriever.spending.kept import KeptVectors
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import StagedVectors

__all__ = ["drop_vectors", "load_vectors", "save_vectors"]

_PACKED: Final = np.dtype("<f4")


async def load_vectors(kb: KnowledgeBase, document_id: str, kept: KeptVectors) -> None:
    """Gives an ingest what earlier attempts saved."""
    async for _, row in kb.staged_vectors.scan(staged_key(document_id, "")):
        if row.document_id == document_id:
            vectors = np.frombuffer(row.packed, _PACKED).astype(np.float32).reshape(len(row.keys), -1)
            kept.load(dict(zip(row.keys, vectors, strict=True)))


async def save_vectors(kb: KnowledgeBase, document_id: str, kept: KeptVectors) -> tuple[str, ...]:
    """Saves what is not saved yet. Call it inside a transaction.

    Returns:
        The keys of what is saved when the transaction is committed.
    """
    keys = tuple(kept.unsaved)
    if keys:
        row = StagedVectors(document_id, keys, kept.all(keys).astype(_PACKED).tobytes())
        await kb.staged_vectors.put_many({staged_key(document_id, digest(" ".join(keys))): row})
    return keys


async def drop_vectors(kb: KnowledgeBase, document_id: str) -> None:
    """Forgets what was saved. Call it inside a transaction."""
    rows = kb.staged_vectors.scan(staged_key(document_id, ""))
    await kb.staged_vectors.delete_many([key async for key, row in rows if row.document_id == document_id])
