"""The PostgreSQL storages keep every promise."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.testing.contracts import (
    DocStatusStorageContract,
    GraphStorageContract,
    KVStorageContract,
    LexicalStorageContract,
    StoreContract,
    VectorStorageContract,
)
from tests.support.postgres import on_postgres


class TestPGKV(KVStorageContract):
    async def make(self, tmp_path: Path) -> PGKVStorage:
        return PGKVStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGDocStatus(DocStatusStorageContract):
    async def make(self, tmp_path: Path) -> PGDocStatusStorage:
        return PGDocStatusStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGVectors(VectorStorageContract):
    async def make(self, tmp_path: Path) -> PGVectorStorage:
        return PGVectorStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGVectorsByIndex(VectorStorageContract):
    """With an index over the few rows there are: what it finds is compared exactly, so nothing is lost."""

    async def make(self, tmp_path: Path) -> PGVectorStorage:
        return PGVectorStorage(index_from=1, **await on_postgres(tmp_path, "contracts"))


class TestPGLexical(LexicalStorageContract):
    async def make(self, tmp_path: Path) -> PGLexicalStorage:
        return PGLexicalStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGGraph(GraphStorageContract):
    async def make(self, tmp_path: Path) -> PGGraphStorage:
        return PGGraphStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGStore(StoreContract):
    async def make(self, tmp_path: Path) -> KnowledgeBase:
        options = await on_postgres(tmp_path, "contracts")
        return knowledge_base(
            PGKVStorage(**options),
            PGDocStatusStorage(**options),
            PGVectorStorage(**options),
            PGLexicalStorage(**options),
            PGGraphStorage(**options),
        )
