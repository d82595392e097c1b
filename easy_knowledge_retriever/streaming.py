"""A streamed answer as events: the sources first, then the text as it is written, then what its check says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from easy_knowledge_retriever.errors import ConfigError, EKRError
from easy_knowledge_retriever.query import QueryResult
from easy_knowledge_retriever.types import Citation

__all__ = [
    "AnswerPieces",
    "AnswerStream",
    "CitationChecked",
    "Done",
    "Reranked",
    "Retrieved",
    "StreamEvent",
    "StreamWarning",
    "Token",
]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that a streamed answer gives. ``kind`` is its name where events are data, such as in JSON."""

    kind: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Retrieved(StreamEvent):
    """What the answer will be written from: the first event of an answer. The fields are those of ``QueryResult``."""

    kind: ClassVar[str] = "retrieved"
    chunks: tuple[Mapping[str, Any], ...] = ()
    entities: tuple[Mapping[str, Any], ...] = ()
    relationships: tuple[Mapping[str, Any], ...] = ()
    context: str = ""


@dataclass(frozen=True, slots=True)
class Reranked(StreamEvent):
    """A reranker put the passages in order."""

    kind: ClassVar[str] = "reranked"
    scores: tuple[tuple[str, float], ...] = ()
    """Chunk ids with their scores, best first."""


@dataclass(frozen=True, slots=True)
class Token(StreamEvent):
    """A piece of the answer, as the model wrote it: its citations are not checked yet."""

    kind: ClassVar[str] = "token"
    text: str = ""


@dataclass(frozen=True, slots=True)
class CitationChecked(StreamEvent):
    """A citation of the answer, after the last token, with whether its passage says what is claimed."""

    kind: ClassVar[str] = "citation"
    citation: Citation


@dataclass(frozen=True, slots=True)
class StreamWarning(StreamEvent):
    """Something to know: a step that fell back, a citation that was taken away, a failure that ends the stream."""

    kind: ClassVar[str] = "warning"
    code: str
    """The name in ``degraded``, the ``code`` of an error, ``answer`` (what its check says), or ``text_changed``: the tokens
    differ from the checked text of ``Done``."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Done(StreamEvent):
    """The last event: the result, as it would be without streaming."""

    kind: ClassVar[str] = "done"
    result: QueryResult


class AnswerStream:
    """The events of one answer, to be read once.

    Use it with ``async with``, or close it: a stream that is left half way holds a call of the model until then, or until
    nothing refers to it any more.
    """

    def __init__(self, events: AsyncGenerator[StreamEvent]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the stream and with it the call of the model. A second call does nothing."""
        await self._events.aclose()


class AnswerPieces:
    """The text of one answer in pieces, and in the end its checked result."""

    def __init__(self, events: AnswerStream) -> None:
        self._events = events
        self._result: QueryResult | None = None
        self._failure: EKRError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        try:
            async for event in self._events:
                match event:
                    case Token():
                        return event.text
                    case Done():
                        self._result = event.result
        except EKRError as failure:
            self._failure = failure
            raise
        raise StopAsyncIteration

    async def final(self) -> QueryResult:
        """The checked result; reads what is left of the pieces.

        Raises:
            EKRError: The stream failed.
            ConfigError: It was closed before its end.
        """
        async for _ in self:
            pass
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise ConfigError("the streamed answer was closed before its end", hint="read its pieces to the last")
        return self._result

    async def aclose(self) -> None:
        """Ends the stream and with it the call of the model. A second call does nothing."""
        await self._events.aclose()
