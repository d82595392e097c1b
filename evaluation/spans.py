"""What chunks hold of the text that was wanted: ``python -m evaluation.spans --data DIR``.

Two long texts, each a base of its own, whose questions know the characters that answer them. For every way to cut:

- recall: of the gold characters, the share that stands in the passages of the first five chunks;
- precision: of the characters of these passages, the share that is gold;
- IoU: gold that was found over all that is gold or was shown.

Each is averaged over the questions. A character that two chunks share counts once. ``*`` marks the Pareto front: no other way
to cut is better in one of recall and precision and no worse in the other.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.operations.chunking import ChunkingFunction, chunking_by_token_size
from easy_knowledge_retriever.text.sentences import sentences
from evaluation.bases import Bench, embedding_service
from evaluation.datasets import read_jsonl

__all__ = ["CHUNKERS", "Cut", "Scores", "front", "main", "scores", "table"]

TEXTS = ("state_of_the_union", "wikitexts")
SHOWN = 5
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to cut: arguments of the retriever, and perhaps a marker."""

    options: Mapping[str, Any] = field(default_factory=dict)
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares of characters, 0 to 100."""

    recall: float
    precision: float
    iou: float


def sentence_windows(tokenizer: object, content: str, *_: object, **__: object) -> list[dict[str, Any]]:
    """A chunk for every five sentences, of which it shares two with the one before."""
    spans = sentences(content)
    windows = (spans[at : at + 5] for at in range(0, max(len(spans) - 2, 1), 3))
    found = ((window[0][0], window[-1][1]) for window in windows if window)
    return [{"content": content[start:end], "start": start, "end": end} for start, end in found]


def _sized(size: int, overlap: int, parent: int | None = None, function: ChunkingFunction | None = None) -> Cut:
    options: dict[str, Any] = {"chunk_token_size": size, "chunk_overlap_token_size": overlap}
    if parent is not None:
        options["parent_chunk_token_size"] = parent
    if function is not None:
        options["chunking_func"] = function
    return Cut(options)


def by_token_size(*arguments: Any, **named: Any) -> Any:
    """The public function itself: as the retriever's own default it would stand for a cut along the structure."""
    return chunking_by_token_size(*arguments, **named)


CHUNKERS: Mapping[str, Cut] = {
    "structure 1200/100 (default)": _sized(1200, 100),
    "structure 400/100": _sized(400, 100),
    "structure 400/0": _sized(400, 0),
    "structure 200/50": _sized(200, 50),
    "structure 200/0": _sized(200, 0),
    "structure 100/0": _sized(100, 0),
    "chunking_by_token_size 1200/100": _sized(1200, 100, function=by_token_size),
    "chunking_by_token_size 400/100": _sized(400, 100, function=by_token_size),
    "chunking_by_token_size 200/50": _sized(200, 50, function=by_token_size),
    "split_by_character line": Cut({"chunk_token_size": 1200}, "\n"),
    "five sentences, two shared": _sized(1200, 100, function=sentence_windows),
    "children 100/0, parents 400": _sized(100, 0, 400),
    "children 200/0, parents 1200": _sized(200, 0, 1200),
}


def scores(gold: Iterable[Span], shown: Iterable[Span]) -> Scores:
    """Recall, precision and IoU of the characters of one question."""
    wanted, seen = _characters(gold), _characters(shown)
    both = len(wanted & seen)
    return Scores(100 * both / max(len(wanted), 1), 100 * both / max(len(seen), 1), 100 * both / max(len(wanted | seen), 1))


def _characters(spans: Iterable[Span]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


def front(found: Mapping[str, Scores]) -> set[str]:
    """The names of those that no other one beats in one of recall and precision without losing in the other."""

    def beats(one: Scores, other: Scores) -> bool:
        better = (one.recall - other.recall, one.precision - other.precision)
        return min(better) >= 0 and max(better) > 0

    return {name for name, mine in found.items() if not any(beats(other, mine) for other in found.values())}


def table(found: Mapping[str, Scores], chunks: Mapping[str, int]) -> str:
    """The figures in Markdown."""
    best = front(found)
    rows = [
        f"| {name} | {chunks[name]} | {s.recall:.1f} | {s.precision:.1f} | {s.iou:.1f} | {'*' if name in best else ''} |"
        for name, s in found.items()
    ]
    return "\n".join(["| cut | chunks | recall | precision | IoU | front |", "| --- | --- | --- | --- | --- | --- |", *rows])


async def measured(bench: Bench, data: Path, cut: Cut, mode: str) -> tuple[int, list[Scores]]:
    """Number of chunks, and what each question of both texts found."""
    found: list[Scores] = []
    chunks = 0
    for name in TEXTS:
        text = (data / "spans" / f"{name}.md").read_bytes().decode()
        with tempfile.TemporaryDirectory() as folder:
            async with EasyKnowledgeRetriever(folder, embedding_service=embedding_service(bench), **cut.options) as rag:
                await rag.ainsert(text, split_by_character=cut.marker, file_paths=f"{name}.txt")
                chunks += sum(record.chunk_count for record in await rag.get_docs())
                for row in read_jsonl(data / "spans" / f"{name}.questions.jsonl"):
                    context = await rag.retrieve(row["question"], param=QueryParam(mode=mode, chunk_top_k=SHOWN))
                    gold = [(span["start"], span["end"]) for span in row["gold_spans"]]
                    shown = [passage.chunk for passage in context.passages]
                    if any(chunk.text != text[chunk.start : chunk.end] for chunk in shown):
                        raise SystemExit(f"{name}: a passage is not the slice of the text that it says it is")
                    found.append(scores(gold, [(chunk.start, chunk.end) for chunk in shown]))
    return chunks, found


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    means: dict[str, Scores] = {}
    chunks: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(temporary), args.model, args.vectors or Path(temporary) / "vectors")
        for name in args.cuts:
            chunks[name], found = await measured(bench, args.data, CHUNKERS[name], args.mode)
            means[name] = Scores(mean(s.recall for s in found), mean(s.precision for s in found), mean(s.iou for s in found))
            sys.stderr.write(f"{name}: {means[name]}\n")
    print(table(means, chunks))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.spans", description="How much of the wanted text chunks hold.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--mode", default="mix", help="mode the questions are asked in")
    parser.add_argument("--cuts", nargs="+", default=tuple(CHUNKERS), choices=tuple(CHUNKERS), help="ways to cut")
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
