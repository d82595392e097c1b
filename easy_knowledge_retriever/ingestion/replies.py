"""The replies of a model about the chunks of one document, durable before they are used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from easy_knowledge_retriever.aio import Grouped
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, staged_key
from easy_knowledge_retriever.types import Chunk, Document, Transcript

__all__ = ["StagedReplies"]


async def _nothing() -> None:
    """Nothing is to be done beside."""


class StagedReplies:
    """Keeps transcripts in the base until the version they belong to is committed.

    While one write runs, the replies that come are collected for the next, so that many cost few commits.

    Args:
        kb: The base.
        document: The document; its chunks alone are kept here.
        transcripts: What an earlier attempt kept, by chunk id.
        beside: Awaited after each write.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        document: Document,
        transcripts: Mapping[str, Transcript],
        beside: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._kb = kb
        self._beside = beside
        self._empty = Transcript(document.id)
        self._transcripts = dict(transcripts)
        self._writes = Grouped(self._write)

    @classmethod
    async def open(
        cls,
        kb: KnowledgeBase,
        document: Document,
        chunks: Sequence[Chunk],
        beside: Callable[[], Awaitable[None]] = _nothing,
    ) -> StagedReplies:
        """With what earlier attempts kept of these chunks."""
        keys = {staged_key(document.id, chunk.id): chunk.id for chunk in chunks}
        found = await kb.staged.get_many(list(keys))
        return cls(kb, document, {keys[key]: transcript for key, transcript in found.items()}, beside)

    def of(self, chunk: Chunk) -> Transcript:
        """What the model answered about a chunk so far."""
        return self._transcripts.get(chunk.id, self._empty)

    async def keep(self, chunk: Chunk, transcript: Transcript) -> None:
        """Keeps what it answered by now. Returns when that is durable.

        Raises:
            StorageError: It could not be written.
        """
        failpoint("extraction-paid")
        await self._writes.put(staged_key(transcript.document_id, chunk.id), transcript)
        self._transcripts[chunk.id] = transcript
        failpoint("extraction-durable")

    async def drain(self) -> None:
        """Writes replies whose tasks were cancelled before they were durable."""
        await self._writes.drain()

    async def _write(self, rows: Mapping[str, Transcript]) -> None:
        await self._kb.staged.put_many(rows)
        if self._kb.staged.storage.store is None:  # a backend without transactions makes nothing durable by itself
            await self._kb.staged.storage.flush()
        await self._beside()
