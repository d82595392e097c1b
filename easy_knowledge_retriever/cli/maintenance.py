"""Verbs about the state of things: verify, doctor, formats, version."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.output import counted, plain
from easy_knowledge_retriever.cli.services import embedding_model, language_model, reranker
from easy_knowledge_retriever.cli.verbs import INTEGRITY_FINDING, Run, verb
from easy_knowledge_retriever.errors import EKRError
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from easy_knowledge_retriever.parsing import formats as known_formats
from easy_knowledge_retriever.settings import environment

__all__ = ["register"]

_SHOWN_PACKAGES = ("easy-knowledge-retriever", "numpy", "onnxruntime", "openai", "liteparse", "tiktoken")


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "verify")(verify)
    verb(app, "doctor")(doctor)
    verb(app, "formats", base=False)(formats)
    verb(app, "version", base=False)(version)


async def verify(
    run: Run, deep: Annotated[bool, typer.Option("--deep", help="Also derive everything anew and compare.")] = False
) -> int:
    """Checks that the parts of the knowledge base agree. Exit code 9: they do not.

    Example: ekr verify --deep
    """
    async with run.base() as rag:
        report = await rag.verify(deep=deep)

    def show() -> None:
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


@dataclass(frozen=True, slots=True)
class Check:
    """What the doctor looked at and found."""

    name: str
    passed: bool
    found: str


async def doctor(run: Run) -> int:
    """Checks that everything needed is there and works; with an endpoint set, also that it answers.

    Example: ekr doctor
    """
    worst = 0
    checks: list[Check] = []
    examinations: tuple[tuple[str, Callable[[Run], Awaitable[str]]], ...] = (
        ("python", _python),
        ("sqlite", _sqlite),
        ("folder", _folder),
        ("key", _key),
        ("embedding", _embedding),
        ("language model", _language_model),
        ("reranker", _reranker),
        ("store", _store),
    )
    for name, examine in examinations:
        try:
            checks.append(Check(name, True, await examine(run)))
        except EKRError as failure:
            checks.append(Check(name, False, str(failure)))
            worst = worst or failure.exit_code
        except OSError as failure:
            checks.append(Check(name, False, str(failure)))
            worst = worst or 6

    def show() -> None:
        for check in checks:
            run.screen.say(
                f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.found}", style="" if check.passed else "red"
            )

    run.screen.result({"checks": checks}, show)
    return worst


async def _python(_: Run) -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


async def _sqlite(_: Run) -> str:
    return sqlite3.sqlite_version


async def _folder(run: Run) -> str:
    folder = Path(run.working_dir)
    standing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    with tempfile.TemporaryFile(dir=standing):
        return f"{folder} can be written to" if folder.exists() else f"{folder} does not exist yet and can be made"


async def _key(_: Run) -> str:
    return f"OPENAI_API_KEY is {'set' if environment().openai_api_key else 'not set'}"


async def _embedding(run: Run) -> str:
    service = embedding_model(run.models) or LocalEmbeddingService()
    try:
        await service.embed(("Is anybody there?",), "query")
        return f"{service.fingerprint} answers with {service.embedding_dim} dimensions"
    finally:
        await service.aclose()


async def _language_model(run: Run) -> str:
    service = language_model(run.models)
    if service is None:
        return "none set: answers are sentences of the documents"
    try:
        await service.complete((Message("user", "Answer with the word yes."),), max_tokens=200)
        return f"{service.model} answers"
    finally:
        await service.aclose()


async def _reranker(run: Run) -> str:
    service = reranker(run.models)
    if service is None:
        return "none set: the first search decides the order"
    try:
        await service.scores("Is anybody there?", ("Yes.", "No."))
        return f"{run.models.rerank_model} answers"
    finally:
        await service.aclose()


async def _store(run: Run) -> str:
    if not Path(run.working_dir).is_dir():
        return "none yet"
    async with run.base() as rag:
        counts = await rag.get_processing_status()
        return f"opens; {counted(sum(counts.values()), 'document')}"


async def formats(run: Run) -> None:
    """Lists the file formats that can be read.

    Example: ekr formats
    """
    known = known_formats()
    run.screen.result(
        {"formats": known},
        lambda: run.screen.table(("suffix", "read by"), [(suffix, parser) for suffix, parser in known.items()]),
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
