"""The one synchronous door: a loop of its own in one thread, so that it works in scripts, threads and notebooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.streaming import AnswerStream, StreamEvent
from easy_knowledge_retriever.types import Context, DeletionResult, IngestReport, SummaryReport

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from easy_knowledge_retriever.ingestion.reindexing import ReindexReport
    from easy_knowledge_retriever.kg.usage_report import UsageReport
    from easy_knowledge_retriever.operating.backing_up import BackupReport
    from easy_knowledge_retriever.retrieval.base import Retrieval
    from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
    from easy_knowledge_retriever.spending.estimate import Estimate

__all__ = ["SyncRetriever"]

R = TypeVar("R")


async def _next(events: AnswerStream) -> StreamEvent | None:
    return await anext(events, None)


class SyncRetriever:
    """The calls of a retriever without ``await``: ``rag.sync.query(…)``.

    The retriever is opened in the loop of this facade at the first call, and closed by :meth:`close` or ``with``. A
    retriever that was already opened in a running loop is refused: its own loop would have to wait for itself.
    """

    def __init__(self, retriever: EasyKnowledgeRetriever) -> None:
        self._retriever = retriever
        self._start = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SyncRetriever:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def ingest(self, file_path: str | Path, start_page: int | None = None, end_page: int | None = None) -> IngestReport:
        """See :meth:`EasyKnowledgeRetriever.ingest`."""
        return self._run(lambda: self._retriever.ingest(file_path, start_page, end_page))

    def insert(self, input: str | Sequence[str], **options: Any) -> str:
        """See :meth:`EasyKnowledgeRetriever.ainsert`."""
        return self._run(lambda: self._retriever.ainsert(input, **options))

    def retry(self, doc_id: str) -> IngestReport:
        """See :meth:`EasyKnowledgeRetriever.retry`."""
        return self._run(lambda: self._retriever.retry(doc_id))

    def query(
        self,
        query: str,
        param: QueryParam | None = None,
        retrieval: Retrieval | None = None,
        system_prompt: str | None = None,
    ) -> QueryResult:
        """See :meth:`EasyKnowledgeRetriever.aquery`; streams only through :meth:`stream`."""
        whole = replace(param or QueryParam(), stream=False)
        return self._run(lambda: self._retriever.aquery(query, whole, retrieval, system_prompt))

    def stream(
        self,
        query: str,
        param: QueryParam | None = None,
        retrieval: Retrieval | None = None,
        system_prompt: str | None = None,
    ) -> Generator[StreamEvent]:
        """See :meth:`EasyKnowledgeRetriever.stream`. Closing the generator ends the call of the model."""
        events = self._retriever.stream(query, param or QueryParam(), retrieval, system_prompt)
        try:
            while (event := self._run(lambda: _next(events))) is not None:
                yield event
        finally:
            if self._loop is not None:
                self._run(events.aclose)

    def query_data(self, query: str, param: QueryParam | None = None) -> dict[str, Any]:
        """See :meth:`EasyKnowledgeRetriever.aquery_data`."""
        return self._run(lambda: self._retriever.aquery_data(query, param or QueryParam()))

    def retrieve(self, query: str, retrieval: Retrieval | None = None) -> Context:
        """See :meth:`EasyKnowledgeRetriever.retrieve`."""
        return self._run(lambda: self._retriever.retrieve(query, retrieval))

    def delete_by_doc_id(self, doc_id: str) -> DeletionResult:
        """See :meth:`EasyKnowledgeRetriever.adelete_by_doc_id`."""
        return self._run(lambda: self._retriever.adelete_by_doc_id(doc_id))

    def summarize(self) -> SummaryReport:
        """See :meth:`EasyKnowledgeRetriever.summarize`."""
        return self._run(self._retriever.summarize)

    def clear_cache(self) -> None:
        """See :meth:`EasyKnowledgeRetriever.aclear_cache`."""
        self._run(self._retriever.aclear_cache)

    def estimate(self, file_paths: str | Path | Sequence[str | Path] = (), **options: Any) -> Estimate:
        """See :meth:`EasyKnowledgeRetriever.estimate`."""
        return self._run(lambda: self._retriever.estimate(file_paths, **options))

    def reindex(self) -> ReindexReport:
        """See :meth:`EasyKnowledgeRetriever.reindex`."""
        return asyncio.run_coroutine_threadsafe(self._retriever.reindex(), self._running()).result()

    def export_data(self, output_path: str | Path, file_format: str = "csv", include_vector_data: bool = False) -> Counter[str]:
        """See :meth:`EasyKnowledgeRetriever.aexport_data`."""
        return self._run(lambda: self._retriever.aexport_data(output_path, file_format, include_vector_data))

    def backup(self, path: str | Path) -> BackupReport:
        """See :meth:`EasyKnowledgeRetriever.backup`."""
        return self._run(lambda: self._retriever.backup(path))

    def usage(self) -> UsageReport:
        """See :meth:`EasyKnowledgeRetriever.usage`."""
        return self._run(self._retriever.usage)

    def close(self) -> None:
        """Closes the retriever and ends the thread. A second call does nothing."""
        with self._start:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._retriever.finalize_storages(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _run(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        async def opened() -> R:
            await self._retriever.initialize_storages()
            return await call()

        return asyncio.run_coroutine_threadsafe(opened(), self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._start:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="ekr-sync", daemon=True)
                self._thread.start()
            return self._loop
