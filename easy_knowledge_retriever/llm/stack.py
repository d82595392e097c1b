"""The order of the wrappers around a model, decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService
from easy_knowledge_retriever.llm.wrappers import (
    BatchedEmbedding,
    Budget,
    BudgetedLLM,
    CachedLLM,
    EmbeddingWrapper,
    LimitedEmbedding,
    LimitedLLM,
    LLMWrapper,
    ObservedEmbedding,
    ObservedLLM,
    ReplyStore,
    RetriedEmbedding,
    RetriedLLM,
)

__all__ = ["Batching", "Identified", "Remote", "embedding_stack", "llm_stack"]

_DEFAULT_POLICY = RetryPolicy()


@runtime_checkable
class Remote(Protocol):
    """A service that calls an endpoint."""

    @property
    def limiter(self) -> Limiter:
        """The limiter that all services of this endpoint share."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A service whose answers depend on more than its model and the messages."""

    @property
    def identity(self) -> str:
        """What they depend on."""
        ...


@runtime_checkable
class Batching(Protocol):
    """A service that takes so many texts in one request."""

    @property
    def batch_num(self) -> int:
        """How many."""
        ...


def llm_stack(
    service: LLMService,
    *,
    observer: Observer = ignore,
    budget: Budget | None = None,
    cache: ReplyStore | None = None,
    accept: Callable[[str], bool] = bool,
    policy: RetryPolicy = _DEFAULT_POLICY,
) -> LLMService:
    """The model with everything around it: observer → budget → cache → retry → limit → service.

    - The observer is outermost: it sees one event for each answer, with all its waiting, and whether it was cached.
    - The budget stands before the cache, because it may have to refuse before anything is done; a cached reply is given
      back to it.
    - The cache stands before retry and limit: a kept reply waits for nobody.
    - Retry stands outside the limit: who waits for another try holds no slot, and queues again.
    - The limit is next to the service: each request counts, whoever asked for it.

    A model that is wrapped already is returned as it is, so that no request is ever retried by two layers.

    Args:
        service: The model.
        observer: Told of each answer.
        budget: Ceiling of calls.
        cache: Where replies are kept, if they are.
        accept: Whether a reply may be kept.
        policy: When a request is sent again.
    """
    if isinstance(service, LLMWrapper):
        return service
    inner: LLMService = LimitedLLM(service, service.limiter) if isinstance(service, Remote) else service
    inner = RetriedLLM(inner, policy)
    if cache is not None:
        identity = service.identity if isinstance(service, Identified) else service.model
        inner = CachedLLM(inner, cache, identity, accept)
    if budget is not None:
        inner = BudgetedLLM(inner, budget)
    return ObservedLLM(inner, observer)


def embedding_stack(
    service: EmbeddingService, *, observer: Observer = ignore, policy: RetryPolicy = _DEFAULT_POLICY
) -> EmbeddingService:
    """The embedding model with everything around it: batches → observer → retry → limit → service.

    Batches are outermost, so each is seen, retried and limited for itself. A service that names no ``batch_num``, such
    as a local model, cuts its own and gets the texts whole.

    Args:
        service: The model.
        observer: Told of each request.
        policy: When a request is sent again.
    """
    if isinstance(service, EmbeddingWrapper):
        return service
    inner: EmbeddingService = LimitedEmbedding(service, service.limiter) if isinstance(service, Remote) else service
    inner = ObservedEmbedding(RetriedEmbedding(inner, policy), observer)
    return BatchedEmbedding(inner, lambda: service.batch_num) if isinstance(service, Batching) else inner
