"""Port of a retrieval strategy: what to search and how to fuse, nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates, GraphFacts, Hit

__all__ = ["Retrieval", "Searches"]


class Searches(Protocol):
    """The searches of one base under one filter, as a strategy sees them. Each may run beside the others."""

    @property
    def chunk_top_k(self) -> int:
        """Passages wanted in the end."""
        ...

    @property
    def reranks(self) -> bool:
        """Whether a reranker will order the candidates."""
        ...

    async def dense(self, query: AnalyzedQuery, top_k: int) -> tuple[Hit, ...]:
        """Chunks by cosine similarity with the question."""
        ...

    async def bm25(self, query: AnalyzedQuery, top_k: int, k1: float, b: float) -> tuple[Hit, ...]:
        """Chunks by Okapi BM25."""
        ...

    async def entities(self, query: AnalyzedQuery) -> GraphFacts:
        """The entities nearest to the low keywords, and the relations at them."""
        ...

    async def relations(self, query: AnalyzedQuery) -> GraphFacts:
        """The relations nearest to the high keywords, and the entities at their ends."""
        ...

    async def chunks_of(self, facts: GraphFacts, query: AnalyzedQuery) -> tuple[Hit, ...]:
        """The chunks that the facts were merged from, best first."""
        ...

    async def walk(self, query: AnalyzedQuery, seeds: Sequence[Sequence[Hit]], top_k: int) -> tuple[Hit, ...]:
        """Chunks by personalised PageRank from the names in the question and the given hits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Retrieval(ABC):
    """A strategy: frozen, without state, safe to share between concurrent queries. None means: as the retriever has it."""

    mode: ClassVar[str]
    uses_keywords: ClassVar[bool] = False
    uses_vector: ClassVar[bool] = True
    """Whether the question itself is embedded."""
    uses_graph: ClassVar[bool] = False
    """Whether the names in the question are looked up in the graph."""
    grounded: ClassVar[bool] = True
    graph_share: ClassVar[float] = 1.0
    """Share of the retriever's entity and relation budgets that this strategy uses, unless told a budget."""
    follows: ClassVar[int] = 0
    """Chunks after each of the best hits that are pooled, unless ``follow`` says otherwise."""

    top_k: int | None = None
    chunk_top_k: int | None = None
    max_total_tokens: int | None = None
    conversation_history: Sequence[Mapping[str, str]] = ()
    """Used where ``QueryParam`` gives none."""
    reranker_service: RerankerService | None = None
    query_decomposition: bool = False
    follow: int | None = None
    enable_rerank: bool = True

    @abstractmethod
    async def search(self, query: AnalyzedQuery, index: Searches) -> Candidates:
        """First-stage candidates for a question.

        Raises:
            StorageError: A storage failed; an outage is never an empty answer.
        """
