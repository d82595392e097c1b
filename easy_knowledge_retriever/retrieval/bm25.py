"""Lexical search alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["BM25Retrieval"]


@dataclass(frozen=True, kw_only=True)
class BM25Retrieval(Retrieval):
    """Chunks by Okapi BM25; no model takes part in the search."""

    mode: ClassVar[str] = "bm25"
    uses_vector: ClassVar[bool] = False

    k1: float = 1.5
    b: float = 0.75

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """BM25 search."""
        hits = await index.bm25(query, index.chunk_top_k * (2 if index.reranks else 1), self.k1, self.b)
        return Candidates(hits, stages={"bm25": hits})
