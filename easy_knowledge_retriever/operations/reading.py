"""Chunks read one after the other by an extractor that needs no model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from easy_knowledge_retriever.operations.base import ExtractionOutcome, Progress
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.types import Chunk, Document, Extraction

__all__ = ["ChunkReader", "language_of", "read_chunks"]

_BATCH: Final = 100
"""Chunks read between two signs of life."""
_AT_ONCE: Final = 8
"""So few chunks are read faster than a thread takes over: some 20 ms at most."""
_SHORT: Final = 50_000
"""Characters of a document that is looked through as fast."""


language_of = functools.lru_cache(maxsize=16)(guess_language)
"""The language of a text; a document is looked at by several steps, one after the other."""


class ChunkReader(Protocol):
    """Reads the chunks of one document."""

    def read(self, chunk: Chunk) -> Extraction:
        """What the chunk says."""
        ...


async def read_chunks(
    reader_of: Callable[[Document], ChunkReader], document: Document, chunks: Sequence[Chunk], progress: Progress
) -> ExtractionOutcome:
    """What each chunk says, where it says something. Long documents are read in a thread.

    Args:
        reader_of: Looks through the document as a whole and gives the reader of its chunks.
        document: Whose chunks these are.
        chunks: What to read.
        progress: Called with (done, total).
    """
    if len(chunks) <= _AT_ONCE and len(document.text) <= _SHORT:
        found = _read(reader_of(document), chunks)
        progress(len(chunks), len(chunks))
        return ExtractionOutcome(tuple(found))
    reader = await asyncio.to_thread(reader_of, document)
    found = []
    for at in range(0, len(chunks), _BATCH):
        found += await asyncio.to_thread(_read, reader, chunks[at : at + _BATCH])
        progress(min(at + _BATCH, len(chunks)), len(chunks))
    return ExtractionOutcome(tuple(found))


def _read(reader: ChunkReader, chunks: Sequence[Chunk]) -> list[Extraction]:
    return [extraction for chunk in chunks if (extraction := reader.read(chunk)).entities]
