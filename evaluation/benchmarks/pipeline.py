"""What an ingest and a question cost beside their models: own CPU a chunk, own time a question in every mode, disk, memory.

    python -m evaluation.benchmarks.pipeline --data DATA --sizes 600 6000 --model hashed
    python -m evaluation.benchmarks.pipeline --data DATA --model local

The passages of 2wiki are ingested one document at a time, through the public interface, on the embedded store. The model is
metered: its time is taken off the total. ``hashed`` is a bag of hashed words and costs next to nothing, so that CPU can be
told apart; ``local`` is the embedding model that ships. Everything is measured in one run, so ratios hold on any machine.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.llm.base import EmbeddingService, InputType
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import FloatVectors
from evaluation.datasets import Dataset, load_dataset

MEASURED = 100
"""Documents measured at each size."""


class Metered(EmbeddingService):
    """A model whose time is counted apart.

    Args:
        service: The model.
    """

    def __init__(self, service: EmbeddingService) -> None:
        self._service = service
        self.seconds = 0.0
        self.cpu = 0.0

    @property
    def embedding_dim(self) -> int:
        return self._service.embedding_dim

    @property
    def fingerprint(self) -> str:
        return self._service.fingerprint

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        began, cpu = time.perf_counter(), time.process_time()
        try:
            return await self._service.embed(texts, input_type)
        finally:
            self.seconds += time.perf_counter() - began
            self.cpu += time.process_time() - cpu


@dataclass(frozen=True, slots=True)
class Meter:
    """Time, CPU and the model's share of both from a moment on."""

    model: Metered
    began: float
    cpu: float
    model_seconds: float
    model_cpu: float

    @classmethod
    def start(cls, model: Metered) -> Meter:
        """From now on."""
        return cls(model, time.perf_counter(), time.process_time(), model.seconds, model.cpu)

    def own_cpu(self) -> float:
        """CPU seconds beside the model."""
        return time.process_time() - self.cpu - (self.model.cpu - self.model_cpu)

    def own_seconds(self) -> float:
        """Seconds beside the model."""
        return self.seconds() - (self.model.seconds - self.model_seconds)

    def seconds(self) -> float:
        """Seconds in all."""
        return time.perf_counter() - self.began


async def insert(rag: EasyKnowledgeRetriever, dataset: Dataset, start: int, end: int) -> None:
    """Ingests a range of the passages."""
    items = dataset.items[start:end]
    await rag.ainsert([item.content for item in items], file_paths=[item.id for item in items])


async def measure_ingest(rag: EasyKnowledgeRetriever, model: Metered, dataset: Dataset, sizes: Sequence[int]) -> Table:
    """Grows the base to each size and measures the documents that reach it."""
    table = Table(
        "chunks", "chunks/s", "chunks/s without the model", "own CPU ms a chunk", "wall ms a chunk", title="ingest, one by one"
    )
    done = 0
    for size in sizes:
        last = min(size, len(dataset.items))
        first = max(done, last - MEASURED)
        await insert(rag, dataset, done, first)
        meter = Meter.start(model)
        await insert(rag, dataset, first, last)
        count, done = last - first, last
        table.add_row(
            str(last),
            f"{count / meter.seconds():.0f}",
            f"{count / meter.own_seconds():.0f}",
            f"{1000 * meter.own_cpu() / count:.1f}",
            f"{1000 * meter.seconds() / count:.1f}",
        )
    return table


async def measure_queries(rag: EasyKnowledgeRetriever, model: Metered, questions: Sequence[str]) -> Table:
    """Asks every question in every mode for its context."""
    table = Table("mode", "own ms p50", "own ms p95", "own CPU ms", title="a question, up to the context")
    for mode in STRATEGIES:
        param = QueryParam(mode=mode, only_need_context=True)
        await rag.aquery(questions[0], param)
        times, meter = [], Meter.start(model)
        for question in questions:
            one = Meter.start(model)
            await rag.aquery(question, param)
            times.append(1000 * one.own_seconds())
        times.sort()
        cpu = 1000 * meter.own_cpu() / len(questions)
        table.add_row(mode, f"{statistics.median(times):.1f}", f"{times[int(0.95 * len(times))]:.1f}", f"{cpu:.1f}")
    return table


async def run(data: Path, sizes: Sequence[int], model: Metered, count: int, console: Console) -> None:
    """The whole benchmark, printed as tables."""
    dataset = load_dataset(data, "2wiki")
    questions = [question.text for question in dataset.questions[:count]]
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        async with EasyKnowledgeRetriever(folder, embedding_service=model) as rag:
            console.print(await measure_ingest(rag, model, dataset, sizes))
            console.print(await measure_queries(rag, model, questions))
            counts = await rag.get_graph_counts()
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"{counts.entities} entities, {counts.relations} relations, {counts.mentions} mentions")
    console.print(f"disk {disk:.0f} MiB · peak memory {peak:.0f} MiB, of which {before:.0f} before the base was opened")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with multihop/2wiki")
    parser.add_argument("--sizes", type=int, nargs="+", default=[600, 6119], help="chunks at which to measure")
    parser.add_argument("--model", choices=("hashed", "local"), default="hashed")
    parser.add_argument("--questions", type=int, default=100)
    options = parser.parse_args()
    service: EmbeddingService = LocalEmbeddingService() if options.model == "local" else FakeEmbeddingService(384)
    asyncio.run(run(options.data, sorted(options.sizes), Metered(service), options.questions, Console(width=110)))


if __name__ == "__main__":
    main()
