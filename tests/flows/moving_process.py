"""A process that imports a base and ends in the middle: ``python -m tests.flows.moving_process BACKEND FOLDER FILE PARTS``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from easy_knowledge_retriever.events import BaseProgress, Event
from easy_knowledge_retriever.operating import filling
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import storage_set
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService


def retriever(folder: Path, backend: str) -> EasyKnowledgeRetriever:
    """A retriever over a folder."""
    return EasyKnowledgeRetriever(folder, embedding_service=FakeEmbeddingService(256), **storage_set(backend))


async def main(backend: str, folder: str, file: str, parts: str) -> None:
    """Imports parts of seven rows and is killed after some of them."""
    filling._ROWS, seen = 7, 0
    rag = retriever(Path(folder), backend)

    def kill(event: Event, /) -> None:
        nonlocal seen
        seen += isinstance(event, BaseProgress)
        if seen == int(parts):
            os.kill(os.getpid(), signal.SIGKILL)

    rag.observer = kill
    await rag.import_base(file)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
