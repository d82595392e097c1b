"""Models without a network: deterministic, counted, and able to fail or to be slow at a chosen call."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from easy_knowledge_retriever.events import Event
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, Ending, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = ["FakeEmbeddingService", "FakeLLMService", "FakeRerankerService", "Faults", "RecordingObserver"]

Faults = Mapping[int, Exception | float]
"""What happens at the n-th call, counted from 1: an error to raise, or seconds to wait before the answer."""
E = TypeVar("E", bound=Event)


class _Calls:
    """Counts calls and plays the faults of one fake."""

    def __init__(self, faults: Faults | None, delay: float) -> None:
        self.count = 0
        self.running = 0
        self.peak = 0
        self._faults = dict(faults or {})
        self._delay = delay

    async def begin(self) -> None:
        self.count += 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        fault = self._faults.get(self.count, self._delay)
        try:
            await asyncio.sleep(fault if isinstance(fault, float | int) else self._delay)
        finally:
            self.running -= 1
        if isinstance(fault, Exception):
            raise fault


class _Fake:
    """What the fakes share.

    Args:
        faults: What goes wrong, by the number of the call, from 1.
        delay: Seconds every call takes.
    """

    def __init__(self, *, faults: Faults | None = None, delay: float = 0.0) -> None:
        self._calls = _Calls(faults, delay)
        self.closed = False

    @property
    def calls(self) -> int:
        """How often it was called, failures included."""
        return self._calls.count

    @property
    def peak(self) -> int:
        """How many calls ran at the same time at most."""
        return self._calls.peak

    async def aclose(self) -> None:
        """Remembers that it was closed."""
        self.closed = True


class FakeEmbeddingService(_Fake, EmbeddingService):
    """Hashed bag of words: texts with common words are near, whatever their order.

    ``inputs`` holds every text it was given, with its input type.

    Args:
        dim: Length of a vector; few dimensions make words collide.
        faults: What goes wrong, by the number of the call, from 1.
        delay: Seconds every call takes.
    """

    def __init__(self, dim: int = 256, *, faults: Faults | None = None, delay: float = 0.0) -> None:
        super().__init__(faults=faults, delay=delay)
        self._dim = dim
        self.inputs: list[tuple[str, InputType]] = []

    @property
    def embedding_dim(self) -> int:
        return self._dim

    @property
    def fingerprint(self) -> str:
        return f"fake-bag-of-words/{self._dim}"

    @property
    def is_pinned(self) -> bool:
        return True

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        await self._calls.begin()
        self.inputs.extend((text, input_type) for text in texts)
        vectors = np.zeros((len(texts), self._dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _words(text) or [""]:
                vectors[row, _bucket(word, self._dim)] += 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


class FakeLLMService(_Fake, LLMService):
    """A model that says what it is told to say.

    ``requests`` holds the messages of every call.

    Args:
        replies: Answers in order (one more call than answers is an AssertionError), or a function of the messages.
        faults: What goes wrong, by the number of the call, from 1. A call that fails uses up no reply.
        delay: Seconds every call takes.
        model: Name of the model.
    """

    def __init__(
        self,
        replies: Sequence[str] | Callable[[Sequence[Message]], str] = (),
        *,
        faults: Faults | None = None,
        delay: float = 0.0,
        model: str = "fake-llm",
    ) -> None:
        super().__init__(faults=faults, delay=delay)
        self._replies = replies if callable(replies) else list(replies)
        self._model = model
        self.requests: list[tuple[Message, ...]] = []

    @property
    def model(self) -> str:
        return self._model

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        text = await self._answer(messages)
        return Completion(text, usage=_used(messages, text))

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        text = await self._answer(messages)
        for piece in re.findall(r"\s*\S+|\s+$", text):
            yield piece
        yield Ending(_used(messages, text))

    async def _answer(self, messages: Sequence[Message]) -> str:
        self.requests.append(tuple(messages))
        await self._calls.begin()
        if callable(self._replies):
            return self._replies(messages)
        if not self._replies:
            raise AssertionError(f"call {self.calls} of the fake model has no reply; the last message was {messages[-1]!r}")
        return self._replies.pop(0)


class FakeRerankerService(_Fake, RerankerService):
    """Scores a text by the share of the question's words it has.

    ``requests`` holds the question and the texts of every call.
    """

    def __init__(self, *, faults: Faults | None = None, delay: float = 0.0) -> None:
        super().__init__(faults=faults, delay=delay)
        self.requests: list[tuple[str, tuple[str, ...]]] = []

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.requests.append((query, tuple(texts)))
        await self._calls.begin()
        asked = set(_words(query))
        return [len(asked.intersection(_words(text))) / max(len(asked), 1) for text in texts]


class RecordingObserver:
    """An observer that remembers: ``events`` in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event, /) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


def _used(messages: Sequence[Message], answer: str) -> Usage:
    asked = sum(len(_words(message.content)) for message in messages)
    return Usage(llm_calls=1, prompt_tokens=asked, completion_tokens=len(_words(answer)))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _bucket(word: str, dim: int) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % dim
