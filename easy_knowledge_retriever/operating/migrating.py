"""Moving a base to other storages: any to any, through the ports."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import numpy as np

from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.events import BaseProgress, Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.filling import fill
from easy_knowledge_retriever.operating.rows import VECTORS, Row, rows_of

__all__ = ["migrate_base"]

_SAME: Final = 0.999
"""Cosine from which a vector is the one that was written: a storage may keep it in another precision."""
_EVERY: Final = 5000


async def migrate_base(source: KnowledgeBase, target: KnowledgeBase, observer: Observer = ignore) -> int:
    """Copies a base as it is at this moment, and compares row by row what came of it. The source is only read.

    What is interrupted is no base until the same migration was run again, which goes on where it stopped.

    Args:
        source: An open base.
        target: Open, and empty or half filled by an earlier run.
        observer: Told how far it is.

    Returns:
        How many rows there are.

    Raises:
        ConfigError: The target is not empty.
        StoreCorruptError: What is read back from the target is not what was written.
        StorageError: A storage failed.
    """
    async with source.snapshot() as view:
        count = await fill(target, lambda: rows_of(view), "migrate", observer)
        async with target.snapshot() as written:
            await _compare(view, written, observer)
    return count


async def _compare(view: KnowledgeBase, written: KnowledgeBase, observer: Observer) -> None:
    seen = 0
    async with aclosing(rows_of(view)) as wanted, aclosing(rows_of(written)) as found:
        while (row := await _next(wanted)) is not None:
            other = await _next(found)
            if other is None or not _same(row, other):
                raise _different(row, other)
            seen += 1
            if seen % _EVERY == 0:
                observer(BaseProgress("compare", row.role, seen))
        if (more := await _next(found)) is not None:
            raise _different(None, more)
    if sorted(await view.lexical.ids()) != sorted(await written.lexical.ids()):
        raise StoreCorruptError("the two bases have postings of different chunks", hint="does the source pass 'ekr verify'?")
    observer(BaseProgress("compare", "status", seen))


async def _next(rows: AsyncGenerator[Row]) -> Row | None:
    return await anext(rows, None)


def _same(row: Row, other: Row) -> bool:
    if (row.role, row.key) != (other.role, other.key):
        return False
    if row.role in VECTORS:
        one, two = _vector(row.value), _vector(other.value)
        return one.shape == two.shape and float(one @ two) >= _SAME * float(np.linalg.norm(one) * np.linalg.norm(two))
    return row.line == other.line


def _vector(value: Any) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.frombuffer(base64.b64decode(value["vector"]), "<f4")


def _different(row: Row | None, other: Row | None) -> StoreCorruptError:
    wanted, found = (f"{one.role} {one.key!r}" if one else "nothing" for one in (row, other))
    return StoreCorruptError(
        f"the new base is not as the one it was made of: {wanted} is wanted, {found} is there",
        hint="drop the new one and migrate again; the source is untouched",
    )
