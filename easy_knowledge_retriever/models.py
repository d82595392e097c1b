"""Which models a retriever uses: the user's, with everything around them, or the local ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from easy_knowledge_retriever.events import Observer
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage
from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService
from easy_knowledge_retriever.llm.callables import as_embedding_service, as_llm_service
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.operations.answering import ExtractiveAnswerer
from easy_knowledge_retriever.operations.answering_llm import LLMAnswerer
from easy_knowledge_retriever.operations.base import Answerer, KeywordExtractor, PaidExtractor
from easy_knowledge_retriever.operations.extraction_format import is_readable
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.keywords import LocalKeywords
from easy_knowledge_retriever.operations.keywords_llm import LLMKeywords
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.reranker.callables import as_reranker_service
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.meter import Till

__all__ = ["EmbeddingChoice", "LLMChoice", "Models", "RerankerChoice", "choose_models"]

EmbeddingChoice = EmbeddingService | Callable[..., Any] | None
"""A service, an async function from texts to vectors, or None for the local model."""
LLMChoice = LLMService | Callable[..., Any] | None
"""A service, a function of a prompt, or None for answers without a model."""
RerankerChoice = RerankerService | Callable[..., Any] | None
"""A service, a function of a question and texts, or None for no rerank."""


@dataclass(frozen=True, slots=True)
class Models:
    """What a retriever asks: chosen once."""

    embedding: EmbeddingService
    llm: LLMService | None
    reranker: RerankerService | None
    keywords: KeywordExtractor
    answerer: Answerer
    llm_extractor: PaidExtractor | None

    async def aclose(self) -> None:
        """Frees their connections, all of them even if one fails."""
        async with AsyncExitStack() as stack:
            for service in (self.embedding, self.llm, self.reranker):
                if service is not None:
                    stack.push_async_callback(service.aclose)


def choose_models(
    settings: Settings,
    embedding: EmbeddingChoice,
    llm: LLMChoice,
    reranker: RerankerChoice,
    cache: KVStorage,
    observer: Observer,
    till: Till,
) -> Models:
    """The models of these choices, each with the wrappers of its stack.

    Args:
        settings: Those of the retriever.
        embedding: See :data:`EmbeddingChoice`.
        llm: See :data:`LLMChoice`.
        reranker: See :data:`RerankerChoice`.
        cache: Keeps replies, where the settings want it.
        observer: Is told of each call.
        till: Where each request is paid.

    Raises:
        ConfigError: A choice cannot be used.
    """
    chosen = LocalEmbeddingService() if embedding is None else as_embedding_service(embedding)
    local = isinstance(chosen, LocalEmbeddingService)
    vectors = embedding_stack(chosen, observer=observer, till=till, local=local)
    ranks = None if reranker is None else reranker_stack(as_reranker_service(reranker), observer=observer, till=till)
    if llm is None:
        return Models(vectors, None, ranks, LocalKeywords(), ExtractiveAnswerer(vectors), None)
    service = as_llm_service(llm)
    replies = cache if settings.enable_llm_cache else None
    asking = llm_stack(service, observer=observer, till=till, purpose="answer", cache=replies)
    keywords = llm_stack(service, observer=observer, till=till, purpose="keywords", cache=replies)
    kept = cache if settings.enable_llm_cache_for_entity_extract else None
    extracting = llm_stack(service, observer=observer, till=till, purpose="extract", cache=kept, accept=is_readable)
    extractor = LLMExtractor(
        extracting,
        entity_types=settings.entity_types,
        language=settings.language,
        max_gleaning=settings.entity_extract_max_gleaning,
    )
    return Models(vectors, asking, ranks, LLMKeywords(keywords), LLMAnswerer(asking), extractor)
