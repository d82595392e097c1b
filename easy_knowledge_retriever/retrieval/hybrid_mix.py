"""Every search, fused by reciprocal ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.retrieval.base import Searches
from easy_knowledge_retriever.retrieval.fusion import fuse_hits, join_hits
from easy_knowledge_retriever.retrieval.hybrid import HybridRetrieval
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates, Hit

__all__ = ["HybridMixRetrieval"]

POOL = 3
"""Candidates a search gives to the fusion, in multiples of ``chunk_top_k``."""
WEIGHTS = {"dense": 1.0, "bm25": 1.0, "entities": 0.25, "relations": 0.25}
"""What the vote of each search counts."""
LEAD = 2.0
"""Passages of the list that leads for each one of the other: the walk leads where the question names what a passage is about."""
DENSE_GUARD = 0.5
"""BM25 keeps a place for each of its hits beside the votes, vectors one for two: exact words fail less often in a language or
a field the embedding model does not know."""


@dataclass(frozen=True, kw_only=True)
class HybridMixRetrieval(HybridRetrieval):
    """Dense, BM25 and graph search at once, fused by reciprocal ranks; then a walk from names and the best hits of both.

    Votes have two faults. A search that does not know the language pushes down what another one found. And the walk finds
    passages the question cannot see, so it is outvoted where it is right. The votes are therefore joined by rank with the
    best of BM25 and vectors, and with the walk, so that no list pushes another down by more than its share.
    """

    mode: ClassVar[str] = "hybrid_mix"
    follows: ClassVar[int] = 1
    graph_share: ClassVar[float] = 0.5

    k1: float = 1.5
    b: float = 0.75
    rrf_k: int = 60

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """All searches."""
        depth = POOL * index.chunk_top_k
        async with task_group() as group:
            dense = group.create_task(index.dense(query, depth))
            bm25 = group.create_task(index.bm25(query, depth, self.k1, self.b))
            graph = group.create_task(super().search(query, index))

            async def walk_on() -> tuple[Hit, ...]:
                return await index.walk(query, (await dense, await bm25), depth)

            walking = group.create_task(walk_on())
        walk = walking.result()
        votes = {"dense": dense.result(), "bm25": bm25.result(), **graph.result().stages}
        fused = fuse_hits(votes, WEIGHTS, self.rrf_k)
        seen = join_hits((fused, 1.0), (bm25.result(), 1.0), (dense.result(), DENSE_GUARD))
        hits = join_hits((walk, LEAD), (seen, 1.0)) if query.anchors else join_hits((seen, LEAD), (walk, 1.0))
        return Candidates(hits, graph.result().facts, {**votes, "votes": fused, "walk": walk})
