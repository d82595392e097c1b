"""Several processes ingest into one base in PostgreSQL: how many documents a second, and is the base whole afterwards.

    python -m evaluation.benchmarks.postgres --documents 2000 --workers 1 2 4

The database is that of ``POSTGRES_*``, or with ``--embedded`` a server that is started for it. Each run has a workspace of its
own, and is dropped afterwards. Documents are made up, a few sentences on names drawn by Zipf's law; names are extracted by the
patterns of the library, and vectors made by a hash (``FakeEmbeddingService``), so that storage is most of the work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.storages import open_description
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService

FIRST = ("Ida", "Jon", "Mara", "Otto", "Lena", "Karl", "Vera", "Nils", "Edda", "Ruben")
LAST = ("Brandt", "Lind", "Kell", "Moor", "Hagen", "Voss", "Falk", "Sund", "Berg", "Rask")
PLACES = ("Marlow", "Lund", "Verdel", "Ostrania", "Kell Hill", "Arden", "Tarn", "Norvik")
VERBS = ("met", "taught", "wrote to", "worked with", "travelled with", "succeeded")
DIMENSION = 128


@dataclass(frozen=True, slots=True)
class Run:
    """What a number of workers did."""

    workers: int
    seconds: float
    documents: int
    chunks: int
    findings: int

    @property
    def rate(self) -> float:
        """Documents a second."""
        return self.documents / self.seconds


def text(number: int) -> str:
    """A document: the same one for the same number."""
    draw = np.random.default_rng(number)
    names = [f"{FIRST[n // 10 % 10]} {LAST[n % 10]}" for n in np.minimum(draw.zipf(1.4, 8), 100) - 1]
    places = draw.choice(PLACES, 4)
    sentences = [
        f"{one} {draw.choice(VERBS)} {other} in {place} in {1800 + int(draw.integers(200))}."
        for one, other, place in zip(names[::2], names[1::2], places, strict=True)
    ]
    return f"Letter {number}. " + " ".join(sentences)


def retriever(options: dict[str, Any], workspace: str, folder: str) -> EasyKnowledgeRetriever:
    """A retriever with all of its storages in PostgreSQL."""
    return EasyKnowledgeRetriever(
        folder,
        workspace=workspace,
        kv_storage=PGKVStorage(**options),
        doc_status_storage=PGDocStatusStorage(**options),
        vector_storage=PGVectorStorage(**options),
        graph_storage=PGGraphStorage(**options),
        embedding_service=FakeEmbeddingService(DIMENSION),
    )


async def work(options: dict[str, Any], workspace: str, numbers: Sequence[int]) -> None:
    """Ingests some documents, one after the other, once the first line of the input says so."""
    with tempfile.TemporaryDirectory() as folder:
        async with retriever(options, workspace, folder) as rag:
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for number in numbers:
                await rag.ainsert(text(number), file_paths=f"letter-{number}.txt")


async def ingest(options: dict[str, Any], workspace: str, shares: Sequence[Sequence[int]]) -> float:
    """Seconds that a process for each share took together, from the moment all of them were ready.

    Raises:
        RuntimeError: One of them failed.
    """
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "evaluation.benchmarks.postgres",
            "--work",
            json.dumps([options, workspace, list(share)]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for share in shares
    ]

    async def ended(process: asyncio.subprocess.Process) -> int:
        await process.communicate(b"\n")
        return await process.wait()

    for process in processes:
        if process.stdout is not None:
            await process.stdout.readline()
    began = time.perf_counter()
    codes = await map_bounded(ended, processes, len(processes))
    seconds = time.perf_counter() - began
    if any(codes):
        raise RuntimeError(f"workers ended with {codes}")
    return seconds


async def measure(options: dict[str, Any], documents: int, workers: int) -> Run:
    """One run in a workspace that is empty before and after."""
    workspace = f"bench-{workers}"
    shares = [range(documents)[worker::workers] for worker in range(workers)]
    await _drop(options, workspace)
    seconds = await ingest(options, workspace, shares)
    with tempfile.TemporaryDirectory() as folder:
        async with retriever(options, workspace, folder) as rag:
            report = await rag.verify(deep=True)
            names = sorted(record.name for record in await rag.get_docs())
    if names != sorted(f"letter-{number}.txt" for number in range(documents)):
        raise RuntimeError(f"{len(names)} documents instead of {documents}")
    await _drop(options, workspace)
    return Run(workers, seconds, report.documents, report.chunks, len(report.findings))


async def _drop(options: dict[str, Any], workspace: str) -> None:
    base = open_description(
        Settings(workspace=workspace),
        PGKVStorage(**options),
        PGDocStatusStorage(**options),
        PGVectorStorage(**options),
        None,
        PGGraphStorage(**options),
    )
    await base.open()
    async with base.transaction() as inside:
        for storage in inside.storages():
            await storage.drop()
    await base.close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--embedded", action="store_true", help="start a server that syncs its commits")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        options, workspace, numbers = json.loads(arguments.work)
        asyncio.run(work(options, workspace, numbers))
        return
    asyncio.run(_measured(arguments))


async def _measured(arguments: argparse.Namespace) -> None:
    options: dict[str, Any] = {}
    if arguments.embedded:
        from tests.support.postgres import postgres  # noqa: PLC0415  # brings pytest along

        server = postgres(sync=True)
        options = dict(server.options(await server.database("benchmark")))
    for workers in arguments.workers:
        run = await measure(options, arguments.documents, workers)
        print(
            f"{run.workers} workers: {run.rate:.1f} documents/s ({run.seconds:.1f} s), {run.documents} documents,"
            f" {run.chunks} chunks, {run.findings} findings",
            flush=True,
        )


if __name__ == "__main__":
    main()
