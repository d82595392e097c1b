"""Chunks read by a model side by side: what is asked next, what follows from a failure, and no reply lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import (
    BadResponse,
    ContentRefused,
    ContextTooLong,
    EKRError,
    LimitExceeded,
    RateLimited,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.llm.base import Completion, Message
from easy_knowledge_retriever.llm.flight import Flight, flight
from easy_knowledge_retriever.operations.base import Progress, Transcripts
from easy_knowledge_retriever.operations.extraction_replay import middle_of
from easy_knowledge_retriever.types import Chunk, Reply, Transcript

__all__ = ["Asking", "ChunkOutcome", "Question", "Remembered", "Rounds"]

_OUTAGE: Final = 3
"""So many requests failing one after the other, each after all its retries and none answered between, are no accident."""
_ABOUT_THE_CHUNK: Final = (BadResponse, ContentRefused, ContextTooLong)
_ABOUT_THE_ENDPOINT: Final = (RateLimited, UpstreamUnavailable, UpstreamTimeout)


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask next about a chunk."""

    part: int
    """The part of the transcript that the reply belongs to."""
    messages: tuple[Message, ...]


Asking = Callable[[Chunk, Transcript, Set[int]], Question | None]
"""The next question about a chunk after these replies, when some parts are given up; None if there is none."""


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """How the reading of one chunk ended."""

    chunk: Chunk
    transcript: Transcript
    error: UpstreamError | None = None
    """Why it, or a half of it, was not read: then the other half is not asked about either."""
    given_up: bool = False
    """Whether a further round failed; what the rounds before it gave stays."""


class Remembered:
    """Transcripts that are kept for one call only.

    Args:
        document_id: The document.
    """

    def __init__(self, document_id: str) -> None:
        self._empty = Transcript(document_id)
        self._transcripts: dict[str, Transcript] = {}

    def of(self, chunk: Chunk) -> Transcript:
        """What the model answered about a chunk so far."""
        return self._transcripts.get(chunk.id, self._empty)

    async def keep(self, chunk: Chunk, transcript: Transcript) -> None:
        """Remembers what it answered by now."""
        self._transcripts[chunk.id] = transcript


class Rounds:
    """Asks about the chunks of one document until nothing is left to ask.

    Args:
        complete: Asks the model.
        asking: Says what to ask.
        transcripts: Keeps each reply before it is used.
    """

    def __init__(
        self, complete: Callable[[Sequence[Message]], Awaitable[Completion]], asking: Asking, transcripts: Transcripts
    ) -> None:
        self._complete = complete
        self._asking = asking
        self._transcripts = transcripts
        self._over: EKRError | None = None
        """Why there is no use in asking on."""
        self._failures = 0
        self._flights: dict[asyncio.Task[None], Flight] = {}
        self._outcomes: dict[str, ChunkOutcome] = {}

    async def read(self, chunks: Sequence[Chunk], at_once: int, progress: Progress) -> list[ChunkOutcome]:
        """How each chunk ended, in order.

        When there is no use in going on, nothing more is asked; what was sent is waited for and its replies are kept.

        Args:
            chunks: What to read.
            at_once: How many side by side.
            progress: Is told how many are done.

        Raises:
            UpstreamError: The endpoint is down, or refuses the key.
            LimitExceeded: The next call would pass a ceiling.
        """
        waiting = iter(chunks)
        async with task_group() as group:
            for _ in range(min(at_once, len(chunks))):
                group.create_task(self._work(waiting, len(chunks), progress))
        outcomes = [self._outcomes[chunk.id] for chunk in chunks if chunk.id in self._outcomes]
        if self._over is not None:
            raise self._over
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        # One chunk alone shows no outage if the model did answer, though nothing of use.
        if errors and len(errors) == len(outcomes) and (len(errors) > 1 or not isinstance(errors[0], _ABOUT_THE_CHUNK)):
            raise errors[0]
        return outcomes

    async def _work(self, waiting: Iterator[Chunk], total: int, progress: Progress) -> None:
        """Reads one chunk after the other."""
        for chunk in waiting:
            try:
                outcome = await self._read(chunk)
            except (UpstreamAuth, LimitExceeded) as error:
                self._stop(error)
                return
            if self._over is not None:
                return
            self._outcomes[chunk.id] = outcome
            progress(len(self._outcomes), total)

    def _stop(self, error: EKRError) -> None:
        """Asks nothing more: what still waits for its turn is taken back, what was sent is paid for and may arrive."""
        if self._over is None:
            self._over = error
            for task, request in self._flights.items():
                if not request.sent:
                    task.cancel()

    async def _read(self, chunk: Chunk) -> ChunkOutcome:
        transcript = self._transcripts.of(chunk)
        given_up: set[int] = set()
        while self._over is None and (question := self._next(chunk, transcript, given_up)) is not None:
            try:
                failpoint("extract-before-call")
                transcript = await self._ask(chunk, transcript, question)
            except UpstreamAuth:
                raise
            except UpstreamError as error:
                if isinstance(error, ContextTooLong) and _can_be_halved(chunk, transcript):
                    transcript = replace(transcript, parts=((), ()))
                    continue
                self._note(error)
                if not transcript.parts[question.part]:
                    return ChunkOutcome(chunk, transcript, error)
                given_up.add(question.part)
                continue
            self._failures = 0
        return ChunkOutcome(chunk, transcript, given_up=bool(given_up))

    def _next(self, chunk: Chunk, transcript: Transcript, given_up: Set[int]) -> Question | None:
        return None if transcript.complete else self._asking(chunk, transcript, given_up)

    def _extended(self, chunk: Chunk, transcript: Transcript, part: int, completion: Completion) -> Transcript:
        """The transcript with a reply, complete if that was the last one."""
        text = completion.text.encode("utf-8", "replace").decode()  # no store keeps half a surrogate pair
        reply = Reply(text, completion.finish_reason == "length")
        parts = tuple((*replies, reply) if at == part else replies for at, replies in enumerate(transcript.parts))
        longer = replace(transcript, parts=parts)
        return replace(longer, complete=self._asking(chunk, longer, frozenset()) is None)

    async def _ask(self, chunk: Chunk, transcript: Transcript, question: Question) -> Transcript:
        """The transcript with the answer to a question, which is kept."""
        longer = transcript

        async def keep(completion: Completion) -> None:
            nonlocal longer
            longer = self._extended(chunk, transcript, question.part, completion)
            await self._transcripts.keep(chunk, longer)

        task = asyncio.current_task()
        with flight(keep) as request:
            if task is not None:
                self._flights[task] = request
            try:
                completion = await self._complete(question.messages)
            finally:
                if task is not None:
                    del self._flights[task]
        if not request.landed:
            await keep(completion)
        return longer

    def _note(self, error: UpstreamError) -> None:
        """Counts failures of the endpoint; many in a row end the reading, so that it can be taken up again later."""
        if isinstance(error, _ABOUT_THE_ENDPOINT):
            self._failures += 1
            if self._failures >= _OUTAGE:
                self._stop(error)


def _can_be_halved(chunk: Chunk, transcript: Transcript) -> bool:
    return transcript.is_empty and len(transcript.parts) == 1 and middle_of(chunk.text) > 0
