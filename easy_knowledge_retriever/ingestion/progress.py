"""What an ingest tells while it runs, and what it writes down when it fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from easy_knowledge_retriever.errors import (
    BudgetExceeded,
    EKRError,
    EmbeddingMismatchError,
    IngestionError,
    IngestionStopped,
    ParseError,
    StorageError,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.events import (
    DocumentFailed,
    Observer,
    StageFinished,
    StageProgress,
    StageStarted,
)
from easy_knowledge_retriever.ingestion.paid_vectors import load_vectors, save_vectors
from easy_knowledge_retriever.ingestion.parses import drop_parses
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.reply_cache import put_replies
from easy_knowledge_retriever.kg.usage_ledger import add_document_usage
from easy_knowledge_retriever.operations.base import Progress
from easy_knowledge_retriever.spending.account import Account, charging
from easy_knowledge_retriever.spending.kept import KeptReplies, KeptVectors
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["Run", "now"]

logger = logging.getLogger("easy_knowledge_retriever")

_SAVED_EVERY: Final = 1.0
_TRIES: Final = 2
_CUT_OFF: Final = frozenset({DocStatus.PROCESSING, DocStatus.INTERRUPTED})
"""How the status of a document stands whose process ended."""


def now() -> str:
    """The time in UTC as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(slots=True)
