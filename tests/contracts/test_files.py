"""The storages in JSON files keep every promise."""

from __future__ import annotations

from pathlib import Path

from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.json_doc_status_impl import JsonDocStatusStorage
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage
from easy_knowledge_retriever.testing.contracts import (
    DocStatusStorageContract,
    GraphStorageContract,
    KVStorageContract,
    LexicalStorageContract,
    StoreContract,
    VectorStorageContract,
)


class TestJsonKV(KVStorageContract):
    async def make(self, tmp_path: Path) -> JsonKVStorage:
        return JsonKVStorage(tmp_path)


class TestJsonDocStatus(DocStatusStorageContract):
    async def make(self, tmp_path: Path) -> JsonDocStatusStorage:
        return JsonDocStatusStorage(tmp_path)


class TestNanoVectorDB(VectorStorageContract):
    async def make(self, tmp_path: Path) -> NanoVectorDBStorage:
        return NanoVectorDBStorage(tmp_path)


class TestBM25(LexicalStorageContract):
    async def make(self, tmp_path: Path) -> BM25Storage:
        return BM25Storage(tmp_path)


class TestNetworkX(GraphStorageContract):
    async def make(self, tmp_path: Path) -> NetworkXStorage:
        return NetworkXStorage(tmp_path)


class TestFileStore(StoreContract):
    async def make(self, tmp_path: Path) -> KnowledgeBase:
        return knowledge_base(
            JsonKVStorage(tmp_path),
            JsonDocStatusStorage(tmp_path),
            NanoVectorDBStorage(tmp_path),
            BM25Storage(tmp_path),
            NetworkXStorage(tmp_path),
        )
