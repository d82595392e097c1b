"""What entities and relations of a language model add to the graph: ``python -m evaluation.replay --data DATA``.

The passages of MuSiQue are ingested twice: without a language model, and with one that writes what a real one once extracted
from each passage (``extraction.jsonl``), behind the test server. The same questions are then asked of both bases in every
mode, with the keywords found in the question itself, so that nothing but the graph differs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import median
from typing import Any

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.testing.replies import reading
from easy_knowledge_retriever.testing.server import CHAT, OpenAITestServer
from evaluation.bases import Bench, base_folder, embedding_service, ingest_items, opened_base
from evaluation.datasets import Dataset, load_dataset, read_jsonl
from evaluation.metrics import recall_at
from evaluation.retrieval import HEAD, MODES, ModeResult, measure_mode, row, scores_of

__all__ = ["extraction_lines", "main"]

SET = "musique"
EXTRACTION = Path("multihop/musique/extraction.jsonl")
LLM_BASE = "musique-llm"


def extraction_lines(entities: Sequence[str], triples: Sequence[Sequence[str]]) -> str:
    """Recorded entities and triples as a model writes them when it is asked by our prompt.

    A triple says nothing but its predicate: that is the keyword, and the three read in order are the description.
    """
    lines = [f"E | {_field(name)} | Other | " for name in entities]
    for triple in triples:
        if len(triple) == 3:
            subject, predicate, other = map(_field, triple)
            lines.append(f"R | {subject} | {other} | {predicate} | 5 | {subject} {predicate} {other}.")
    return "\n".join([*lines, "END"])


def _field(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def recorded_replies(data: Path, dataset: Dataset) -> dict[str, str]:
    """Passage text → what the model writes of it."""
    rows: Mapping[str, Mapping[str, Any]] = {found["id"]: found for found in read_jsonl(data / EXTRACTION)}
    return {
        item.text: extraction_lines(rows[item.id]["entities"], rows[item.id]["triples"])
        for item in dataset.items
        if item.id in rows
    }


async def fill(bench: Bench, data: Path, dataset: Dataset) -> None:
    """Ingests what is missing of the base with a language model."""
    async with OpenAITestServer(reading(recorded_replies(data, dataset))) as server:
        model = OpenAILLMService("replayed", server.base_url, "unused", timeout=60)
        async with EasyKnowledgeRetriever(
            base_folder(bench, LLM_BASE), embedding_service=embedding_service(bench), llm_service=model
        ) as rag:
            await ingest_items(rag, LLM_BASE, dataset.items)
            counts = await rag.get_graph_counts()
    sys.stderr.write(
        f"{server.count(CHAT)} requests; {counts.entities} entities, {counts.relations} relations, {counts.mentions} mentions\n"
    )


async def measured(bench: Bench, name: str, dataset: Dataset, modes: Sequence[str]) -> dict[str, ModeResult]:
    """Every mode on one base, asked without a language model."""
    async with opened_base(bench, name, dataset.items) as rag:
        return {mode: await measure_mode(rag, dataset, mode) for mode in modes}


def won_and_lost(dataset: Dataset, before: ModeResult, after: ModeResult) -> tuple[int, int]:
    """Questions whose recall@5 rose, and whose fell."""
    gold = [question.gold_ids for question in dataset.answerable]
    pairs = [
        (recall_at(5, one, wanted), recall_at(5, other, wanted))
        for one, other, wanted in zip(before.rankings, after.rankings, gold, strict=True)
    ]
    return sum(after > before for before, after in pairs), sum(after < before for before, after in pairs)


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    dataset = load_dataset(args.data, SET, args.limit)
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.base or Path(temporary), args.model, args.vectors)
        await fill(bench, args.data, dataset)
        embedded = await measured(bench, SET, dataset, args.modes)
        llm = await measured(bench, LLM_BASE, dataset, args.modes)
    sys.stdout.write(f"{HEAD}   won lost\n")
    for mode in args.modes:
        for name, result in (("embedded", embedded[mode]), ("llm", llm[mode])):
            won = "{:6d}{:5d}".format(*won_and_lost(dataset, embedded[mode], result)) if name == "llm" else ""
            sys.stdout.write(f"{row(name, mode, astuple(scores_of(dataset, result)), median(result.milliseconds))}{won}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.replay", description="What a language model adds to the graph.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument("--base", type=Path, help="folder that keeps the bases between runs; a temporary one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
