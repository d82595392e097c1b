"""The in-memory storages keep every promise but that of keeping."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.testing.contracts import (
    DocStatusStorageContract,
    GraphStorageContract,
    KVStorageContract,
    LexicalStorageContract,
    StoreContract,
    VectorStorageContract,
)
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)


class TestMemoryKV(KVStorageContract):
    persistent = False

    async def make(self, tmp_path: Path) -> MemoryKVStorage:
        return MemoryKVStorage()


class TestMemoryDocStatus(DocStatusStorageContract):
    persistent = False

    async def make(self, tmp_path: Path) -> MemoryDocStatusStorage:
        return MemoryDocStatusStorage()


class TestMemoryVectors(VectorStorageContract):
    persistent = False

    async def make(self, tmp_path: Path) -> MemoryVectorStorage:
        return MemoryVectorStorage()


class TestMemoryLexical(LexicalStorageContract):
    persistent = False

    async def make(self, tmp_path: Path) -> MemoryLexicalStorage:
        return MemoryLexicalStorage()


class TestMemoryGraph(GraphStorageContract):
    persistent = False

    async def make(self, tmp_path: Path) -> MemoryGraphStorage:
        return MemoryGraphStorage()


class TestMemoryStore(StoreContract):
    persistent = False

    async def make(self, tmp_path: Path) -> KnowledgeBase:
        store = MemoryStore()
        return knowledge_base(
            MemoryKVStorage(store),
            MemoryDocStatusStorage(store),
            MemoryVectorStorage(store),
            MemoryLexicalStorage(store),
            MemoryGraphStorage(store),
        )
