"""Ports of the steps that have more than one implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.query import DEFAULT_FORM
from easy_knowledge_retriever.types import Chunk, Citation, Claim, Context, Document, Extraction, Passage, Transcript

__all__ = [
    "Answer",
    "AnswerRequest",
    "Answerer",
    "ExtractionOutcome",
    "Extractor",
    "KeywordExtractor",
    "Keywords",
    "PaidExtractor",
    "Parts",
    "Progress",
    "PromptHook",
    "Rewriter",
    "Rewritten",
    "Splitter",
    "Transcripts",
]

Progress = Callable[[int, int], None]
"""Called with (done, total)."""


@dataclass(frozen=True, slots=True)
class ExtractionOutcome:
    """What an extractor found: at most one extraction a chunk, and what went wrong on the way."""

    extractions: tuple[Extraction, ...] = ()
    warnings: tuple[str, ...] = ()
    failed_chunks: tuple[str, ...] = ()
    """Ids of the chunks that were not read."""
    refused_chunks: tuple[str, ...] = ()
    """Those of them that the model declined to read."""


class Extractor(ABC):
    """Finds entities and relations in chunks. Declared references, local names and a model are three of them."""

    @abstractmethod
    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        """What these chunks of the document say. A chunk that cannot be read is counted, never raised for.

        Raises:
            UpstreamError: The model endpoint is down for all of them.
        """


class Transcripts(Protocol):
    """Where the replies of a model are kept, chunk by chunk: who asks goes on where an earlier attempt stopped."""

    def of(self, chunk: Chunk) -> Transcript:
        """What the model answered about a chunk so far."""
        ...

    async def keep(self, chunk: Chunk, transcript: Transcript) -> None:
        """Keeps what it answered by now. Returns when that is durable."""
        ...


class PaidExtractor(Extractor):
    """An extractor whose every answer costs something, so that none may be lost."""

    @abstractmethod
    async def extract(
        self, document: Document, chunks: Sequence[Chunk], progress: Progress, transcripts: Transcripts | None = None
    ) -> ExtractionOutcome:
        """What these chunks of the document say.

        Args:
            document: The document.
            chunks: Its chunks.
            progress: Is told how many are done.
            transcripts: Keeps each answer before it is used; None keeps them for this call only.

        Raises:
            UpstreamError: The model endpoint is down, or refuses the key.
            LimitExceeded: The next call would pass a ceiling.
        """


@dataclass(frozen=True, slots=True)
class Keywords:
    """What to look for in the graph."""

    high: tuple[str, ...] = ()
    """Themes."""
    low: tuple[str, ...] = ()
    """Entities and details."""


class KeywordExtractor(ABC):
    """Finds the keywords of a question."""

    @abstractmethod
    async def keywords(self, question: str) -> Keywords:
        """Its themes and its details.

        Raises:
            UpstreamError: The model endpoint failed.
        """


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A question that can be understood without the conversation before it."""

    question: str
    degraded: tuple[str, ...] = ()


class Rewriter(ABC):
    """Makes a follow-up a question that can be searched with."""

    @abstractmethod
    async def rewrite(self, question: str, history: Sequence[Mapping[str, str]]) -> Rewritten:
        """The question with what it leaves out.

        Args:
            question: What is asked now.
            history: Earlier turns, ``role`` and ``content``; the last one last.

        Raises:
            LimitExceeded: A spending ceiling. Any other failure of a model is named in ``degraded``.
        """


@dataclass(frozen=True, slots=True)
class Parts:
    """The questions inside a question."""

    questions: tuple[str, ...]
    degraded: tuple[str, ...] = ()


class Splitter(ABC):
    """Splits a question that asks several things."""

    @abstractmethod
    async def split(self, question: str) -> Parts:
        """At most four questions, in order; the question itself if it asks one thing.

        Raises:
            LimitExceeded: A spending ceiling. Any other failure of a model is named in ``degraded``.
        """


PromptHook = Callable[[Sequence[Message], Sequence[Passage]], object]
"""Called with the messages of a prompt for an answer and the passages in it, before it is sent. What it raises stops the
call."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question with the context to answer it from."""

    question: str
    context: Context
    response_type: str = DEFAULT_FORM
    user_prompt: str = ""
    system_prompt: str | None = None
    """Replaces the library's own, where the caller gave one."""
    history: tuple[Mapping[str, str], ...] = ()
    grounded: bool = True
    """False for ``bypass``: there are no passages and none are wanted."""
    standalone: str = ""
    """The question as it can be understood without the history; empty if it is the same."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations, checked against the passages."""

    text: str
    citations: tuple[Citation, ...] = ()
    refused: bool = False
    warnings: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    """What the text asserts, sentence by sentence."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the check found, for ``metadata["counts"]``."""
    degraded: tuple[str, ...] = ()
    """What fell back to something lesser while it was checked."""


class Answerer(ABC):
    """Writes the answer: sentences of the passages, or a model's."""

    @abstractmethod
    async def answer(self, request: AnswerRequest) -> Answer:
        """The whole answer.

        Raises:
            UpstreamError: The model endpoint failed.
        """

    @abstractmethod
    def stream(self, request: AnswerRequest) -> AsyncGenerator[str | Answer]:
        """The answer in pieces as they come, and last of all the answer they amount to: checked, as :meth:`answer` gives it.

        Raises:
            UpstreamError: The model endpoint failed, perhaps after some pieces.
        """

    @abstractmethod
    def prompt(self, request: AnswerRequest) -> tuple[Message, ...]:
        """What would be sent to the model; the context as one message if there is no model."""
