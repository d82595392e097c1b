"""A base that moves from storages to storages answers as it did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from easy_knowledge_retriever.cli.demo import demo_documents
from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import storage_set
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)
from tests.support.bolt import DATABASE, PASSWORD, USER, emptied
from tests.support.milvus import milvus_database, milvus_uri

Make = Callable[[], EasyKnowledgeRetriever]
QUESTIONS = 50


def _on(folder: Path, backend: str) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(folder, embedding_service=FakeEmbeddingService(256), **storage_set(backend))


def _in_memory() -> EasyKnowledgeRetriever:
    store = MemoryStore()
    return EasyKnowledgeRetriever(
        kv_storage=MemoryKVStorage(store),
        doc_status_storage=MemoryDocStatusStorage(store),
        vector_storage=MemoryVectorStorage(store),
        lexical_storage=MemoryLexicalStorage(store),
        graph_storage=MemoryGraphStorage(store),
        embedding_service=FakeEmbeddingService(256),
    )


def _on_servers(folder: Path) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(
        folder,
        vector_storage=MilvusVectorDBStorage(milvus_uri(), milvus_db_name=milvus_database(folder)),
        graph_storage=Neo4JStorage(emptied(folder), USER, PASSWORD, DATABASE),
        embedding_service=FakeEmbeddingService(256),
    )


@asynccontextmanager
async def _moved(source: EasyKnowledgeRetriever, target: EasyKnowledgeRetriever) -> AsyncIterator[EasyKnowledgeRetriever]:
    await source.migrate_to(target)
    async with target:
        yield target


async def _contexts(rag: EasyKnowledgeRetriever, questions: list[str]) -> list[str]:
    modes = ("hybrid_mix", "naive", "local", "global", "bm25")
    found = []
    for place, question in enumerate(questions):
        param = QueryParam(mode=modes[place % len(modes)], only_need_context=True)
        found.append((await rag.aquery(question, param)).content)
    return found


async def test_fifty_questions_have_the_same_contexts_on_every_storage(tmp_path: Path) -> None:
    async with _on(tmp_path / "one", "sqlite") as first:
        for path in demo_documents():
            await first.ingest(path, name=path.name)
        labels = await first.get_graph_labels()
        asked = ("What is said of {}?", "Who decides about {}, and when?")
        questions = [form.format(label) for label in labels[: QUESTIONS // 2] for form in asked]
        assert len(questions) == QUESTIONS
        expected = await _contexts(first, questions)
        assert len(set(expected)) > QUESTIONS / 2
        async with (
            _moved(first, _on(tmp_path / "two", "files")) as second,
            _moved(second, _on(tmp_path / "three", "sqlite")) as third,
            _moved(third, _in_memory()) as fourth,
            _moved(fourth, _on_servers(tmp_path / "five")) as fifth,
        ):
            for base in (second, third, fourth, fifth):
                assert await _contexts(base, questions) == expected
                assert (await base.verify(deep=True)).clean
