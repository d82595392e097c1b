"""Vector search alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["NaiveRetrieval"]


@dataclass(frozen=True, kw_only=True)
class NaiveRetrieval(Retrieval):
    """Chunks by similarity with the question; twice as many candidates where a reranker will choose."""

    mode: ClassVar[str] = "naive"

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Dense search."""
        hits = await index.dense(query, index.chunk_top_k * (2 if index.reranks else 1))
        return Candidates(hits, stages={"dense": hits})
