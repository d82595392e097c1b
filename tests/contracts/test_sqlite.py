"""The SQLite storages keep every promise."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.testing.contracts import (
    DocStatusStorageContract,
    GraphStorageContract,
    KVStorageContract,
    LexicalStorageContract,
    StoreContract,
    VectorStorageContract,
)


class TestSqliteKV(KVStorageContract):
    async def make(self, tmp_path: Path) -> SqliteKVStorage:
        return SqliteKVStorage(tmp_path)


class TestSqliteDocStatus(DocStatusStorageContract):
    async def make(self, tmp_path: Path) -> SqliteDocStatusStorage:
        return SqliteDocStatusStorage(tmp_path)


class TestSqliteVectors(VectorStorageContract):
    async def make(self, tmp_path: Path) -> SqliteVectorStorage:
        return SqliteVectorStorage(tmp_path)


class TestSqliteLexical(LexicalStorageContract):
    async def make(self, tmp_path: Path) -> SqliteLexicalStorage:
        return SqliteLexicalStorage(tmp_path)


class TestSqliteGraph(GraphStorageContract):
    async def make(self, tmp_path: Path) -> SqliteGraphStorage:
        return SqliteGraphStorage(tmp_path)


class TestSqliteStore(StoreContract):
    async def make(self, tmp_path: Path) -> KnowledgeBase:
        return knowledge_base(
            SqliteKVStorage(tmp_path),
            SqliteDocStatusStorage(tmp_path),
            SqliteVectorStorage(tmp_path),
            SqliteLexicalStorage(tmp_path),
            SqliteGraphStorage(tmp_path),
        )
