"""Replies of language models that are given again: a saving only, capped, and gone with the document they are about.

A reply about a document is kept under the document, so that a deletion finds it; one to a question is kept by itself. The row
``size`` counts what is there, so that nobody has to look at all of it to know when the oldest must go. It may be a little off
after a kill or a deletion: when it passes the cap everything is counted again.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage
from easy_knowledge_retriever.spending.account import account_in_force
from easy_knowledge_retriever.spending.kept import KeptReplies

__all__ = ["CacheSize", "ReplyCache", "cache_size", "drop_replies", "owners_of_replies", "put_replies", "trim_replies"]

_SIZE: Final = "size"
_ROW: Final = 100
"""Bytes a row takes besides its text."""
_TRIMMED_TO: Final = 0.8
"""Share of the cap that is left after the oldest went: the next time comes only after a fifth of it is new."""
_AT_ONCE: Final = 1000
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class CacheSize:
    """How much is kept."""

    replies: int
    bytes: int


class ReplyCache:
    """The cache as a language model's wrapper sees it. What is said about a document waits in memory for its next commit.

    Args:
        storage: Keeps the replies.
        max_mb: Their cap; None is none.
    """

    def __init__(self, storage: KVStorage, max_mb: float | None = None) -> None:
        self._storage = storage
        self._max_mb = max_mb

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The replies that are kept."""
        about = _about()
        if about is None:
            return await self._storage.get_many(keys)
        ours = {about.key(key): key for key in keys}
        found: dict[str, Mapping[str, Any]] = {key: about.unsaved[key] for key in ours if key in about.unsaved}
        found |= await self._storage.get_many([key for key in ours if key not in found])
        about.used.update(found)
        return {ours[key]: row for key, row in found.items()}

    async def put_many(self, values: Mapping[str, Mapping[str, str | int]]) -> None:
        """Keeps replies."""
        about = _about()
        if about is not None:
            about.keep(values)
            return
        await put_replies(self._storage, values)
        await trim_replies(self._storage, self._max_mb)


def _about() -> KeptReplies | None:
    account = account_in_force()
    return account.replies if account is not None else None


async def put_replies(storage: KVStorage, rows: Mapping[str, Mapping[str, str | int]]) -> None:
    """Writes replies, and that there are more."""
    if rows:
        added = CacheSize(len(rows), sum(_bytes(key, row) for key, row in rows.items()))
        size = await _counted(storage)
        total = {"replies": size.replies + added.replies, "bytes": size.bytes + added.bytes}
        await storage.put_many({**rows, _SIZE: total})


async def drop_replies(storage: KVStorage, about: KeptReplies, *, unused_only: bool = False) -> None:
    """Forgets the replies about a document, or those of them that its last ingest did not ask for."""
    keys = [key async for key, _ in storage.scan(about.key("")) if not (unused_only and key in about.used)]
    await storage.delete_many(keys)


async def trim_replies(storage: KVStorage, max_mb: float | None) -> None:
    """Throws away the oldest replies, if there are more than the cap allows."""
    cap = None if max_mb is None else max_mb * _MEGABYTE
    if cap is None or (await _counted(storage)).bytes <= cap:
        return
    rows = [(_age(row), key, _bytes(key, row)) async for key, row in storage.scan() if key != _SIZE]
    total, gone = sum(size for _, _, size in rows), []
    if total > cap:
        heapq.heapify(rows)
        while rows and total > cap * _TRIMMED_TO:
            _, key, size = heapq.heappop(rows)
            total -= size
            gone.append(key)
    for at in range(0, len(gone), _AT_ONCE):
        await storage.delete_many(gone[at : at + _AT_ONCE])
    await storage.put_many({_SIZE: {"replies": len(rows), "bytes": total}})


async def cache_size(storage: KVStorage) -> CacheSize:
    """How much is kept, counted."""
    sizes = [_bytes(key, row) async for key, row in storage.scan() if key != _SIZE]
    return CacheSize(len(sizes), sum(sizes))


async def owners_of_replies(storage: KVStorage) -> set[str]:
    """The owners of all replies about documents."""
    return {key.partition("/")[0] async for key, _ in storage.scan() if "/" in key}


async def _counted(storage: KVStorage) -> CacheSize:
    row: Mapping[str, Any] = (await storage.get_many([_SIZE])).get(_SIZE, {})
    return CacheSize(row.get("replies", 0), row.get("bytes", 0))


def _bytes(key: str, row: JsonObject) -> int:
    return _ROW + len(key) + len(str(row.get("text", "")).encode(errors="replace"))


def _age(row: JsonObject) -> int:
    at = row.get("at")
    return at if isinstance(at, int) else 0
