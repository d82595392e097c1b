"""The Milvus storage keeps every promise, on Milvus Lite."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from easy_knowledge_retriever.testing.contracts import VectorStorageContract
from tests.support.milvus import milvus_database, milvus_uri


class TestMilvusVectorDB(VectorStorageContract):
    async def make(self, tmp_path: Path) -> MilvusVectorDBStorage:
        return MilvusVectorDBStorage(milvus_uri(), milvus_db_name=milvus_database(tmp_path))
