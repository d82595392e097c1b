"""The order of the wrappers around a model, decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService
from easy_knowledge_retriever.llm.metered import KeptEmbedding, MeteredEmbedding, MeteredLLM
from easy_knowledge_retriever.llm.wrappers import (
    BatchedEmbedding,
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
from easy_knowledge_retriever.spending.meter import Till

__all__ = ["Batching", "Identified", "Named", "Remote", "embedding_stack", "llm_stack"]

_DEFAULT_POLICY = RetryPolicy()


@runtime_checkable
class Remote(Protocol):
    """A service that calls an endpoint."""

    @property
    def limiter(self) -> Limiter:
        """The limiter that all services of this endpoint share."""
        ...


@runtime_checkable
class Named(Protocol):
    """A service that says which model it asks."""

    @property
    def model(self) -> str:
        """Name of the model, as prices know it."""
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
    till: Till | None = None,
    purpose: str = "chat",
    cache: ReplyStore | None = None,
    accept: Callable[[str], bool] = bool,
    policy: RetryPolicy = _DEFAULT_POLICY,
) -> LLMService:
    """The model with everything around it: observer → cache → retry → limit → meter → service.

    - The observer is outermost: it sees one event for each answer, with all its waiting, and whether it was cached.
    - The cache stands before all that follows: a kept reply waits for nobody and costs nothing.
    - Retry stands outside the limit: who waits for another try holds no slot, and queues again.
    - The limit is around what is sent: each request counts, whoever asked for it.
    - The meter is next to the service. It refuses what would pass a ceiling right before it is sent, so each try is paid
      for itself, and money is reserved for what is under way, not for what waits for its turn.

    A model that is wrapped already is returned as it is, so that no request is ever retried by two layers.

    Args:
        service: The model.
        observer: Told of each answer.
        till: Where requests are paid; without one they are counted only.
        purpose: What they are for, on the account.
        cache: Where replies are kept, if they are.
        accept: Whether a reply may be kept.
        policy: When a request is sent again.

    Raises:
        ConfigError: There is a ceiling of cost, and the price of the model is not known.
    """
    if isinstance(service, LLMWrapper):
        return service
    meter = (till or Till()).meter("llm", service.model, purpose)
    inner: LLMService = MeteredLLM(service, meter)
    if isinstance(service, Remote):
        inner = LimitedLLM(inner, service.limiter)
    inner = RetriedLLM(inner, policy)
    if cache is not None:
        identity = service.identity if isinstance(service, Identified) else service.model
        inner = CachedLLM(inner, cache, identity, accept, meter)
    return ObservedLLM(inner, observer)


def embedding_stack(
    service: EmbeddingService,
    *,
    observer: Observer = ignore,
    till: Till | None = None,
    purpose: str = "embed",
    local: bool = False,
    policy: RetryPolicy = _DEFAULT_POLICY,
) -> EmbeddingService:
    """The embedding model with everything around it: batches → kept → observer → retry → limit → meter → service.

    Batches are outermost, so each is seen, retried, limited and paid for itself, and kept as soon as it came. A service that
    names no ``batch_num``, such as a local model, cuts its own and gets the texts whole. Vectors of a local model are not kept.

    Args:
        service: The model.
        observer: Told of each request.
        till: Where requests are paid; without one they are counted only.
        purpose: What they are for, on the account.
        local: The model runs here and costs nothing.
        policy: When a request is sent again.

    Raises:
        ConfigError: There is a ceiling of cost, and the price of the model is not known.
    """
    if isinstance(service, EmbeddingWrapper):
        return service
    name = service.model if isinstance(service, Named) else service.fingerprint
    meter = (till or Till()).meter("embedding", name, purpose, local=local)
    inner: EmbeddingService = MeteredEmbedding(service, meter)
    if isinstance(service, Remote):
        inner = LimitedEmbedding(inner, service.limiter)
    inner = ObservedEmbedding(RetriedEmbedding(inner, policy), observer)
    if not local:
        inner = KeptEmbedding(inner)
    return BatchedEmbedding(inner, lambda: service.batch_num) if isinstance(service, Batching) else inner
