"""Builds a knowledge base from documents and asks it questions. ``run.py`` beside this file does the set-up and starts it.

Without a path: the documents of this project, among them a PDF, and questions whose answers are known, so that the
pages can be checked. With paths: yours, and questions that come from their headings or from ``--ask``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, EKRError, ParseError, QueryParam, QueryResult
from easy_knowledge_retriever.cli.demo import DemoQuestion, demo_documents, demo_questions
from easy_knowledge_retriever.cli.files import Skipped, find_files
from easy_knowledge_retriever.cli.output import counted
from easy_knowledge_retriever.parsing import Source, can_parse, parser_for
from easy_knowledge_retriever.types import DocStatus

ROOT = Path(__file__).resolve().parent.parent
QUESTIONS_FROM_HEADINGS = 6
LONGEST_HEADING = 80
ABOUT_THE_PROJECT = (
    DemoQuestion("Which exit code of the command means that another process is writing?", "docs/reference/cli.md", None),
    DemoQuestion("Why does the graph keep extractions and derive entities from them?", "docs/concepts/graph.md", None),
    DemoQuestion("Which mode searches with BM25 alone?", "docs/concepts/modes.md", None),
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files with the names of their documents, and the questions to ask about them."""

    files: tuple[tuple[Path, str], ...]
    questions: tuple[DemoQuestion, ...]
    checked: bool
    """Whether the right pages are known."""
    skipped: tuple[Skipped, ...] = ()


def own_documents() -> Corpus:
    """The documentation of this project, the demonstration PDF and its incident report."""
    shipped = {path.name: path for path in demo_documents()}
    written = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    # The source of the handbook stands there already as PDF, and the benchmarks quote answers about the incident report.
    left_out = {ROOT / "docs" / "demo" / "handbook.md", ROOT / "docs" / "benchmarks.md"}
    pages = [(path, path.relative_to(ROOT).as_posix()) for path in written if path not in left_out]
    return Corpus(
        files=(*((path, name) for name, path in shipped.items()), *pages),
        questions=(*demo_questions(), *ABOUT_THE_PROJECT),
        checked=True,
    )


def documents_of(paths: Sequence[Path]) -> Corpus:
    """Every file below these paths that can be read, and those that cannot."""
    found = find_files(paths, can_parse)
    return Corpus(found.files, questions=(), checked=False, skipped=found.skipped)


async def build(rag: EasyKnowledgeRetriever, corpus: Corpus) -> None:
    """Ingests every file; one that cannot be read is named and left out."""
    for number, (path, name) in enumerate(corpus.files, start=1):
        report = await rag.ingest(path, name=name, raise_on_error=False)
        if report.status is not DocStatus.PROCESSED:
            outcome = report.error
        elif report.unchanged:
            outcome = f"{name}: unchanged"
        else:
            pages = f"{counted(report.pages, 'page')}, " if report.pages else ""
            outcome = f"{name}: {pages}{counted(report.chunks, 'chunk')}"
        print(f"  {number}/{len(corpus.files)} {outcome}", flush=True)


def questions_from_headings(files: Iterable[tuple[Path, str]]) -> tuple[DemoQuestion, ...]:
    """Questions about headings of the documents, spread over them."""
    headings: dict[str, str] = {}
    for path, name in files:
        try:
            document = parser_for(path).parse(Source(name, path.read_bytes()))
        except ParseError:
            continue  # it was named when it was read
        lines = (document.text[block.start : block.end] for block in document.blocks if block.kind == "heading")
        for heading in filter(None, map(subject, lines)):
            headings.setdefault(heading.casefold(), heading)
        if len(headings) > 10 * QUESTIONS_FROM_HEADINGS:
            break
    chosen = list(headings.values())[:: max(1, len(headings) // QUESTIONS_FROM_HEADINGS)][:QUESTIONS_FROM_HEADINGS]
    return tuple(DemoQuestion(f"What is said about “{heading}”?", None, None) for heading in chosen)


def subject(heading: str) -> str:
    """What a heading is about, without its marks and its number; empty if it is no heading to ask about.

    What a parser takes for a heading may be a row of a table, a page number or a whole sentence in bold.
    """
    if "|" in heading or re.search(r"\S(?:\t| {3,})\S", heading):
        return ""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(heading.split()))
    text = re.sub(r"^(?:\d+\.)*\d+[.)]?\s+(?=\D)", "", text.strip("#*_` ")).strip("*_`.: ").replace("`", "")
    letters = sum(character.isalpha() for character in text)
    worth_asking = letters >= 3 and letters > len(text) / 2 and len(text) <= LONGEST_HEADING
    return text if worth_asking else ""


def show(item: DemoQuestion, result: QueryResult, *, checked: bool) -> bool:
    """Prints a question with its answer and its sources; True if the source is the right one."""
    print(f"\nQ: {item.question}\nA: {result.content.strip()}")
    for reference in result.references:
        pages = f", page {', '.join(map(str, reference.pages))}" if reference.pages else ""
        print(f"   [{reference.reference_id}] {reference.file_path}{pages}")
    right = item.found_in(result)
    if checked and not right:
        wanted = f"{item.document}{f', page {item.page}' if item.page else ''}" if item.document else "a refusal"
        print(f"   (expected: {wanted})")
    return right


async def main(arguments: argparse.Namespace) -> int:
    """Builds, asks, and says how long it took."""
    started = time.monotonic()
    corpus = documents_of(arguments.paths) if arguments.paths else own_documents()
    if arguments.ask:
        asked = tuple(DemoQuestion(text, None, None) for text in arguments.ask)
        corpus = replace(corpus, questions=asked, checked=False)
    for skipped in corpus.skipped:
        print(f"Skipped {skipped.path}: {skipped.reason}")
    if not corpus.files:
        print("There is no file here that can be read; 'ekr formats' lists what can.", file=sys.stderr)
        return 1
    async with EasyKnowledgeRetriever(working_dir=arguments.working_dir or _folder(arguments.paths)) as rag:
        print(f"Reading {counted(len(corpus.files), 'document')} …")
        await build(rag, corpus)
        questions = corpus.questions or questions_from_headings(corpus.files)
        right = 0
        for item in questions:
            right += show(item, await rag.aquery(item.question, QueryParam(mode=arguments.mode)), checked=corpus.checked)
    if corpus.checked:
        print(f"\n{right} of {len(questions)} answers cite the expected document and page, or rightly refuse.")
    print(f"Done in {time.monotonic() - started:.0f} s.")
    return 0


def _folder(paths: list[Path]) -> Path:
    """A knowledge base for each set of paths, so that two never mix."""
    if not paths:
        return ROOT / "rag_data" / "own_documents"
    digest = hashlib.sha256("\0".join(str(path.resolve()) for path in paths).encode()).hexdigest()
    return ROOT / "rag_data" / f"yours_{digest[:10]}"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="example/run.py", description="Builds a knowledge base and asks it questions.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders (default: this project's own)")
    parser.add_argument("--ask", action="append", default=[], metavar="QUESTION", help="a question of yours; repeatable")
    parser.add_argument("--mode", default="hybrid_mix", help="how to search (default: hybrid_mix)")
    parser.add_argument("--working-dir", help="where the knowledge base is kept (default: below rag_data/)")
    parsed = parser.parse_args(arguments)
    for path in parsed.paths:
        if not path.exists():
            parser.error(f"there is no file or folder {str(path)!r}")
    return parsed


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(parse(sys.argv[1:]))))
    except EKRError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
