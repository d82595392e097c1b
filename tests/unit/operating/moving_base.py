"""Bases to move, on every backend of a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.storages import open_description, storage_set
from tests.flows.ingesting_base import TEXTS, Described, document, ingestion

Make = Callable[[Path], KnowledgeBase]


def on(backend: str, folder: Path) -> KnowledgeBase:
    """A base in a folder, not open."""
    chosen = storage_set(backend)
    return open_description(
        Settings(working_dir=str(folder)),
        chosen["kv_storage"],
        chosen["doc_status_storage"],
        chosen["vector_storage"],
        chosen["lexical_storage"],
        chosen["graph_storage"],
    )


@asynccontextmanager
async def opened(base: KnowledgeBase) -> AsyncIterator[KnowledgeBase]:
    """The base, open in the block."""
    await base.open()
    try:
        yield base
    finally:
        await base.close()


async def fill_with_documents(base: KnowledgeBase) -> None:
    """Documents that share names, one of them replaced; half a character, and what JSON has to escape."""
    flow = ingestion(base, extractors=[Described()])
    for name, text in TEXTS.items():
        await flow.ingest_document(document(name, text))
    await flow.ingest_document(document("kell", 'Mount Kell\u2028 is "high".\n\nIda Brandt\x07 fell \ud83d there.'))
    await base.llm_cache.put_many({"a reply": {"text": "kept", "at": 1}})
