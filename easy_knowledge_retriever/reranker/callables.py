"""Plain functions as rerankers: what a user brings instead of a service."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from easy_knowledge_retriever.errors import BadResponse, ConfigError
from easy_knowledge_retriever.reranker.base import RerankerService

__all__ = ["CallableReranker", "as_reranker_service"]


def as_reranker_service(value: object) -> RerankerService:
    """A reranker for what a user gave: a service as it is, a function wrapped.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(value, RerankerService):
        return value
    if callable(value):
        return CallableReranker(value)
    raise ConfigError(f"{type(value).__name__} is no reranker", hint="give a RerankerService or an async function")


class CallableReranker(RerankerService):
    """A function ``(query, documents)`` as a reranker.

    It gives, or awaits to, a score a document, or ``{"index", "relevance_score"}`` of some. Its own errors pass unchanged.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        answer = self._function(query, list(texts))
        if inspect.isawaitable(answer):
            answer = await answer
        rows = list(answer)
        if rows and isinstance(rows[0], Mapping):
            return _by_index(rows, len(texts))
        if len(rows) != len(texts):
            raise BadResponse(f"the reranking function gave {len(rows)} scores for {len(texts)} texts")
        return [float(score) for score in rows]


def _by_index(rows: Sequence[Mapping[str, Any]], count: int) -> list[float]:
    found = {row["index"]: float(row["relevance_score"]) for row in rows if {"index", "relevance_score"} <= row.keys()}
    if not found or not set(found) <= set(range(count)):
        raise BadResponse(f"the reranking function gave no usable scores for {count} texts")
    below = math.nextafter(min(found.values()), -math.inf)
    return [found.get(index, below) for index in range(count)]
