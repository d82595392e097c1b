"""Concerns around a model, one wrapper each. Their order is decided in ``llm.stack``."""

from __future__ import annotations

import hashlib
import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.endpoints.retry import RetryPolicy, retrying
from easy_knowledge_retriever.events import ModelCalled, Observer
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, Ending, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.llm.flight import held_back, landing
from easy_knowledge_retriever.spending.meter import Meter
from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = [
    "BatchedEmbedding",
    "CachedLLM",
    "EmbeddingWrapper",
    "LLMWrapper",
    "LimitedEmbedding",
    "LimitedLLM",
    "ObservedEmbedding",
    "ObservedLLM",
    "ReplyStore",
    "Request",
    "RetriedEmbedding",
    "RetriedLLM",
]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a language model as one value, so that a wrapper passes it on whole."""

    messages: tuple[Message, ...]
    priority: Priority = "query"
    max_tokens: int | None = None
    json_schema: Mapping[str, Any] | None = None

    async def complete(self, service: LLMService) -> Completion:
        """The whole answer of a model to it."""
        return await service.complete(
            self.messages, priority=self.priority, max_tokens=self.max_tokens, json_schema=self.json_schema
        )

    async def stream(self, service: LLMService) -> AsyncGenerator[str]:
        """Its answer in pieces. A stream left half way is closed at once, not when it is collected: it holds a slot."""
        pieces = service.stream(self.messages, priority=self.priority, max_tokens=self.max_tokens)
        try:
            async for piece in pieces:
                yield piece
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()


class LLMWrapper(LLMService):
    """A language model around another one: it says how a request, whole or streamed, gets there."""

    def __init__(self, service: LLMService) -> None:
        self.service = service

    @property
    def model(self) -> str:
        return self.service.model

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        return await self._complete(Request(tuple(messages), priority, max_tokens, json_schema))

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        async with aclosing(self._stream(Request(tuple(messages), priority, max_tokens))) as pieces:
            async for piece in pieces:
                yield piece

    @abstractmethod
    async def _complete(self, request: Request) -> Completion:
        """The whole answer to a request."""

    @abstractmethod
    def _stream(self, request: Request) -> AsyncGenerator[str]:
        """The answer to a request in pieces."""

    async def aclose(self) -> None:
        await self.service.aclose()


class ObservedLLM(LLMWrapper):
    """Tells the observer of each answer."""

    def __init__(self, service: LLMService, observer: Observer) -> None:
        super().__init__(service)
        self._observer = observer

    async def _complete(self, request: Request) -> Completion:
        began = time.perf_counter()
        completion = await request.complete(self.service)
        self._tell(began, completion.usage, completion.cached)
        return completion

    async def _stream(self, request: Request) -> AsyncGenerator[str]:
        began, usage, cached = time.perf_counter(), Usage(), False
        async with aclosing(request.stream(self.service)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ending):
                    usage, cached = piece.usage, piece.cached
                yield piece
        self._tell(began, usage, cached)

    def _tell(self, began: float, usage: Usage, cached: bool) -> None:
        seconds = time.perf_counter() - began
        self._observer(ModelCalled("llm", self.model, seconds, usage.prompt_tokens, usage.completion_tokens, cached))


class ReplyStore(Protocol):
    """Where replies are kept: the part of a KV storage that the cache needs."""

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The values that exist, by key."""
        ...

    async def put_many(self, values: Mapping[str, Mapping[str, str | int]]) -> None:
        """Writes or overwrites."""
        ...


class CachedLLM(LLMWrapper):
    """Gives an answer that was given before. The key is a digest, so no prompt is stored.

    Only a whole answer that is accepted is kept, streamed or not.

    Args:
        service: The model.
        store: Where replies are kept.
        identity: What an answer depends on besides the messages.
        accept: Whether a reply is good enough to be given again.
        meter: Is told of replies that were given again.
    """

    def __init__(
        self, service: LLMService, store: ReplyStore, identity: str, accept: Callable[[str], bool], meter: Meter
    ) -> None:
        super().__init__(service)
        self._store = store
        self._identity = identity
        self._accept = accept
        self._meter = meter

    async def _complete(self, request: Request) -> Completion:
        key = self._key(request)
        kept = await self._kept(key)
        if kept is not None:
            return Completion(kept, usage=Usage(cached_calls=1), cached=True)
        completion = await request.complete(self.service)
        await self._keep(key, completion.text, completion.finish_reason)
        return completion

    async def _stream(self, request: Request) -> AsyncGenerator[str]:
        key = self._key(request)
        kept = await self._kept(key)
        if kept is not None:
            yield kept
            yield Ending(Usage(cached_calls=1), cached=True)
            return
        text: list[str] = []
        async with aclosing(request.stream(self.service)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ending):
                    await self._keep(key, "".join(text).strip(), piece.finish_reason)
                text.append(piece)
                yield piece

    async def has(self, request: Request) -> bool:
        """Whether an answer to a request is kept."""
        return bool(await self._store.get_many([self._key(request)]))

    async def _keep(self, key: str, text: str, finish_reason: str) -> None:
        if finish_reason == "stop" and self._accept(text):
            await self._store.put_many({key: {"text": text, "at": int(time.time())}})

    def _key(self, request: Request) -> str:
        turns = [(message.role, message.content) for message in request.messages]
        parts = json.dumps([self._identity, request.max_tokens, request.json_schema, turns], sort_keys=True)
        return hashlib.blake2b(parts.encode(), digest_size=20).hexdigest()

    async def _kept(self, key: str) -> str | None:
        text = (await self._store.get_many([key])).get(key, {}).get("text")
        if not isinstance(text, str) or not text:
            return None
        self._meter.cached()
        return text