class Run:
    """One ingest on its way: an async context that records in the status how it ends.

    A failure becomes *failed* with its stage and cause and is raised as ``IngestionError``; a cancellation becomes
    *interrupted* and stays one; a spending ceiling becomes *interrupted* too and is raised as ``IngestionStopped``. The
    version before keeps being served in all cases.
    """

    kb: KnowledgeBase
    observer: Observer
    record: DocRecord
    """As it stands while the ingest runs."""
    stage_name: str = "start"
    """The step that began last."""
    blamed: str = ""
    """The step that failed first."""
    recorded: bool = False
    """Whether the status may say that the ingest runs."""
    warnings: list[str] = field(default_factory=list)
    failed_chunks: list[str] = field(default_factory=list)
    refused_chunks: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    """Every model call of the ingest is put on it."""
    version: str = ""
    """What is being ingested."""
    saved: float = field(default_factory=time.perf_counter)
    """When the ledger was written last."""
    began: float = field(default_factory=time.perf_counter)
    _charging: ExitStack = field(default_factory=ExitStack)

    @property
    def name(self) -> str:
        """Name of the document."""
        return self.record.name

    @property
    def _failed_stage(self) -> str:
        return self.blamed or self.stage_name

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.perf_counter() - self.began

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Progress]:
        """A step: timed, told to the observer, and blamed if it fails. Steps may run side by side."""
        self.stage_name = name
        self.observer(StageStarted(self.name, name, total))
        began = time.perf_counter()
        try:
            yield lambda done, of: self.observer(StageProgress(self.name, name, done, of))
        except asyncio.CancelledError:  # perhaps because another step failed
            raise
        except BaseException:
            self.blamed = self.blamed or name
            raise
        seconds = time.perf_counter() - began
        self.timings[name] = self.timings.get(name, 0.0) + seconds
        self.observer(StageFinished(self.name, name, seconds))

    async def begin(self, standing: DocRecord | None, version: str) -> None:
        """Records that the ingest runs, before any work is done. What the version before says of itself stays until then."""
        asked, started = self.record, now()
        self.version = version
        died = standing is not None and standing.status in _CUT_OFF and standing.pending_version == version
        self.record = replace(
            standing or asked,
            status=DocStatus.PROCESSING,
            pending_version=version,
            attempts=1 + (standing.attempts if standing is not None and died else 0),
            stage="",
            error="",
            track_id=asked.track_id,
            created_at=standing.created_at if standing else started,
            updated_at=started,
        )
        self.recorded = True  # before it is: a cancellation may come when it just was
        given_up = standing.pending_version if standing is not None else ""
        if given_up in {"", version, self.record.version}:
            await self.kb.status.put([self.record])
        else:
            async with self.kb.transaction() as inside:
                await drop_parses(inside, self.record.id, [given_up])
                await inside.status.put([self.record])
        self.account.vectors, self.account.replies = KeptVectors(), KeptReplies(self.record.id)
        if standing is not None and standing.pending_version:
            await load_vectors(self.kb, self.record.id, self.account.vectors)

    def refuse_if_deadly(self) -> None:
        """Gives up on a document whose reading ended the process each time.

        Raises:
            ParseError: It did so twice; the next ingest after this failure begins to count anew.
        """
        if self.record.attempts > _TRIES:
            raise ParseError(
                f"parser_crashed: the process ended {_TRIES} times while {self.name!r} was read",
                code="parser_crashed",
                hint="ingest it again if it was ended for another reason",
            )

    async def survived(self) -> None:
        """Writes down that the document was read and cut, if an attempt before was not seen to come so far."""
        if self.record.attempts > 1:
            self.record = replace(self.record, attempts=0)
            await self.kb.status.put([self.record])

    async def save(self) -> None:
        """Writes down what was spent so far, and what was bought with it.

        Raises:
            StorageError: It could not be written; the next call tries again.
        """
        vectors, replies = self.account.vectors, self.account.replies
        if self.account.has_unwritten or (vectors and vectors.unsaved) or (replies and replies.unsaved):
            fresh = dict(replies.unsaved) if replies else {}
            saved: tuple[str, ...] = ()
            with self.account.writing() as unwritten:
                async with self.kb.transaction() as inside:
                    lines = unwritten()
                    if vectors is None or await self._waits(inside):
                        await add_document_usage(inside, self.record.id, self.version, lines)
                        await put_replies(inside.llm_cache, fresh)
                        saved = await save_vectors(inside, self.record.id, vectors) if vectors else ()
            if vectors:
                vectors.saved(saved)
            if replies:
                replies.saved(fresh)
        self.saved = time.perf_counter()

    async def _waits(self, kb: KnowledgeBase) -> bool:
        """Whether the version is still to come: a commit that was cancelled may have been written, with all that is here."""
        standing = (await kb.status.get([self.record.id])).get(self.record.id)
        return standing is not None and standing.pending_version == self.version

    async def save_vectors(self) -> None:
        """The same if there are vectors that were paid for.

        Raises:
            StorageError: As :meth:`save`.
        """
        if self.account.vectors and self.account.vectors.unsaved:
            await self.save()

    async def save_now_and_then(self) -> None:
        """The same if the last time is a second ago: so much a kill may take.

        Raises:
            StorageError: As :meth:`save`.
        """
        if time.perf_counter() - self.saved >= _SAVED_EVERY:
            await self.save()

    async def __aenter__(self) -> Self:
        self._charging.enter_context(charging(self.account))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._charging.close()
        try:
            await self.save()
        except StorageError as failure:
            logger.warning("what %r cost could not be written down: %s", self.name, failure)
        if isinstance(error, asyncio.CancelledError):
            await self._record(DocStatus.INTERRUPTED, "cancelled", error)
        elif isinstance(error, WorkingDirLockedError | EmbeddingMismatchError):  # says nothing of the document: raised as it is
            await self._record(DocStatus.INTERRUPTED, f"{type(error).__name__}: {error}", error)
        elif isinstance(error, Exception):
            stopped = isinstance(error, BudgetExceeded)
            message = f"{type(error).__name__}: {error}"
            await self._record(DocStatus.INTERRUPTED if stopped else DocStatus.FAILED, message, error)
            code = error.code if isinstance(error, EKRError) else "error"
            self.observer(DocumentFailed(self.name, self._failed_stage, code, message))
            cause, hint = (error.message, error.hint) if isinstance(error, EKRError) else (str(error), "")
            kind, ended = (IngestionStopped, "stopped") if stopped else (IngestionError, "failed")
            raise kind(
                f"{self.name!r} was not ingested: {self._failed_stage} {ended}: {cause}",
                document=self.name,
                stage=self._failed_stage,
                hint=hint,
                usage=self.account.usage,
                cost=self.account.cost,
            ) from error

    async def _record(self, status: DocStatus, message: str, error: BaseException) -> None:
        """Writes how the ingest ended, unless the version was committed after all."""
        if not self.recorded:
            return
        try:
            standing = (await self.kb.status.get([self.record.id])).get(self.record.id)
            if standing is not None and standing.status is DocStatus.PROCESSING:
                ended = replace(standing, status=status, attempts=0, stage=self._failed_stage, error=message, updated_at=now())
                await self.kb.status.put([ended])
        except StorageError as second:
            error.add_note(f"the status could not be recorded either: {second}")
