"""What a base says, as a file for people and for other programs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.events import BaseProgress, Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.drafts import draft
from easy_knowledge_retriever.operating.exporting import export_base
from easy_knowledge_retriever.operating.table_formats import FORMATS, TableWriter
from easy_knowledge_retriever.operating.tables import Record, records_of

__all__ = ["DATA_FORMATS", "export_data"]

DATA_FORMATS: Final = (*FORMATS, "jsonl")
_AT_ONCE: Final = 500


async def export_data(
    kb: KnowledgeBase, path: Path, file_format: str = "csv", *, vectors: bool = False, observer: Observer = ignore
) -> Counter[str]:
    """Writes entities, relations and chunks to a file; the work grows with their number, and memory does not.

    Args:
        kb: An open base.
        path: The file; one that is there is replaced when the new one is whole.
        file_format: One of :data:`DATA_FORMATS`. ``jsonl`` is the whole base, with every vector, which can be imported again.
        vectors: Whether the vectors are written too.
        observer: Told how far it is.

    Returns:
        How many rows of each kind there are.

    Raises:
        ConfigError: There is no such format, or the package for it is not installed.
        LimitExceeded: There are more rows than the format holds.
        StorageError: The base cannot be read, or the file not be written.
    """
    if file_format == "jsonl":
        return await export_base(kb, path, observer)
    if file_format not in FORMATS:
        raise ConfigError(f"there is no format {file_format!r}", hint=f"one of {', '.join(DATA_FORMATS)}")
    try:
        async with draft(path) as unfinished:
            writer = await asyncio.to_thread(lambda: FORMATS[file_format](unfinished, vectors=vectors))
            try:
                seen = await _written(kb, writer, vectors=vectors, observer=observer)
            finally:
                await asyncio.to_thread(writer.close)
    except OSError as failure:
        raise StorageError(f"{str(path)!r} was not written: {failure}", hint="is there room, and may it be written?") from failure
    return seen


async def _written(kb: KnowledgeBase, writer: TableWriter, *, vectors: bool, observer: Observer) -> Counter[str]:
    seen = Counter[str]()
    async with kb.snapshot() as view, aclosing(_parts(records_of(view, vectors=vectors))) as parts:
        async for part in parts:
            await asyncio.to_thread(writer.write, part)
            seen.update(str(record["kind"]) for record in part)
            observer(BaseProgress("export", str(part[-1]["kind"]), seen.total()))
    return seen


async def _parts(records: AsyncGenerator[Record]) -> AsyncGenerator[list[Record]]:
    part: list[Record] = []
    async with aclosing(records):
        async for record in records:
            part.append(record)
            if len(part) == _AT_ONCE:
                yield part
                part = []
    if part:
        yield part
