"""Storages without a store, to stand beside one that has it: each write is a step of its own, and one of them may fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.testing.memory import MemoryGraphStorage, MemoryStore, MemoryVectorStorage, Tables


class Server:
    """What lies outside: it outlives the base, as a server does."""

    def __init__(self) -> None:
        self.rows = MemoryStore()
        self.writes = 0
        self.flushes = 0
        self.before_write: Callable[[int], None] = lambda number: None
        """Told the number of each write before it is done."""

    def wrote(self) -> None:
        """Counts a write that is about to be done."""
        self.writes += 1
        self.before_write(self.writes)


class _Outside:
    """Mixed into a storage in memory: it shows nobody its store."""

    store = None
    server: Server

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Tables]:
        self.server.wrote()
        async with super()._writing() as tables:  # type: ignore[misc]
            yield tables
        await asyncio.sleep(0)

    async def flush(self) -> None:
        self.server.flushes += 1


class OutsideVectors(_Outside, MemoryVectorStorage):  # type: ignore[misc]
    """Vectors on a server."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.rows)
        self.server = server


class OutsideGraph(_Outside, MemoryGraphStorage):  # type: ignore[misc]
    """A graph on a server."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.rows)
        self.server = server


def mixed_base(folder: Path, server: Server) -> KnowledgeBase:
    """Values, status and BM25 in SQLite, vectors and graph on a server. Not open."""
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        OutsideVectors(server),
        SqliteLexicalStorage(folder),
        OutsideGraph(server),
    )
