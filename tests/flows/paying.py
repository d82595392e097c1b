"""A process that ingests a text with paid models, to be killed: ``python -m tests.flows.paying FOLDER URL FILE``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.types import IngestReport

AT_ONCE = 4
BATCH = 8


def retriever(folder: Path, url: str) -> EasyKnowledgeRetriever:
    """A retriever that keeps no reply but in the base."""
    return EasyKnowledgeRetriever(
        folder,
        llm_service=OpenAILLMService("chat", url, "key", max_async=AT_ONCE, timeout=20),
        embedding_service=OpenAIEmbeddingService("embed", url, "key", 256, BATCH, max_async=AT_ONCE, timeout=20),
        chunk_token_size=70,
        chunk_overlap_token_size=0,
        enable_llm_cache=False,
        enable_llm_cache_for_entity_extract=False,
    )


async def play(folder: Path, url: str, file: Path) -> IngestReport:
    """Ingests the file."""
    async with retriever(folder, url) as rag:
        return await rag.ingest(file, name=file.name)


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
