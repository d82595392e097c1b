"""The walk alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["GraphWalkRetrieval"]


@dataclass(frozen=True, kw_only=True)
class GraphWalkRetrieval(Retrieval):
    """Personalised PageRank over passages, entities and declared edges, from the names of the question and the best hits."""

    mode: ClassVar[str] = "graph_walk"
    uses_graph: ClassVar[bool] = True

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Dense and BM25 search for the starting points, then the walk."""
        async with task_group() as group:
            dense = group.create_task(index.dense(query, index.chunk_top_k))
            bm25 = group.create_task(index.bm25(query, index.chunk_top_k, 1.5, 0.75))
        seeds = (dense.result(), bm25.result())
        hits = await index.walk(query, seeds, index.chunk_top_k * (2 if index.reranks else 1))
        return Candidates(hits, stages={"dense": seeds[0], "bm25": seeds[1], "walk": hits})
