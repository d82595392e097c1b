"""No search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from easy_knowledge_retriever.retrieval.base import Retrieval, Searches
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates

__all__ = ["BypassRetrieval"]


@dataclass(frozen=True, kw_only=True)
class BypassRetrieval(Retrieval):
    """The question goes to the model as it is: the answer is not grounded, and the result says so."""

    mode: ClassVar[str] = "bypass"
    uses_vector: ClassVar[bool] = False
    grounded: ClassVar[bool] = False

    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """Nothing."""
        return Candidates()
