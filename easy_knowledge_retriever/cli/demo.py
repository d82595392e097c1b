"""The verb that shows what this is: demo."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.asking import show_answer
from easy_knowledge_retriever.cli.documents import ingest_files
from easy_knowledge_retriever.cli.progress import progress
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.types import DocStatus

__all__ = ["DemoQuestion", "demo_documents", "demo_questions", "register"]


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question about the demonstration documents and where its answer stands; no document if it has none."""

    question: str
    document: str | None
    page: int | None

    def found_in(self, result: QueryResult) -> bool:
        """Whether the answer cites the right document and page, or refuses what has no answer."""
        if self.document is None:
            return result.refused
        return any(
            reference.file_path == self.document and (self.page is None or self.page in reference.pages)
            for reference in result.references
        )


def _shipped() -> Path:
    return Path(str(resources.files("easy_knowledge_retriever.cli") / "data"))


def demo_documents() -> list[Path]:
    """The documents that come with the package."""
    return sorted(path for path in _shipped().iterdir() if path.suffix in (".pdf", ".md"))


def demo_questions() -> list[DemoQuestion]:
    """Questions about them."""
    return [DemoQuestion(**item) for item in json.loads((_shipped() / "questions.json").read_text(encoding="utf-8"))]


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    verb(app, "demo")(demo)


async def demo(
    run: Run,
    mode: Annotated[str, typer.Option("--mode", "-m", help="How to search.")] = "hybrid_mix",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the knowledge base, in the folder of --working-dir.")] = False,
) -> int:
    """Reads two documents that come with the program and answers questions about them. Needs no key and no network.

    Example: ekr demo
    """
    if keep:
        return await _demo(run, mode)
    with tempfile.TemporaryDirectory(prefix="ekr-demo-") as folder:
        return await _demo(replace(run, working_dir=folder), mode)


async def _demo(run: Run, mode: str) -> int:
    files = [(path, path.name) for path in demo_documents()]
    with progress(run.screen, len(files)) as observer:
        async with run.base(observer, create=True) as rag:
            reports = await ingest_files(rag, files)
            answered = [(item, await rag.aquery(item.question, QueryParam(mode=mode))) for item in demo_questions()]
    found = sum(item.found_in(result) for item, result in answered)

    def show() -> None:
        for item, result in answered:
            run.screen.say(f"\n? {item.question}", style="bold")
            show_answer(run.screen, result)
        run.screen.say(
            f"\n{found} of {len(answered)} questions were answered from the right page, or rightly refused.", style="bold"
        )

    answers = [
        {"question": item.question, "answer": result.content, "refused": result.refused, "references": result.references}
        for item, result in answered
    ]
    run.screen.result({"answers": answers, "found": found}, show)
    return 0 if all(report.status is DocStatus.PROCESSED for report in reports) else 3
