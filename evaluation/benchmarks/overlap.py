"""How well the work on a document overlaps: wall time against the time its model takes, and how many calls run at once.

    python -m evaluation.benchmarks.overlap
    python -m evaluation.benchmarks.overlap --documents 10 --chunks 40

An OpenAI-compatible server in a process of its own takes a fixed time for each request, chat and embeddings alike, and writes
of each chunk what a language model would. The documents are ingested through the public interface on the embedded store, with
the cache of replies switched off. The bound is the time the model takes in all, divided by how many calls may run at once:
what stands above it is work that did not overlap.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.events import Event, StageFinished
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.replies import Chat
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, OpenAITestServer
from evaluation.benchmarks.extraction import Corpus, MadeChunk

DIMENSION = 384
_RECORD = re.compile(r"Record (\d+) of the file\.")


@dataclass(frozen=True, slots=True)
class Served:
    """What the server saw."""

    chats: int
    embeddings: int
    peak: int


def corpus(count: int) -> list[MadeChunk]:
    """The same chunks in both processes."""
    made = Corpus()
    return [made.next() for _ in range(count)]


def serve(pipe: Connection, count: int, delay: float) -> None:
    """Serves until the pipe says stop; any other word makes it forget. Tells its address first and what it saw last."""
    chunks = corpus(count)

    def chat(asked: Chat) -> str:
        found = _RECORD.search(asked.prompt)
        return chunks[int(found[1])].reply if found else "END"

    async def run() -> None:
        async with OpenAITestServer(chat, dimension=DIMENSION, delay=delay) as server:
            pipe.send(server.base_url)
            while await asyncio.to_thread(pipe.recv) != "stop":
                server.requests.clear()
                server.peak.clear()
            pipe.send(Served(server.count(CHAT), server.count(EMBEDDINGS), server.peak[CHAT]))

    asyncio.run(run())


@contextmanager
def server(count: int, delay: float) -> Iterator[tuple[str, Connection]]:
    """A server in a process of its own: its address, and the pipe to it."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, count, delay), daemon=True)
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.join(timeout=10)
        process.terminate()


@dataclass(frozen=True, slots=True)
class Measured:
    """One ingest."""

    wall: float
    cpu: float
    stages: Mapping[str, float]
    """Seconds of each; they overlap."""
    served: Served


async def ingest(
    url: str, pipe: Connection, documents: Sequence[str], options: argparse.Namespace
) -> tuple[float, float, Mapping[str, float]]:
    """Seconds and CPU seconds of the ingest of all documents at once, and seconds of the longest of each stage."""
    stages: dict[str, float] = {}

    def observe(event: Event, /) -> None:
        if isinstance(event, StageFinished):
            stages[event.stage] = max(event.seconds, stages.get(event.stage, 0.0))

    llm = OpenAILLMService("chat", url, "key", max_async=options.max_async, timeout=120)
    embedding: EmbeddingService = FakeEmbeddingService(DIMENSION)
    if options.embedding == "remote":
        embedding = OpenAIEmbeddingService("embed", url, "key", DIMENSION, options.batch, timeout=120)
    with tempfile.TemporaryDirectory() as folder:
        async with EasyKnowledgeRetriever(
            folder,
            llm_service=llm,
            embedding_service=embedding,
            chunk_token_size=400,
            chunk_overlap_token_size=0,
            enable_llm_cache_for_entity_extract=False,
            entity_extract_max_gleaning=options.gleaning,
            max_parallel_insert=10,
            observer=observe,
        ) as rag:
            await rag.ainsert("What is loaded at the first document is loaded now.")
            stages.clear()
            pipe.send("forget")
            began, cpu = time.perf_counter(), time.process_time()
            await rag.ainsert(
                list(documents),
                split_by_character="\n\n",
                split_by_character_only=True,
                file_paths=[f"file{number}.txt" for number in range(len(documents))],
            )
            return time.perf_counter() - began, time.process_time() - cpu, stages


def measure(options: argparse.Namespace) -> Measured:
    """Serves and ingests."""
    chunks = corpus(options.documents * options.chunks)
    texts = [
        "\n\n".join(chunk.text for chunk in chunks[at : at + options.chunks]) for at in range(0, len(chunks), options.chunks)
    ]
    with server(len(chunks), options.delay) as (url, pipe):
        wall, cpu, stages = asyncio.run(ingest(url, pipe, texts, options))
        pipe.send("stop")
        return Measured(wall, cpu, stages, pipe.recv())


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=200, help="of a document")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds a request takes")
    parser.add_argument("--max-async", type=int, default=8)
    parser.add_argument("--gleaning", type=int, default=1, help="further rounds a chunk")
    parser.add_argument("--embedding", choices=("remote", "hashed"), default="remote", help="remote takes the same time")
    parser.add_argument("--batch", type=int, default=None, help="texts in an embedding request")
    options = parser.parse_args()
    measured = measure(options)
    count, served = options.documents * options.chunks, measured.served
    bound = served.chats * options.delay / options.max_async
    table = Table("chunks", "chats", "embeddings", "peak", "bound s", "wall s", "ratio", "own CPU ms a chunk")
    table.add_row(
        str(count),
        str(served.chats),
        str(served.embeddings),
        str(served.peak),
        f"{bound:.2f}",
        f"{measured.wall:.2f}",
        f"{measured.wall / bound:.3f}",
        f"{1000 * measured.cpu / count:.1f}",
    )
    console = Console(width=110)
    console.print(table)
    console.print("the longest of each stage: " + ", ".join(f"{name} {took:.2f} s" for name, took in measured.stages.items()))


if __name__ == "__main__":
    main()
