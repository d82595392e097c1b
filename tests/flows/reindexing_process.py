"""A process that makes the vectors of a base anew, to be killed: ``python -m tests.flows.reindexing_process FOLDER LOG``.

Each text that is embedded is a line of the log, written before the vectors are there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.ingestion import reindexing
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import FloatVectors

OLD, NEW = 64, 48
"""Dimensions of the model before and of the new one."""
AT_ONCE = 8


class Logged(FakeEmbeddingService):
    """Writes down what it is asked."""

    def __init__(self, log: Path) -> None:
        super().__init__(NEW)
        self._log = log

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        with self._log.open("a") as log:
            log.writelines(json.dumps(text) + "\n" for text in texts)
        return await super().embed(texts, input_type)


def retriever(folder: Path, model: FakeEmbeddingService) -> EasyKnowledgeRetriever:
    """A retriever that cuts small chunks."""
    return EasyKnowledgeRetriever(folder, embedding_service=model, chunk_token_size=40, chunk_overlap_token_size=0)


async def play(folder: Path, log: Path) -> None:
    """Makes the vectors anew."""
    reindexing._AT_ONCE = AT_ONCE  # type: ignore[misc]  # so that a small base takes many steps
    await retriever(folder, Logged(log)).reindex()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), Path(sys.argv[2])))
