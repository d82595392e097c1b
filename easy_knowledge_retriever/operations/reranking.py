"""Reranking of candidates, once for all of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from easy_knowledge_retriever.errors import UpstreamError
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.types import Chunk

__all__ = ["RERANK_FAILED", "rerank"]

logger = logging.getLogger("easy_knowledge_retriever")

RERANK_FAILED = "rerank_failed"
"""Named in ``QueryResult.degraded`` when the reranker was down and the first-stage order was kept."""


async def rerank(question: str, chunks: Sequence[Chunk], service: RerankerService) -> list[tuple[Chunk, float]] | None:
    """The chunks by the reranker's score, best first; ties keep their order. None if the reranker is down.

    Args:
        question: What was asked.
        chunks: In first-stage order.
        service: The model.
    """
    if not chunks:
        return []
    try:
        scores = await service.scores(question, [chunk.indexed_text for chunk in chunks])
    except UpstreamError as failure:
        logger.warning("the reranker failed (%s); the first-stage order is kept", failure.code)
        return None
    return sorted(zip(chunks, scores, strict=True), key=lambda pair: -pair[1])
