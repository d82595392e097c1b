"""The PostgreSQL storages keep every promise."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.testing.contracts import DocStatusStorageContract, KVStorageContract
from tests.support.postgres import on_postgres


class TestPGKV(KVStorageContract):
    async def make(self, tmp_path: Path) -> PGKVStorage:
        return PGKVStorage(**await on_postgres(tmp_path, "contracts"))


class TestPGDocStatus(DocStatusStorageContract):
    async def make(self, tmp_path: Path) -> PGDocStatusStorage:
        return PGDocStatusStorage(**await on_postgres(tmp_path, "contracts"))
