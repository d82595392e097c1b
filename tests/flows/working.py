"""A process that works in a folder beside others: ``python -m tests.flows.working ACTION FOLDER …``.

It says ``ready`` when the base is open and begins when a line comes in.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.aio import map_bounded, task_group
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from tests.flows.paying import retriever as paying

WORD = "tide"
"""Every version of the page that changes speaks of it."""


def offline(folder: Path, delay: float = 0.0, **settings: float) -> EasyKnowledgeRetriever:
    """A retriever without a language model, whose embeddings take some time."""
    return EasyKnowledgeRetriever(
        folder,
        embedding_service=FakeEmbeddingService(32, delay=delay),
        chunk_token_size=16,
        chunk_overlap_token_size=0,
        **settings,  # type: ignore[arg-type]
    )


def page(version: int) -> str:
    """A version of a page that is some chunks long; each says which version it is of."""
    lines = [f"v{version} says of the {WORD} number {line} that Ida Brandt saw it at Marlow." for line in range(5)]
    return "\n\n".join(lines)


async def _began() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)


async def many(folder: Path, prefix: str, count: str) -> object:
    """Takes in so many documents that share names."""
    async with offline(folder) as rag:
        await _began()

        async def one(number: int) -> None:
            text = f"{prefix} number {number} tells how Ida Brandt met Jon Lind at Marlow in {1900 + number}."
            await rag.ainsert(text, file_paths=f"{prefix}-{number}")

        await map_bounded(one, range(int(count)), 4)
    return None


async def same(folder: Path, url: str, file: str) -> object:
    """Ingests one file five times at once."""
    async with paying(folder, url) as rag:
        await _began()
        async with task_group() as group:
            tasks = [group.create_task(rag.ingest(file, name="same")) for _ in range(5)]
        return [[task.result().version, task.result().unchanged] for task in tasks]


async def slow(folder: Path, seconds: str, rounds: str = "1") -> object:
    """Ingests a page whose embedding takes so long, whenever a line comes in."""
    async with offline(folder, float(seconds)) as rag:
        for _ in range(int(rounds)):
            await _began()
            await rag.ainsert(page(1), ids="doc-page", file_paths="page")
    return None


async def read(folder: Path, queries: str) -> object:
    """Asks so often, and says what versions each answer was made of."""
    seen: set[tuple[str, ...]] = set()
    async with offline(folder) as rag:
        await _began()
        for number in range(int(queries)):
            param = QueryParam(mode="naive" if number % 2 else "hybrid_mix")
            context = await rag.retrieve(f"What of the {WORD}?", param=param)
            seen.add(tuple(sorted({passage.chunk.version for passage in context.passages})))
    return sorted(seen)


async def stay(folder: Path) -> object:
    """Holds the write lock until it is told to end."""
    async with offline(folder) as rag, rag._kb.transaction():
        await _began()
    return None


_ACTIONS: dict[str, Callable[..., Awaitable[object]]] = {action.__name__: action for action in (many, same, slow, read, stay)}

if __name__ == "__main__":
    _, name, where, *rest = sys.argv
    sys.stdout.write(json.dumps(asyncio.run(_ACTIONS[name](Path(where), *rest))) + "\n")  # type: ignore[arg-type]
