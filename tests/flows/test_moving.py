"""A base that moves from storages to storages answers as it did."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from easy_knowledge_retriever.cli.demo import demo_documents
from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)
from tests.flows.moving_process import retriever as _on
from tests.support.bolt import DATABASE, PASSWORD, USER, emptied
from tests.support.milvus import milvus_database, milvus_uri
from tests.support.postgres import on_postgres

QUESTIONS = 50


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


async def _on_postgres(folder: Path) -> EasyKnowledgeRetriever:
    options = await on_postgres(folder, "moving")
    return EasyKnowledgeRetriever(
        folder,
        kv_storage=PGKVStorage(**options),
        doc_status_storage=PGDocStatusStorage(**options),
        vector_storage=PGVectorStorage(**options),
        lexical_storage=PGLexicalStorage(**options),
        graph_storage=PGGraphStorage(**options),
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
            _moved(first, await _on_postgres(tmp_path / "two")) as second,
            _moved(second, _on(tmp_path / "three", "files")) as third,
            _moved(third, _on(tmp_path / "four", "sqlite")) as fourth,
            _moved(fourth, _in_memory()) as fifth,
            _moved(fifth, _on_servers(tmp_path / "six")) as sixth,
        ):
            for base in (second, third, fourth, fifth, sixth):
                assert await _contexts(base, questions) == expected
                assert (await base.verify(deep=True)).clean


@pytest.mark.damages
@pytest.mark.parametrize(("backend", "parts"), [("sqlite", 2), ("sqlite", 9), ("files", 5)])
async def test_a_killed_import_is_no_base_and_the_next_one_ends_it(tmp_path: Path, backend: str, parts: int) -> None:
    async with _on(tmp_path / "old", "sqlite") as old:
        for path in demo_documents()[:2]:
            await old.ingest(path, name=path.name)
        await old.export(tmp_path / "base.jsonl")
        expected = await canonical_dump(old._kb)
    command = [sys.executable, "-m", "tests.flows.moving_process", backend, str(tmp_path / "new")]
    command += [str(tmp_path / "base.jsonl"), str(parts)]
    killed = await asyncio.to_thread(lambda: subprocess.run(command, check=False, timeout=60))
    assert killed.returncode == -9
    with pytest.raises(StoreCorruptError, match="run the same import"):
        await _on(tmp_path / "new", backend).initialize_storages()
    await _on(tmp_path / "new", backend).import_base(tmp_path / "base.jsonl")
    async with _on(tmp_path / "new", backend) as new:
        assert await canonical_dump(new._kb) == expected
        assert (await new.verify(deep=True)).clean
