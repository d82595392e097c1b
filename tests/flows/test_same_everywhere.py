"""One life of a base gives the same rows in every backend, and they are there after reopening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.json_doc_status_impl import JsonDocStatusStorage
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import TEXTS, Described, document, empty_base, ingestion
from tests.support.bolt import DATABASE, PASSWORD, USER, emptied
from tests.support.milvus import milvus_database, milvus_uri


def _files(folder: Path) -> KnowledgeBase:
    return knowledge_base(
        JsonKVStorage(folder),
        JsonDocStatusStorage(folder),
        NanoVectorDBStorage(folder),
        BM25Storage(folder),
        NetworkXStorage(folder),
    )


def _sqlite(folder: Path) -> KnowledgeBase:
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )


def _mixed(folder: Path) -> KnowledgeBase:
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        NanoVectorDBStorage(folder),
        BM25Storage(folder),
        NetworkXStorage(folder),
    )


def _servers(folder: Path) -> KnowledgeBase:
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        MilvusVectorDBStorage(milvus_uri(), milvus_db_name=milvus_database(folder)),
        SqliteLexicalStorage(folder),
        Neo4JStorage(emptied(folder), USER, PASSWORD, DATABASE),
    )


async def _live(base: KnowledgeBase) -> str:
    """Three documents, one of them replaced and one deleted."""
    flow = ingestion(base, extractors=[Described()])
    for name in ("verdel", "kell", "brandt"):
        await flow.ingest_document(document(name, TEXTS[name]))
    await flow.ingest_document(document("brandt", TEXTS["brandt, again"]))
    assert (await flow.delete_document(document("kell", "").id)).status == "success"
    assert (await verify(base, deep=True)).findings == ()
    return await canonical_dump(base)


@pytest.mark.parametrize("make", [_files, _sqlite, _mixed, _servers])
async def test_every_backend_holds_the_same(tmp_path: Path, make: Callable[[Path], KnowledgeBase]) -> None:
    expected = await _live(await empty_base())
    base = make(tmp_path)
    await base.open()
    assert await _live(base) == expected
    await base.close()
    again = make(tmp_path)
    await again.open()
    assert await canonical_dump(again) == expected
    await again.close()
