"""Vectors of chunks, entities and relations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import numpy as np

from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.planning import GraphChange
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.base import Progress
from easy_knowledge_retriever.types import Chunk, FloatVector, FloatVectors

__all__ = ["GraphVectors", "embed_chunks"]

_AT_ONCE: Final = 512
"""Chunks of a document that are embedded in one call; a longer one is a sequence of calls, each with a sign of life."""
_WINDOW: Final = 256
_SAVED_AT_ONCE: Final = 64
"""Chunks embedded between two savings."""
_WORTH_SAVING: Final = 16
"""Fewer vectors are made again rather than saved: they are one request."""


async def embed_chunks(
    embedding: EmbeddingService, chunks: Sequence[Chunk], progress: Progress, save: Callable[[], Awaitable[None]] | None = None
) -> FloatVectors:
    """The vector of each chunk's indexed text, shape (len(chunks), dim).

    Args:
        embedding: The model.
        chunks: The chunks.
        progress: Is told how many are done.
        save: Is awaited whenever a part is done that is worth to be saved, where the ingest goes on for long after it.
    """
    texts = [chunk.indexed_text for chunk in chunks]
    if not texts:
        return np.zeros((0, embedding.embedding_dim), dtype=np.float32)
    size = _SAVED_AT_ONCE if save else len(texts) if len(texts) <= _AT_ONCE else _WINDOW
    parts = []
    for at in range(0, len(texts), size):
        parts.append(await embedding.embed(texts[at : at + size], "document"))
        failpoint("embed-batch")
        if save and len(texts) > _WORTH_SAVING:
            await save()
        progress(min(at + size, len(texts)), len(texts))
    return np.concatenate(parts)


class GraphVectors:
    """Vectors of the texts of entities and relations, each made once however often a change is planned anew.

    Args:
        embedding: The model; None makes no vectors.
    """

    def __init__(self, embedding: EmbeddingService | None) -> None:
        self._embedding = embedding
        self.by_text: dict[str, FloatVector] = {}

    async def embed(self, change: GraphChange) -> None:
        """Makes the vectors that a change needs and that are not there yet.

        Raises:
            UpstreamError: The model failed.
        """
        missing = [text for text in change.texts if text not in self.by_text]
        if missing and self._embedding is not None:
            vectors = await self._embedding.embed(missing, "document")
            failpoint("entity-embed")
            self.by_text.update(zip(missing, vectors, strict=True))
