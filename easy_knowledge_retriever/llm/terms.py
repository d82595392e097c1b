"""What is known of the requests to a model before one is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService, Message
from easy_knowledge_retriever.llm.metered import MeteredEmbedding, MeteredLLM
from easy_knowledge_retriever.llm.wrappers import (
    BatchedEmbedding,
    CachedLLM,
    EmbeddingWrapper,
    LimitedEmbedding,
    LimitedLLM,
    LLMWrapper,
    Request,
)
from easy_knowledge_retriever.spending.account import Line
from easy_knowledge_retriever.spending.prices import Price

__all__ = ["Terms", "has_reply", "terms_of"]

_UNLIMITED = 64
"""Requests at once where nothing limits them."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a model is asked."""

    line: Line
    price: Price | None
    """None if it is not known."""
    at_once: int
    """Requests at once, at the present limit of the endpoint."""
    batch: int | None
    """Texts in a request of an embedding model; None: all of them."""


def terms_of(service: LLMService | EmbeddingService) -> Terms:
    """The terms of a model, as its wrappers have them."""
    line, price = Line("", service.model if isinstance(service, LLMService) else service.fingerprint, "llm"), None
    at_once, batch = _UNLIMITED, None
    for layer in _layers(service):
        match layer:
            case MeteredLLM() | MeteredEmbedding():
                line, price = layer.meter.line, layer.meter.price
            case LimitedLLM() | LimitedEmbedding():
                at_once = layer.limiter.ceiling
            case BatchedEmbedding():
                batch = layer.batch_num()
    return Terms(line, price, at_once, batch)


async def has_reply(service: LLMService, messages: Sequence[Message], json_schema: Mapping[str, Any] | None) -> bool:
    """Whether a reply to this request is kept, so that it would cost nothing."""
    request = Request(tuple(messages), "ingest", None, json_schema)
    return any([await layer.has(request) for layer in _layers(service) if isinstance(layer, CachedLLM)])


def _layers(service: LLMService | EmbeddingService) -> Iterator[LLMService | EmbeddingService]:
    """The wrappers, from the outermost on."""
    while isinstance(service, LLMWrapper | EmbeddingWrapper):
        yield service
        service = service.service
