"""The one table of strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.retrieval.bm25 import BM25Retrieval
from easy_knowledge_retriever.retrieval.bypass import BypassRetrieval
from easy_knowledge_retriever.retrieval.global_ import GlobalRetrieval
from easy_knowledge_retriever.retrieval.graph_walk import GraphWalkRetrieval
from easy_knowledge_retriever.retrieval.hybrid import HybridRetrieval
from easy_knowledge_retriever.retrieval.hybrid_mix import HybridMixRetrieval
from easy_knowledge_retriever.retrieval.local import LocalRetrieval
from easy_knowledge_retriever.retrieval.mix import MixRetrieval
from easy_knowledge_retriever.retrieval.naive import NaiveRetrieval

__all__ = ["STRATEGIES", "RetrievalFactory"]

STRATEGIES: Final[Mapping[str, type[Retrieval]]] = MappingProxyType(
    {
        strategy.mode: strategy
        for strategy in (
            NaiveRetrieval,
            LocalRetrieval,
            GlobalRetrieval,
            HybridRetrieval,
            MixRetrieval,
            HybridMixRetrieval,
            BypassRetrieval,
            BM25Retrieval,
            GraphWalkRetrieval,
        )
    }
)
"""Mode to its strategy."""


class RetrievalFactory:
    """A thin name over :data:`STRATEGIES`."""

    @staticmethod
    def create_retrieval(param: QueryParam, reranker_service: RerankerService | None = None) -> Retrieval:
        """The strategy a mode names, every option as the retriever has it.

        Args:
            param: Its ``mode`` is looked at; its other wishes are resolved when the question is asked.
            reranker_service: Used in place of the retriever's.

        Raises:
            ConfigError: There is no such mode.
        """
        strategy = STRATEGIES.get(param.mode)
        if strategy is None:
            raise ConfigError(f"there is no mode {param.mode!r}", hint=f"one of {', '.join(STRATEGIES)}")
        made = strategy()
        return made if reranker_service is None else replace(made, reranker_service=reranker_service)
