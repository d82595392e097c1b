"""Builds a knowledge base from documents and asks it questions. ``run.py`` beside this file does the set-up and starts it.

Without a path: the documents of this project, among them a PDF, and questions whose answers are known, so that the
pages can be checked. With paths: yours, and questions that come from their headings or from ``--ask``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, EKRError, ParseError, QueryParam, QueryResult
from easy_knowledge_retriever.cli.demo import DemoQuestion, demo_documents, demo_questions
from easy_knowledge_retriever.parsing import Source, can_parse, parser_for
from easy_knowledge_retriever.types import DocStatus

ROOT = Path(__file__).resolve().parent.parent
QUESTIONS_FROM_HEADINGS = 6
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


def own_documents() -> Corpus:
    """The documentation of this project, the demonstration PDF and its incident report."""
    shipped = {path.name: path for path in demo_documents()}
    written = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [(path, path.relative_to(ROOT).as_posix()) for path in written if path.parent.name != "demo"]
    return Corpus(
        files=(*((path, name) for name, path in shipped.items()), *pages),
        questions=(*demo_questions(), *ABOUT_THE_PROJECT),
        checked=True,
    )


def documents_of(paths: Iterable[Path], asked: tuple[str, ...]) -> Corpus:
    """Every file below these paths that can be read."""
    files = []
    for path in paths:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        files += [
            (file, file.name if file == path else file.relative_to(path).as_posix())
            for file in below
            if file.is_file() and can_parse(file)
        ]
    return Corpus(tuple(files), tuple(DemoQuestion(text, None, None) for text in asked), checked=False)


async def build(rag: EasyKnowledgeRetriever, corpus: Corpus) -> None:
    """Ingests every file; one that cannot be read is named and left out."""
    for number, (path, name) in enumerate(corpus.files, start=1):
        report = await rag.ingest(path, name=name, raise_on_error=False)
        if report.status is not DocStatus.PROCESSED:
            outcome = f"not read: {report.error}"
        elif report.unchanged:
            outcome = "unchanged"
        else:
            outcome = f"{report.pages} pages, {report.chunks} chunks" if report.pages else f"{report.chunks} chunks"
        print(f"  {number}/{len(corpus.files)} {name}: {outcome}", flush=True)


def questions_from_headings(files: Iterable[tuple[Path, str]]) -> tuple[DemoQuestion, ...]:
    """Questions about headings of the documents, spread over them."""
    headings: dict[str, None] = {}
    for path, name in files:
        try:
            document = parser_for(path).parse(Source(name, path.read_bytes()))
        except ParseError:
            continue  # it was named when it was read
        lines = (document.text[block.start : block.end] for block in document.blocks if block.kind == "heading")
        headings.update((heading, None) for line in lines if (heading := line.strip("#*. \n0123456789")))
        if len(headings) > 10 * QUESTIONS_FROM_HEADINGS:
            break
    chosen = list(headings)[:: max(1, len(headings) // QUESTIONS_FROM_HEADINGS)][:QUESTIONS_FROM_HEADINGS]
    return tuple(DemoQuestion(f"What is said about “{heading}”?", None, None) for heading in chosen)


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
    corpus = documents_of(arguments.paths, tuple(arguments.ask)) if arguments.paths else own_documents()
    if not corpus.files:
        print("There is no file here that can be read; 'ekr formats' lists what can.", file=sys.stderr)
        return 1
    async with EasyKnowledgeRetriever(working_dir=arguments.working_dir or _folder(arguments.paths)) as rag:
        print(f"Reading {len(corpus.files)} documents …")
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
