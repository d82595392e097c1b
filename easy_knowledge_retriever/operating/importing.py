"""A file that :mod:`exporting` wrote, into a new base of any storage."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import IO, Any, Final

from easy_knowledge_retriever.errors import NotFound, StorageError, StoreCorruptError, StoreVersionError
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.exporting import FORMAT, VERSION
from easy_knowledge_retriever.operating.filling import fill
from easy_knowledge_retriever.operating.rows import Row

__all__ = ["import_base"]

_BYTES: Final = 1_000_000
"""Are read at once, and the rest of the last line."""
_LONGEST: Final = 512 * 1024 * 1024
"""Bytes of a line: far more than any document, less than would fill the memory."""


async def import_base(kb: KnowledgeBase, path: Path, observer: Observer = ignore) -> int:
    """Reads an exported base into an empty one. Memory does not grow with its size.

    The file is checked whole before anything is written. What is interrupted is no base until the same import was run again,
    which goes on where it stopped.

    Args:
        kb: Open, and empty or half imported.
        path: The file.
        observer: Told how far it is.

    Returns:
        How many rows there are.

    Raises:
        NotFound: There is no such file.
        ConfigError: The base is not empty.
        StoreCorruptError: The file is none that was exported, or not as it was written.
        StoreVersionError: A newer version of this library wrote it.
        StorageError: The base cannot be written.
    """
    try:
        rows = await asyncio.to_thread(_checked, path)
    except FileNotFoundError as failure:
        raise NotFound(f"there is no file {str(path)!r}") from failure
    except OSError as failure:
        raise StorageError(f"{str(path)!r} cannot be read: {failure}") from failure
    return await fill(kb, lambda: _rows(path, rows), "import", observer)


def _checked(path: Path) -> int:
    """The number of rows of a file that is as it was written."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        _check_format(path, file.readline(_LONGEST))
        file.seek(0)
        last, number = b"", 0
        for line in _lines(file, path):
            sha.update(last)
            last, number = line, number + 1
    try:
        end = json.loads(last)
        rows = sum(end["rows"].values())
        whole = end["sha256"] == sha.hexdigest() and rows == number - 2
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise StoreCorruptError(f"{str(path)!r} is cut off or was changed", hint="export it again; nothing was written")
    return number - 2


def _check_format(path: Path, line: bytes) -> None:
    try:
        head: Any = json.loads(line)
        ours, version = head["format"] == FORMAT, head["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        ours, version = False, 0
    if not ours or not isinstance(version, int):
        raise StoreCorruptError(
            f"{str(path)!r} is no exported base", hint="'ekr export base.jsonl' writes one; 'ekr ingest' reads documents"
        )
    if version > VERSION:
        raise StoreVersionError(
            f"{str(path)!r} has format {version}, this library knows up to {VERSION}",
            hint="upgrade easy-knowledge-retriever; nothing was written",
        )


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise StoreCorruptError(f"{str(path)!r} has a line of more than {_LONGEST} bytes", hint="nothing was written")
        yield line


async def _rows(path: Path, count: int) -> AsyncGenerator[Row]:
    with path.open("rb") as file:
        await asyncio.to_thread(file.readline)
        while count and (part := await asyncio.to_thread(file.readlines, _BYTES)):
            for line in part[:count]:
                yield _row(path, line)
            count -= min(count, len(part))


def _row(path: Path, line: bytes) -> Row:
    try:
        role, key, value = json.loads(line)
    except (ValueError, TypeError, RecursionError) as failure:
        raise StoreCorruptError(f"{str(path)!r} has a line that is no row: {failure}", hint="export it again") from failure
    if not (isinstance(role, str) and isinstance(key, str) and isinstance(value, dict)):
        raise StoreCorruptError(f"{str(path)!r} has a line that is no row", hint="export it again")
    return Row(role, key, value)
