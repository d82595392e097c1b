"""Filling an empty base with rows from elsewhere: in parts, so that it may be killed and begun again, and never taken for whole.

While a base is being filled, a row of its store says how far it has come and what was written until then, as a digest. The row
is committed with the rows it speaks of and goes with the last of them. Who opens a base that has it is told so.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from easy_knowledge_retriever.errors import ConfigError, StoreCorruptError
from easy_knowledge_retriever.events import BaseProgress, Observer
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.clearing import drop_all
from easy_knowledge_retriever.operating.rows import Row, put_rows, rows_of

__all__ = ["Rows", "fill", "refuse_unfinished"]

UNFINISHED: Final = "unfinished"
"""Key of the row, in the namespace that is about the store."""
_ROWS, _BYTES = 500, 4_000_000
"""One transaction writes so much at most, but always a row."""

Rows = Callable[[], AsyncGenerator[Row]]
"""Gives the rows, from the first one on, each time it is called."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far a base was filled."""

    rows: int = 0
    digest: str = ""
    """Of all of them, each part hashed together with the digest before it."""

    def after(self, part: list[Row]) -> _Standing:
        sha = hashlib.sha256(self.digest.encode())
        for row in part:
            sha.update(row.line)
        return _Standing(self.rows + len(part), sha.hexdigest())


async def refuse_unfinished(kb: KnowledgeBase) -> None:
    """Keeps half a base from being taken for a whole one.

    Raises:
        StoreCorruptError: It was being filled when that was interrupted.
    """
    standing = await _standing(kb)
    if standing is not None:
        raise StoreCorruptError(
            f"only {standing.rows} rows of this base were written when an import or a migration was interrupted",
            hint="run the same import or migration again, which goes on where it stopped",
        )


async def fill(target: KnowledgeBase, rows: Rows, step: str, observer: Observer) -> int:
    """Writes rows into an empty base, or goes on with one that was being filled with the same.

    If the rows are no longer those of the first time, it begins anew.

    Args:
        target: Open, and empty or being filled.
        rows: Gives the rows.
        step: What the progress is called.
        observer: Told after each part.

    Returns:
        How many rows there are.

    Raises:
        ConfigError: The base is not empty.
        StoreCorruptError: A row is none of a base.
    """
    before = await _standing(target)
    if before is None:
        await _require_empty(target)
        return await _write(target, rows, _Standing(), step, observer)
    if not await _still_the_same(rows, before):
        await drop_all(target)
        before = _Standing()
    return await _write(target, rows, before, step, observer)


async def _still_the_same(rows: Rows, before: _Standing) -> bool:
    now = _Standing()
    async with aclosing(_parts(rows())) as parts:
        async for part in parts:
            if now.rows >= before.rows:
                break
            now = now.after(part)
    return now == before


async def _write(target: KnowledgeBase, rows: Rows, before: _Standing, step: str, observer: Observer) -> int:
    now, seen = before, 0
    async with aclosing(_parts(rows())) as parts:
        async for part in parts:
            seen += len(part)
            if seen <= before.rows:
                continue
            now = now.after(part)
            async with target.transaction() as inside:
                await inside.vector_index.put_many({UNFINISHED: {"rows": now.rows, "digest": now.digest}})
                await put_rows(inside, part)
            observer(BaseProgress(step, part[-1].role, now.rows))
    async with target.transaction() as inside:
        await inside.vector_index.delete_many([UNFINISHED])
    await target.flush()
    return now.rows


async def _parts(rows: AsyncGenerator[Row]) -> AsyncGenerator[list[Row]]:
    part: list[Row] = []
    size = 0
    async with aclosing(rows):
        async for row in rows:
            if part and (len(part) == _ROWS or size >= _BYTES):
                yield part
                part, size = [], 0
            part.append(row)
            size += len(row.line)
        if part:
            yield part


async def _standing(kb: KnowledgeBase) -> _Standing | None:
    row: Any = (await kb.vector_index.get_many([UNFINISHED])).get(UNFINISHED)
    return None if row is None else _Standing(row["rows"], row["digest"])


async def _require_empty(kb: KnowledgeBase) -> None:
    async with kb.snapshot() as seen, aclosing(_parts(rows_of(seen))) as parts:
        async for _ in parts:
            raise ConfigError("the base to be filled holds something already", hint="name an empty folder or workspace")
