"""What questions are answered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.llm.callables import as_llm_service
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.asking import Asking, asking_with
from easy_knowledge_retriever.operations.base import Answerer, KeywordExtractor, Rewriter, Splitter
from easy_knowledge_retriever.operations.budget import CountTokens
from easy_knowledge_retriever.operations.decomposition import LocalSplitter
from easy_knowledge_retriever.operations.rewriting import LocalRewriter
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.reranker.stack import reranker_stack

__all__ = ["Services"]


def _asking(model: object) -> Asking:
    service = llm_stack(as_llm_service(model))
    return asking_with(lambda purpose: service)


@dataclass(frozen=True, slots=True)
class Services:
    """What answers questions with."""

    embedding: EmbeddingService
    keywords: KeywordExtractor
    answerer: Answerer
    count_tokens: CountTokens
    reranker: RerankerService | None = None
    rewriter: Rewriter = field(default_factory=LocalRewriter)
    splitter: Splitter = field(default_factory=LocalSplitter)
    asking: Callable[[object], Asking] = _asking
    """What asks another model with, given that of ``QueryParam.model_func``."""
    reranking: Callable[[RerankerService], RerankerService] = reranker_stack
    """Puts the wrappers around a reranker that a strategy brings; one that has them stays as it is."""

    def with_model(self, model: object) -> Services:
        """The same with another language model.

        Raises:
            ConfigError: It is none.
        """
        other = self.asking(model)
        return replace(self, rewriter=other.rewriter, splitter=other.splitter, keywords=other.keywords, answerer=other.answerer)
