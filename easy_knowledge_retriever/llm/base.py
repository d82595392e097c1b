"""Ports of language and embedding models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = ["Completion", "EmbeddingService", "Ending", "InputType", "LLMService", "Message", "Priority"]

InputType = Literal["query", "document"]
Priority = Literal["query", "ingest"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered, reasoning text already taken away."""

    text: str
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    cached: bool = False


class Ending(str):
    """The last piece of a stream: it has no text and tells what the answer took. A model that cannot tell leaves it out."""

    __slots__ = ("cached", "finish_reason", "usage")
    usage: Usage
    finish_reason: str
    """``stop``, ``length``, …; empty if the model did not say."""
    cached: bool

    def __new__(cls, usage: Usage, finish_reason: str = "stop", *, cached: bool = False) -> Self:
        """The piece.

        Args:
            usage: What the answer took.
            finish_reason: Why it ended.
            cached: Whether it was given before.
        """
        piece = super().__new__(cls)
        piece.usage, piece.finish_reason, piece.cached = usage, finish_reason, cached
        return piece


class LLMService(ABC):
    """A language model."""

    @property
    @abstractmethod
    def model(self) -> str:
        """Name of the model."""

    @abstractmethod
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """The whole answer.

        Args:
            messages: The chat so far.
            priority: Queries go before ingest.
            max_tokens: Ceiling of the answer.
            json_schema: The shape asked for; a server that cannot is asked in words, so the text may still be anything.

        Raises:
            UpstreamError: The endpoint failed.
        """

    @abstractmethod
    def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        """The answer in pieces as they come; a last one, an :class:`Ending`, tells what it took.

        Raises:
            UpstreamError: The endpoint failed, perhaps after some pieces.
        """

    async def aclose(self) -> None:
        """Frees its connections. A second call does nothing."""


class EmbeddingService(ABC):
    """A model that turns texts into vectors."""

    @property
    @abstractmethod
    def embedding_dim(self) -> int:
        """Length of a vector."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Model, dimension and everything else that makes its vectors incomparable with others. Kept with the store."""

    @property
    def prefixes(self) -> tuple[str, str]:
        """What is put before a question and before a document; kept with the store."""
        return "", ""

    @property
    def is_pinned(self) -> bool:
        """Whether the fingerprint says all, as a digest of the model's files does.

        Of any other model a base keeps the vectors of three texts, to notice when another one answers under its name.
        """
        return False

    @abstractmethod
    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        """A vector a text, shape (len(texts), embedding_dim), each of length 1.

        Args:
            texts: Any number; the service cuts them into batches.
            input_type: Whether these are questions or what is searched.

        Raises:
            UpstreamError: The endpoint failed or answered something else than it was asked.
            ConfigError: The model cannot be loaded.
        """

    async def aclose(self) -> None:
        """Frees its connections. A second call does nothing."""
