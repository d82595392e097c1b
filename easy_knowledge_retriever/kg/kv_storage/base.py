"""Ports of key-value storage and of document status."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from easy_knowledge_retriever.kg.base import JsonObject, Storage
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["DocStatusStorage", "KVStorage", "end_of_prefix"]


class KVStorage(Storage):
    """JSON objects under string keys. Values come out equal to what went in, and never share state with it."""

    @abstractmethod
    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        """The values that exist, by key."""

    @abstractmethod
    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        """Writes or overwrites."""

    @abstractmethod
    async def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes what exists of them."""

    @abstractmethod
    def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        """All keys that begin with ``prefix``, in order of their code points, with their values."""


class DocStatusStorage(Storage):
    """Where each document stands. The record names the live version, so it is written last."""

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        """The records that exist, by document id."""

    @abstractmethod
    async def put(self, records: Iterable[DocRecord]) -> None:
        """Writes or overwrites."""

    @abstractmethod
    async def delete(self, ids: Sequence[str]) -> None:
        """Deletes what exists of them."""

    @abstractmethod
    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        """All records of this status, in order of name and id."""

    @abstractmethod
    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        """``limit`` records from ``offset`` on (all if None), in order of name and id."""


def end_of_prefix(prefix: str) -> str | None:
    """The first text after all that begin with a prefix, in order of code points; None if there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1]) + 1
        if last <= sys.maxunicode:
            return prefix[: length - 1] + chr(0xE000 if 0xD800 <= last < 0xE000 else last)  # surrogates are no characters
    return None
