"""Calibrates the refusal of extractive answers: ``python -m evaluation.calibration --data DIR``.

Every question is asked three times: of its own base; of its own base with its gold passages hidden by a filter, so that
only look-alikes are left; and of the base of another set in the same language. The first should be answered, the others
refused (a few of the second kind are answered by another passage all the same, which makes the figures pessimistic).
The score of the best sentence is recorded; every second question fits the threshold, the others test it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam, SearchFilter
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.answering import REFUSAL_THRESHOLD, ExtractiveAnswerer
from easy_knowledge_retriever.retrieval import HybridMixRetrieval
from evaluation.bases import Bench, embedding_service, opened_base
from evaluation.datasets import Dataset, Question, load_dataset

__all__ = ["Scored", "balanced_accuracy", "best_threshold", "main"]

NEIGHBOURS = {"2wiki": "ai_act-en", "musique": "ai_act-en", "piaf": "ai_act-fr", "ai_act-en": "2wiki", "ai_act-fr": "piaf"}
"""Set to the one whose base does not answer its questions."""
STEPS = tuple(step / 100 for step in range(10, 91, 2))


@dataclass(frozen=True, slots=True)
class Scored:
    """A question as it was asked once, with the score of the best sentence found."""

    set_name: str
    kind: str
    """``own``, ``hidden``, ``foreign`` or ``unanswerable``."""
    score: float

    @property
    def answerable(self) -> bool:
        """Whether it should be answered."""
        return self.kind == "own"


def balanced_accuracy(scored: Sequence[Scored], threshold: float) -> float:
    """Mean of the share of answerable questions answered and the share of the others refused."""
    answerable = [s.score >= threshold for s in scored if s.answerable]
    others = [s.score < threshold for s in scored if not s.answerable]
    return (sum(answerable) / max(len(answerable), 1) + sum(others) / max(len(others), 1)) / 2


def best_threshold(scored: Sequence[Scored]) -> float:
    """The threshold of highest balanced accuracy, each set counting the same; the middle of the best ones."""
    names = sorted({s.set_name for s in scored})

    def mean(threshold: float) -> float:
        return sum(balanced_accuracy([s for s in scored if s.set_name == name], threshold) for name in names) / len(names)

    values = {step: mean(step) for step in STEPS}
    best = [step for step, value in values.items() if value >= max(values.values()) - 1e-9]
    return best[len(best) // 2]


async def _score(
    rag: EasyKnowledgeRetriever, embedding: EmbeddingService, question: Question, hidden: SearchFilter | None
) -> float:
    context = await rag.retrieve(question.text, HybridMixRetrieval(), QueryParam(filter=hidden or SearchFilter()))
    best = await ExtractiveAnswerer(embedding).best_scores(question.text, context.passages)
    return best[0].score if best else 0.0


async def _scored(
    own: EasyKnowledgeRetriever, other: EasyKnowledgeRetriever, embedding: EmbeddingService, dataset: Dataset
) -> list[Scored]:
    ids = {record.name: record.id for record in await own.get_docs()}
    found = []
    for number, question in enumerate(dataset.questions, start=1):
        if not question.gold_ids:
            found.append(Scored(dataset.name, "unanswerable", await _score(own, embedding, question, None)))
            continue
        gold = {f"{gold_id}.md" for gold_id in question.gold_ids}
        rest = SearchFilter(document_ids=frozenset(ids[name] for name in ids if name not in gold))
        found.append(Scored(dataset.name, "own", await _score(own, embedding, question, None)))
        found.append(Scored(dataset.name, "hidden", await _score(own, embedding, question, rest)))
        found.append(Scored(dataset.name, "foreign", await _score(other, embedding, question, None)))
        if number % 20 == 0:
            sys.stderr.write(f"{dataset.name}: {number} of {len(dataset.questions)} questions\n")
    return found


def _halves(scored: Sequence[Scored]) -> tuple[list[Scored], list[Scored]]:
    """Every second of each set and kind fits, the others test."""
    halves: tuple[list[Scored], list[Scored]] = ([], [])
    counts: dict[tuple[str, str], int] = {}
    for one in scored:
        place = counts.get((one.set_name, one.kind), 0)
        counts[one.set_name, one.kind] = place + 1
        halves[place % 2].append(one)
    return halves


def _print(scored: Sequence[Scored]) -> None:
    fit, test = _halves(scored)
    print(f"{'threshold':>9}{'answered':>10}{'refused':>9}{'balanced':>10}   on the half that fits")
    for step in STEPS[::2]:
        own = [s.score >= step for s in fit if s.answerable]
        rest = [s.score < step for s in fit if not s.answerable]
        print(f"{step:9.2f}{sum(own) / len(own):10.3f}{sum(rest) / len(rest):9.3f}{balanced_accuracy(fit, step):10.3f}")
    chosen = best_threshold(fit)
    print(f"chosen {chosen:.2f}, in use {REFUSAL_THRESHOLD:.2f}")
    print(f"{'set':<12}{'kind':<14}{'right, fit':>11}{'right, test':>12}{'right, test, in use':>21}")
    for name, kind in sorted({(s.set_name, s.kind) for s in scored}):
        cells = [_right(fit, name, kind, chosen), _right(test, name, kind, chosen), _right(test, name, kind, REFUSAL_THRESHOLD)]
        print(f"{name:<12}{kind:<14}{cells[0]:11.3f}{cells[1]:12.3f}{cells[2]:21.3f}")
    print(f"balanced accuracy on the half that tests: {balanced_accuracy(test, chosen):.3f}")


def _right(scored: Sequence[Scored], name: str, kind: str, threshold: float) -> float:
    chosen = [s for s in scored if s.set_name == name and s.kind == kind]
    return sum((s.score >= threshold) == s.answerable for s in chosen) / max(len(chosen), 1)


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.base or Path(temporary), args.model, args.vectors)
        embedding = embedding_service(bench)
        scored: list[Scored] = []
        for name in args.sets:
            async with AsyncExitStack() as stack:
                dataset = load_dataset(args.data, name, args.limit)
                other = load_dataset(args.data, NEIGHBOURS[name])
                own_rag = await stack.enter_async_context(opened_base(bench, name, dataset.items))
                other_rag = await stack.enter_async_context(opened_base(bench, other.name, other.items))
                scored += await _scored(own_rag, other_rag, embedding, dataset)
        await embedding.aclose()
        _print(scored)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.calibration", description="Calibrates the refusal.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--sets", nargs="+", default=tuple(NEIGHBOURS), choices=tuple(NEIGHBOURS))
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--limit", type=int, default=60, help="the first so many answerable questions of a set")
    parser.add_argument("--base", type=Path, help="folder that keeps the bases between runs; a temporary one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
