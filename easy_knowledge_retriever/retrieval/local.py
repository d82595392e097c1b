"""Search from the entities of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["LocalRetrieval"]


@dataclass(frozen=True, kw_only=True)
class LocalRetrieval(Retrieval):
    """The entities a question speaks of, the relations at them, and the chunks both were merged from."""

    mode: ClassVar[str] = "local"
    uses_keywords: ClassVar[bool] = True
    uses_graph: ClassVar[bool] = True

    max_entity_tokens: int | None = None
    ll_keywords: Sequence[str] = ()

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Entity search."""
        facts = await index.entities(query)
        hits = await index.chunks_of(facts, query)
        return Candidates(hits, facts, {"entities": hits})
