"""Search from entities and relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.retrieval.fusion import interleave_hits, merge_facts
from easy_knowledge_retriever.retrieval.global_ import GlobalRetrieval
from easy_knowledge_retriever.retrieval.local import LocalRetrieval
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["HybridRetrieval"]


@dataclass(frozen=True, kw_only=True)
class HybridRetrieval(Retrieval):
    """``local`` and ``global`` together, taken in turns."""

    mode: ClassVar[str] = "hybrid"
    uses_keywords: ClassVar[bool] = True
    uses_graph: ClassVar[bool] = True

    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    ll_keywords: Sequence[str] = ()
    hl_keywords: Sequence[str] = ()

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Entity and relation search, interleaved."""
        async with task_group() as group:
            near = group.create_task(LocalRetrieval().search(query, index))
            far = group.create_task(GlobalRetrieval().search(query, index))
        local, distant = near.result(), far.result()
        facts = merge_facts(local.facts, distant.facts)
        return Candidates(interleave_hits(local.chunks, distant.chunks), facts, {**local.stages, **distant.stages})
