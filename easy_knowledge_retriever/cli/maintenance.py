"""Verbs about the state of things: verify, doctor, formats, version."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.doctor import doctor
from easy_knowledge_retriever.cli.output import counted, plain
from easy_knowledge_retriever.cli.verbs import INTEGRITY_FINDING, Run, verb
from easy_knowledge_retriever.errors import MissingExtraError
from easy_knowledge_retriever.parsing import formats as known_formats
from easy_knowledge_retriever.parsing import missing_formats

__all__ = ["register"]

_SHOWN_PACKAGES = ("easy-knowledge-retriever", "numpy", "onnxruntime", "openai", "liteparse", "tiktoken")


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "verify")(verify)
    verb(app, "doctor")(doctor)
    verb(app, "formats", base=False)(formats)
    verb(app, "version", base=False)(version)


async def verify(
    run: Run,
    deep: Annotated[bool, typer.Option("--deep", help="Also derive everything anew and compare.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Look deep and mend what can be derived without a model.")] = False,
    embed: Annotated[bool, typer.Option("--embed", help="With --repair: also embed what has no vector.")] = False,
) -> int:
    """Checks that the parts of the knowledge base agree. Exit code 9: they do not, or not all could be mended.

    Example: ekr verify --deep
    """
    async with run.base() as rag:
        report = await rag.verify(deep=deep, repair=repair, embed=embed)

    def show() -> None:
        for mended in report.repaired:
            run.screen.say(f"{mended.check} {mended.key}: mended: {mended.message}", style="green")
        for finding in report.findings:
            run.screen.say(f"{finding.check} {finding.key}: {finding.message}", style="red")
        seen = (
            counted(report.documents, "document"),
            counted(report.chunks, "chunk"),
            counted(report.entities, "entity", "entities"),
            counted(report.relations, "relation"),
        )
        findings = counted(len(report.findings), "finding") if report.findings else "no findings"
        run.screen.say(f"{findings} in {', '.join(seen)}", style="bold")

    run.screen.result({"clean": report.clean, **plain(report)}, show)
    return 0 if report.clean else INTEGRITY_FINDING


async def formats(run: Run) -> None:
    """Lists the file formats that can be read here, and what would add others.

    Example: ekr formats
    """
    known, missing = known_formats(), missing_formats()
    rows = [
        *known.items(),
        *((suffix, f"not installed: {MissingExtraError(suffix, extra).hint}") for suffix, extra in missing.items()),
    ]
    run.screen.result(
        {"formats": known, "missing": missing},
        lambda: run.screen.table(("suffix", "read by"), sorted(rows)),
    )


async def version(run: Run) -> None:
    """Shows the versions of this program and of what it rests on.

    Example: ekr version
    """
    versions = {package: _version(package) for package in _SHOWN_PACKAGES}
    versions |= {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    run.screen.result({"versions": versions}, lambda: run.screen.table(("", ""), list(versions.items())))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
