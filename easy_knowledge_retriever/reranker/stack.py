"""What stands around a reranker: observer → retry → limit → meter → service, for the reasons given in ``llm.stack``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.endpoints.retry import RetryPolicy, retrying
from easy_knowledge_retriever.events import ModelCalled, Observer, ignore
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.spending.meter import Till

__all__ = ["RemoteReranker", "reranker_stack"]

_PATIENCE = RetryPolicy(tries=3, seconds=20.0)
"""A question waits for it, and the order of the first stage is there already: give up sooner than for other models."""


@runtime_checkable
class RemoteReranker(Protocol):
    """A reranker that calls an endpoint."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def limiter(self) -> Limiter:
        """The limiter that all services of this endpoint share."""
        ...


class _Guarded(RerankerService):
    """A reranker with everything around it."""

    def __init__(self, service: RerankerService, observer: Observer, till: Till, policy: RetryPolicy) -> None:
        self._service = service
        self._meter = till.meter("rerank", self._model, "rerank")
        self._observer = observer
        self._policy = policy

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        began = time.perf_counter()
        scores = await retrying(self._policy, lambda: self._limited(query, texts))
        self._observer(ModelCalled("rerank", self._model, time.perf_counter() - began))
        return scores

    async def _limited(self, query: str, texts: Sequence[str]) -> list[float]:
        if not isinstance(self._service, RemoteReranker):
            return await self._paid(query, texts)
        async with self._service.limiter.slot("query"):
            return await self._paid(query, texts)

    async def _paid(self, query: str, texts: Sequence[str]) -> list[float]:
        async with self._meter.request((query, *texts)) as bill:
            with bill.listening():
                return await self._service.scores(query, texts)

    @property
    def _model(self) -> str:
        return self._service.model if isinstance(self._service, RemoteReranker) else type(self._service).__name__

    async def aclose(self) -> None:
        await self._service.aclose()


def reranker_stack(
    service: RerankerService,
    *,
    observer: Observer = ignore,
    till: Till | None = None,
    policy: RetryPolicy = _PATIENCE,
) -> RerankerService:
    """The reranker with everything around it. One that is wrapped already is returned as it is.

    Args:
        service: The reranker.
        observer: Told of each answer.
        till: Where requests are paid; without one they are counted only.
        policy: When a request is sent again.

    Raises:
        ConfigError: There is a ceiling of cost, and the price of the model is not known.
    """
    return service if isinstance(service, _Guarded) else _Guarded(service, observer, till or Till(), policy)
