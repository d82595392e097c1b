"""A process that ingests into a SQLite base and may be told to die: ``python -m tests.flows.crashing FOLDER STEP…``.

A step is ``ingest:NAME:TEXT KEY``, ``delete:NAME`` or ``summarize:``. Each finished step is acknowledged by a line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.text.hashing import digest
from tests.flows.ingesting_base import TEXTS, Described, document, ingestion


def sqlite_base(folder: Path) -> KnowledgeBase:
    """The base in a folder, not open."""
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )


def summarizer() -> Summarizer:
    """Summarises whatever is said in two ways."""
    model = FakeLLMService(lambda messages: f"All told, {digest(messages[-1].content)}.")
    return Summarizer(model, "fake", SummaryLimits(fragments=2), lambda text: len(text.split()))


async def play(folder: Path, steps: list[str], described: Described) -> None:
    """Opens the base, recovers it and takes the steps."""
    kb = sqlite_base(folder)
    await kb.open()
    await recover(kb)
    flow = ingestion(kb, llm_extractor=described, summarizer=summarizer())
    for step in steps:
        action, name, *text = step.split(":")
        if action == "ingest":
            await flow.ingest_document(document(name, TEXTS[text[0]]))
        elif action == "summarize":
            await flow.summarize()
        else:
            await flow.delete_document(document(name, "").id)
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
    await kb.close()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), sys.argv[2:], Described("llm")))
