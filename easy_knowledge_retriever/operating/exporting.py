"""A whole base as a file of lines of JSON: every row of every role, nothing lost, for any storage to read again.

The first line says what it is, the last one how many rows there are and the SHA-256 of all that stands before it. A row is
``[role, key, value]``; a vector is base64 of 32-bit floats, the lowest byte first. Equal bases give equal files.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import IO, Final

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.events import BaseProgress, Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.drafts import draft
from easy_knowledge_retriever.operating.rows import rows_of

__all__ = ["FORMAT", "VERSION", "export_base", "write_rows"]

FORMAT: Final = "easy-knowledge-retriever base"
VERSION: Final = 1
_BYTES: Final = 1_000_000
"""Are written at once."""


async def export_base(kb: KnowledgeBase, path: Path, observer: Observer = ignore) -> Counter[str]:
    """Writes a base to a file as it is at this moment, whatever is ingested meanwhile. Memory does not grow with its size.

    The file is there when it is whole, and not before.

    Args:
        kb: An open base.
        path: The file; one that is there is replaced.
        observer: Told how far it is.

    Returns:
        How many rows of each role there are.

    Raises:
        StorageError: The base cannot be read, or the file not be written.
    """
    async with draft(path) as unfinished:
        try:
            with unfinished.open("wb") as file:
                return await write_rows(kb, file, observer)
        except OSError as failure:
            raise StorageError(
                f"{str(path)!r} was not written: {failure}", hint="is there room, and may it be written?"
            ) from failure


async def write_rows(kb: KnowledgeBase, file: IO[bytes], observer: Observer = ignore) -> Counter[str]:
    """Writes a base to an open file; see :func:`export_base`."""
    seen, sha = Counter[str](), hashlib.sha256()
    waiting = bytearray(_line({"format": FORMAT, "version": VERSION}))

    async def write_out() -> None:
        sha.update(waiting)
        await asyncio.to_thread(file.write, bytes(waiting))
        waiting.clear()

    async with kb.snapshot() as view, aclosing(rows_of(view)) as rows:
        async for row in rows:
            waiting += row.line
            seen[row.role] += 1
            if len(waiting) >= _BYTES:
                await write_out()
                observer(BaseProgress("export", row.role, seen.total()))
    await write_out()
    waiting += _line({"rows": dict(seen), "sha256": sha.hexdigest()})
    await write_out()
    observer(BaseProgress("export", "status", seen.total()))
    return seen


def _line(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