class RetriedLLM(LLMWrapper):
    """Sends a failed request again, as the policy allows. A stream is tried again until its first piece."""

    def __init__(self, service: LLMService, policy: RetryPolicy) -> None:
        super().__init__(service)
        self._policy = policy

    async def _complete(self, request: Request) -> Completion:
        return await retrying(self._policy, lambda: request.complete(self.service))

    async def _stream(self, request: Request) -> AsyncGenerator[str]:
        async def begun() -> tuple[str, AsyncGenerator[str]]:
            pieces = request.stream(self.service)
            return await anext(pieces, ""), pieces

        first, rest = await retrying(self._policy, begun)
        async with aclosing(rest) as pieces:
            yield first
            async for piece in pieces:
                yield piece


class LimitedLLM(LLMWrapper):
    """Waits for a turn at the endpoint before each request, and holds it until the answer is complete."""

    def __init__(self, service: LLMService, limiter: Limiter) -> None:
        super().__init__(service)
        self.limiter = limiter

    async def _complete(self, request: Request) -> Completion:
        held_back()
        async with self.limiter.slot(request.priority):
            return await landing(request.complete(self.service))

    async def _stream(self, request: Request) -> AsyncGenerator[str]:
        async with self.limiter.slot(request.priority), aclosing(request.stream(self.service)) as pieces:
            async for piece in pieces:
                yield piece


class EmbeddingWrapper(EmbeddingService):
    """An embedding model around another one, which it is unless a method says otherwise."""

    def __init__(self, service: EmbeddingService) -> None:
        self.service = service

    @property
    def embedding_dim(self) -> int:
        return self.service.embedding_dim

    @property
    def fingerprint(self) -> str:
        return self.service.fingerprint

    @property
    def prefixes(self) -> tuple[str, str]:
        return self.service.prefixes

    @property
    def is_pinned(self) -> bool:
        return self.service.is_pinned

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        return await self.service.embed(texts, input_type)

    async def aclose(self) -> None:
        await self.service.aclose()


class ObservedEmbedding(EmbeddingWrapper):
    """Tells the observer of each request."""

    def __init__(self, service: EmbeddingService, observer: Observer) -> None:
        super().__init__(service)
        self._observer = observer

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        began = time.perf_counter()
        vectors = await super().embed(texts, input_type)
        self._observer(ModelCalled("embedding", self.fingerprint, time.perf_counter() - began))
        return vectors


class BatchedEmbedding(EmbeddingWrapper):
    """Cuts texts into batches that run at the same time: each is limited, retried and counted for itself.

    Args:
        service: The model.
        batch_num: Size of a batch, asked each time: an endpoint that takes fewer lowers it.
    """

    def __init__(self, service: EmbeddingService, batch_num: Callable[[], int]) -> None:
        super().__init__(service)
        self.batch_num = batch_num

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        if not texts:
            return np.zeros((0, self.embedding_dim), np.float32)
        size = self.batch_num()
        batches = [texts[at : at + size] for at in range(0, len(texts), size)]
        # The limiter of the endpoint decides how many are really sent; this keeps the tasks of a large input few.
        parts = await map_bounded(lambda batch: self.service.embed(batch, input_type), batches, _TASKS)
        return np.concatenate(parts)


_TASKS = 64


class RetriedEmbedding(EmbeddingWrapper):
    """Sends a failed request again, as the policy allows."""

    def __init__(self, service: EmbeddingService, policy: RetryPolicy) -> None:
        super().__init__(service)
        self._policy = policy

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        return await retrying(self._policy, lambda: self.service.embed(texts, input_type))


class LimitedEmbedding(EmbeddingWrapper):
    """Waits for a turn at the endpoint before each request; questions before documents."""

    def __init__(self, service: EmbeddingService, limiter: Limiter) -> None:
        super().__init__(service)
        self.limiter = limiter

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        async with self.limiter.slot("query" if input_type == "query" else "ingest"):
            return await super().embed(texts, input_type)
