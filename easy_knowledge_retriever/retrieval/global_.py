"""Search from the relations of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["GlobalRetrieval"]


@dataclass(frozen=True, kw_only=True)
class GlobalRetrieval(Retrieval):
    """The relations near the themes of a question, the entities at their ends, and the chunks both were merged from."""

    mode: ClassVar[str] = "global"
    uses_keywords: ClassVar[bool] = True
    uses_graph: ClassVar[bool] = True

    max_relation_tokens: int | None = None
    hl_keywords: Sequence[str] = ()

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Relation search."""
        facts = await index.relations(query)
        hits = await index.chunks_of(facts, query)
        return Candidates(hits, facts, {"relations": hits})
