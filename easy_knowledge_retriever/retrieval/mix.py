"""Vector search beside the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.retrieval.base import Searches
from easy_knowledge_retriever.retrieval.fusion import interleave_hits
from easy_knowledge_retriever.retrieval.hybrid import HybridRetrieval
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["MixRetrieval"]


@dataclass(frozen=True, kw_only=True)
class MixRetrieval(HybridRetrieval):
    """``naive`` and ``hybrid`` together, taken in turns."""

    mode: ClassVar[str] = "mix"

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Dense, entity and relation search, interleaved."""
        async with task_group() as group:
            dense = group.create_task(index.dense(query, index.chunk_top_k))
            graph = group.create_task(super().search(query, index))
        found, hits = graph.result(), dense.result()
        stages = {"dense": hits, **found.stages}
        return Candidates(interleave_hits(*stages.values()), found.facts, stages)
