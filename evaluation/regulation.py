"""The EU AI Act, asked in two languages in every mode: ``python -m evaluation.regulation --data DIR``.

The French Official Journal (one PDF of 144 pages) and the English text (306 units, one document each). For every mode:
the share of gold articles found among the first 5 and among all passages of the context, the share of answered questions
whose first citation, and whose citations at all, point at a right page or unit, and how many refusals are right.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam, QueryResult
from evaluation.bases import Bench, embedding_service, opened_base
from evaluation.datasets import Question, load_dataset
from evaluation.retrieval import MODES

__all__ = ["Outcome", "Place", "main", "outcome", "pages_place", "units_place"]

Place = Callable[[Question, str, Iterable[int]], set[int]]
"""Which of a question's gold articles (by position) a passage of this file and these pages belongs to."""
HEAD = (
    f"{'base':<9}{'asked in':<10}{'mode':<12}{'found@5':>9}{'found':>8}{'cited 1st':>11}{'cited':>8}"
    f"{'refused right':>15}{'refused wrong':>15}"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one question went."""

    answerable: bool
    refused: bool
    found_5: float = 0.0
    """Share of its gold articles among the first five passages."""
    found: float = 0.0
    """The same among all passages of the context."""
    first_right: bool = False
    any_right: bool = False


def pages_place(question: Question, file_path: str, pages: Iterable[int]) -> set[int]:
    """Gold articles that stand on one of the pages."""
    seen = set(pages)
    return {position for position, gold in enumerate(question.gold_pages) if seen & set(gold)}


def units_place(question: Question, file_path: str, pages: Iterable[int]) -> set[int]:
    """The gold article that the document is."""
    name = file_path.removesuffix(".md")
    return {position for position, gold in enumerate(question.gold_ids) if gold == name}


def outcome(question: Question, result: QueryResult, place: Place) -> Outcome:
    """What a result is worth."""
    if not question.gold_ids:
        return Outcome(answerable=False, refused=result.refused)
    passages = [
        place(question, str(c["file_path"]), range(c["page_start"] or 0, (c["page_end"] or 0) + 1)) for c in result.chunks
    ]
    cited = [place(question, c.file_path, [c.page] if c.page else []) for c in result.citations]
    return Outcome(
        answerable=True,
        refused=result.refused,
        found_5=_share(passages[:5], question),
        found=_share(passages, question),
        first_right=bool(cited and cited[0]),
        any_right=any(cited),
    )


def _share(places: Sequence[set[int]], question: Question) -> float:
    return len(set().union(*places)) / len(question.gold_ids)


def row(outcomes: Sequence[Outcome]) -> str:
    """The figures of one mode."""
    wanted = [o for o in outcomes if o.answerable]
    answered = [o for o in wanted if not o.refused]
    foreign = [o for o in outcomes if not o.answerable]

    def share(values: Sequence[float]) -> float:
        return 100 * sum(values) / max(len(values), 1)

    right = f"{sum(o.refused for o in foreign)} of {len(foreign)}"
    wrong = f"{len(wanted) - len(answered)} of {len(wanted)}"
    return (
        f"{share([o.found_5 for o in wanted]):9.1f}{share([o.found for o in wanted]):8.1f}"
        f"{share([o.first_right for o in answered]):11.1f}{share([o.any_right for o in answered]):8.1f}{right:>15}{wrong:>15}"
    )


async def _ask(
    rag: EasyKnowledgeRetriever, questions: Sequence[Question], place: Place, label: str, modes: Sequence[str]
) -> None:
    for mode in modes:
        results = [await rag.aquery(question.text, QueryParam(mode=mode)) for question in questions]
        outcomes = [outcome(question, result, place) for question, result in zip(questions, results, strict=True)]
        print(f"{label:<19}{mode:<12}{row(outcomes)}", flush=True)


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    english, french = load_dataset(args.data, "ai_act-en"), load_dataset(args.data, "ai_act-fr")
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.base or Path(temporary), args.model, args.vectors)
        print(HEAD)
        folder = bench.folder / "-".join(("ai_act-pdf", bench.model or "default"))
        async with EasyKnowledgeRetriever(working_dir=str(folder), embedding_service=embedding_service(bench)) as rag:
            report = await rag.ingest(args.data / "regulation/ai_act/ai_act_fr.pdf", name="ai_act_fr.pdf")
            sys.stderr.write(f"ai_act_fr.pdf: {report.chunks} chunks on {report.pages} pages\n")
            await _ask(rag, french.questions, pages_place, f"{'pdf fr':<9}French", args.modes)
            await _ask(rag, english.questions, pages_place, f"{'pdf fr':<9}English", args.modes)
        async with opened_base(bench, "ai_act-en", english.items) as rag:
            await _ask(rag, english.questions, units_place, f"{'units en':<9}English", args.modes)
            await _ask(rag, french.questions, units_place, f"{'units en':<9}French", args.modes)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.regulation", description="The EU AI Act in every mode.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--base", type=Path, help="folder that keeps the bases between runs; a temporary one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
