"""A process that replaces a document of a base over SQLite, Milvus and Neo4j, to be killed.

``python -m tests.flows.mixed_process FOLDER N``: after N writes to the servers. Where these are stands in its environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.kg import knowledge_base as module
from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.milvus_impl import MilvusVectorDBStorage
from tests.flows.ingesting_base import TEXTS, Described, document, ingestion


def base_on_servers(folder: Path) -> KnowledgeBase:
    """Values, status and BM25 in SQLite, vectors and graph where the environment says."""
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        MilvusVectorDBStorage(),
        SqliteLexicalStorage(folder),
        Neo4JStorage(),
    )


async def begin(kb: KnowledgeBase) -> None:
    """Ingests three documents and deletes one of them."""
    flow = ingestion(kb, extractors=[Described()])
    for name in ("verdel", "kell", "brandt"):
        await flow.ingest_document(document(name, TEXTS[name]))
    await flow.delete_document(document("kell", "").id)


async def replace(kb: KnowledgeBase) -> None:
    """Replaces another one."""
    await ingestion(kb, extractors=[Described()]).ingest_document(document("brandt", TEXTS["brandt, again"]))


def kill_after(writes: int) -> None:
    """Ends this process when so many parts of a commit were written to servers, and the next one is to come."""
    write, done = vars(module)["redo"], 0

    async def counted(storage: Storage, action: str, rows: Sequence[Any]) -> None:
        nonlocal done
        if done == writes:
            os.kill(os.getpid(), signal.SIGKILL)
        await write(storage, action, rows)
        done += 1

    vars(module)["redo"] = counted


async def play(folder: Path) -> None:
    """Opens the base and replaces."""
    kb = base_on_servers(folder)
    await kb.open()
    await recover(kb)
    await replace(kb)
    await kb.close()


if __name__ == "__main__":
    kill_after(int(sys.argv[2]))
    asyncio.run(play(Path(sys.argv[1])))
