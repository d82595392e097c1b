"""Retrieval in every mode on every set: ``python -m evaluation.retrieval --data DIR``.

Prints recall@2, @5, @10, all@5, MRR@10 over the answerable questions and the median time of a question without the
embedding model, with the baselines of the data beside.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from evaluation.bases import Bench, opened_base
from evaluation.datasets import BASELINES, SETS, Dataset, load_dataset
from evaluation.metrics import RetrievalScores, mean_scores

__all__ = ["ModeResult", "main", "measure_mode", "rank_documents", "row", "scores_of"]

DEFAULT_SETS = ("2wiki", "musique", "piaf", "ai_act-en", "ai_act-fr")
MODES = tuple(mode for mode in STRATEGIES if mode != "bypass")
HEAD = f"{'set':<13}{'mode':<13}{'R@2':>7}{'R@5':>7}{'R@10':>7}{'all@5':>7}{'MRR':>7}{'ms':>8}"


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What one mode found on one set."""

    rankings: tuple[tuple[str, ...], ...]
    """Passage ids a question, best first."""
    milliseconds: tuple[float, ...]
    """Time of each question, models excluded."""
    degraded: int
    """Questions for which the mode fell back to something lesser."""


def rank_documents(names: Sequence[str]) -> tuple[str, ...]:
    """Passage ids of the documents that the chunks of a context come from, each once, in order."""
    return tuple(dict.fromkeys(name.removesuffix(".md") for name in names))


async def measure_mode(rag: EasyKnowledgeRetriever, dataset: Dataset, mode: str) -> ModeResult:
    """Asks every answerable question in one mode."""
    rankings, times, degraded = [], [], 0
    for question in dataset.answerable:
        began = time.perf_counter()
        result = await rag.aquery(question.text, QueryParam(mode=mode, only_need_context=True))
        seconds = time.perf_counter() - began - result.timings.get("embed", 0.0)
        times.append(1000 * seconds)
        degraded += bool(result.degraded)
        rankings.append(rank_documents([str(chunk["file_path"]) for chunk in result.chunks]))
    return ModeResult(tuple(rankings), tuple(times), degraded)


def scores_of(dataset: Dataset, result: ModeResult, half: int | None = None) -> RetrievalScores:
    """Scores over all answerable questions, or over every second one from ``half`` on."""
    chosen = slice(None) if half is None else slice(half, None, 2)
    return mean_scores(result.rankings[chosen], [question.gold_ids for question in dataset.answerable][chosen])


def row(name: str, mode: str, scores: Sequence[float], milliseconds: float | None = None) -> str:
    """A line under :data:`HEAD`."""
    figures = "".join(f"{score:7.1f}" for score in scores)
    return f"{name:<13}{mode:<13}{figures}" + (f"{milliseconds:8.1f}" if milliseconds is not None else "")


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.base or Path(temporary), args.model, args.vectors)
        print(HEAD)
        for name in args.sets:
            dataset = load_dataset(args.data, name, args.limit)
            base = "ai_act-en" if name == "ai_act-fr-en" else name
            async with opened_base(bench, base, dataset.items) as rag:
                for mode, figures in BASELINES.get(name, {}).items():
                    print(row(name, f"({mode})", figures))
                for mode in args.modes:
                    result = await measure_mode(rag, dataset, mode)
                    print(row(name, mode, astuple(scores_of(dataset, result)), median(result.milliseconds)), flush=True)
                    if args.halves:
                        for half in (0, 1):
                            print(row(name, f"  half {half + 1}", astuple(scores_of(dataset, result, half))))
                    if result.degraded:
                        sys.stderr.write(f"{name} {mode}: {result.degraded} questions fell back to plain search\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.retrieval", description="Retrieval in every mode on every set.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--sets", nargs="+", default=DEFAULT_SETS, choices=tuple(SETS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--limit", type=int, help="only the first so many questions of a set")
    parser.add_argument("--halves", action="store_true", help="print both halves of the questions, too")
    parser.add_argument("--base", type=Path, help="folder that keeps the bases between runs; a temporary one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
