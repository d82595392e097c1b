"""Knowledge bases of the question sets, ingested through the public API and kept between runs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from evaluation.datasets import Item
from evaluation.vector_cache import CachedEmbeddings

__all__ = ["Bench", "base_folder", "embedding_service", "ingest_items", "opened_base"]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where measurements keep their bases and which model they use."""

    folder: Path
    model: str | None = None
    """Name of a local model; None is the default one."""
    vectors: Path | None = None
    """Folder of embeddings kept between runs."""


def embedding_service(bench: Bench) -> EmbeddingService:
    """The embedding model of a bench."""
    service = LocalEmbeddingService(bench.model) if bench.model else LocalEmbeddingService()
    return CachedEmbeddings(service, bench.vectors) if bench.vectors else service


def base_folder(bench: Bench, name: str) -> Path:
    """Where the base of this name is kept."""
    return bench.folder / "-".join((name, bench.model or "default"))


@asynccontextmanager
async def opened_base(bench: Bench, name: str, items: Sequence[Item]) -> AsyncIterator[EasyKnowledgeRetriever]:
    """An open base that holds these passages, one document each; what an earlier run ingested is not ingested again."""
    async with EasyKnowledgeRetriever(base_folder(bench, name), embedding_service=embedding_service(bench)) as rag:
        await ingest_items(rag, name, items)
        yield rag


async def ingest_items(rag: EasyKnowledgeRetriever, name: str, items: Sequence[Item], report_every: int = 200) -> None:
    """Ingests what is missing as Markdown files, with a line on standard error now and then.

    The name of a document is the id of its passage with ``.md``.
    """
    known = {record.name for record in await rag.get_docs() if record.status == "processed"}
    missing = [item for item in items if f"{item.id}.md" not in known]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for done, item in enumerate(missing, start=1):
            file = Path(folder) / f"{item.id}.md"
            file.write_text(item.content, encoding="utf-8")  # a measurement has nothing else to do
            await rag.ingest(file, name=file.name)
            if done % report_every == 0 or done == len(missing):
                rate = done / (time.perf_counter() - began)
                sys.stderr.write(f"{name}: {done} of {len(missing)} passages, {rate:.1f} a second\n")
