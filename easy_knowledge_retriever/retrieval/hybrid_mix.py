"""Every search, fused by reciprocal ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.retrieval.base import Searches
from easy_knowledge_retriever.retrieval.fusion import fuse_hits
from easy_knowledge_retriever.retrieval.hybrid import HybridRetrieval
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["HybridMixRetrieval"]

POOL = 3
"""Candidates a search gives to the fusion, in multiples of ``chunk_top_k``."""
WEIGHTS = {"dense": 1.0, "bm25": 1.0, "walk": 1.0, "entities": 0.25, "relations": 0.25}
"""What a vote of each search counts."""


@dataclass(frozen=True, kw_only=True)
class HybridMixRetrieval(HybridRetrieval):
    """Dense, BM25 and graph search at once, then a walk from the names of the question and the best hits of both."""

    mode: ClassVar[str] = "hybrid_mix"
    follows: ClassVar[int] = 1
    graph_share: ClassVar[float] = 0.5

    k1: float = 1.5
    b: float = 0.75
    rrf_k: int = 60

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """All searches, fused by reciprocal rank."""
        depth = POOL * index.chunk_top_k
        async with task_group() as group:
            dense = group.create_task(index.dense(query, depth))
            bm25 = group.create_task(index.bm25(query, depth, self.k1, self.b))
            graph = group.create_task(super().search(query, index))
        walk = await index.walk(query, (dense.result(), bm25.result()), depth)
        stages = {"dense": dense.result(), "bm25": bm25.result(), "walk": walk, **graph.result().stages}
        hits = fuse_hits(stages, WEIGHTS, self.rrf_k)
        return Candidates(hits, graph.result().facts, stages)
