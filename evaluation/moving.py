"""A base of real documents goes from storage to storage; do questions have the same contexts, byte for byte, on each?

    python -m evaluation.moving --data ../shared/data --through postgres files sqlite

``postgres`` takes the database of ``POSTGRES_*``, in which the workspace ``moving`` must hold nothing, and leaves it empty.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.storages import STORAGE_SETS, storage_set
from evaluation.bases import ingest_items
from evaluation.datasets import SETS, load_dataset

MODES = ("hybrid_mix", "mix", "naive", "local", "global", "hybrid", "bm25", "graph_walk")
"""In turn, a question each."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What was found on one storage."""

    storage: str
    rows: int
    seconds: float
    """Of the move."""
    different: tuple[str, ...]
    """Questions with another context than at first."""
    findings: int


async def contexts(rag: EasyKnowledgeRetriever, questions: Sequence[str]) -> list[str]:
    """The context of each question, the modes in turn."""
    found = []
    for place, question in enumerate(questions):
        param = QueryParam(mode=MODES[place % len(MODES)], only_need_context=True)
        found.append((await rag.aquery(question, param)).content)
    return found


async def travel(first: EasyKnowledgeRetriever, through: Sequence[str], folder: Path, questions: Sequence[str]) -> list[Stop]:
    """Moves an open base through storages, each a copy of the one before, and asks the questions on each."""
    expected, source, stops = await contexts(first, questions), first, list[Stop]()
    for number, storage in enumerate(through):
        target = EasyKnowledgeRetriever(folder / f"{number}-{storage}", workspace="moving", **storage_set(storage))
        began = time.perf_counter()
        rows = await source.migrate_to(target)
        seconds = time.perf_counter() - began
        if source is not first:
            await _leave(source)
        await target.initialize_storages()
        found = await contexts(target, questions)
        different = tuple(q for q, one, other in zip(questions, expected, found, strict=True) if one != other)
        report = await target.verify(deep=True)
        stops.append(Stop(storage, rows, seconds, different, len(report.findings)))
        source = target
    if source is not first:
        await _leave(source)
    return stops


async def _leave(rag: EasyKnowledgeRetriever) -> None:
    await rag.aclear()
    await rag.finalize_storages()


async def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--set", choices=sorted(SETS), default="2wiki", help="documents and questions")
    parser.add_argument("--items", type=int, default=300, help="documents at most")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--through", nargs="+", choices=sorted(STORAGE_SETS), default=["files", "sqlite"])
    asked = parser.parse_args(arguments)
    data = load_dataset(asked.data, asked.set, asked.questions)
    questions = [question.text for question in data.answerable[: asked.questions]]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with EasyKnowledgeRetriever(place / "first", workspace="moving") as first:
            await ingest_items(first, asked.set, data.items[: asked.items])
            stops = await travel(first, asked.through, place, questions)
    for stop in stops:
        print(
            f"{stop.storage}: {stop.rows} rows in {stop.seconds:.1f} s, "
            f"{len(stop.different)} of {len(questions)} contexts differ, {stop.findings} findings"
        )
        for question in stop.different:
            print(f"  {question}")
    return int(any(stop.different or stop.findings for stop in stops))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
