"""The verb that looks whether everything needed is there: doctor."""

from __future__ import annotations

import functools
import platform
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.output import counted
from easy_knowledge_retriever.cli.services import embedding_model, language_model, reranker
from easy_knowledge_retriever.cli.verbs import Run
from easy_knowledge_retriever.errors import EKRError, StoreVersionError
from easy_knowledge_retriever.kg.sqlite.migration import outlook
from easy_knowledge_retriever.kg.sqlite.store import FILE_NAME
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from easy_knowledge_retriever.llm.probing import ContextProbe, ModelProbe, probe_context, probe_model
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.storages import DEFAULT_BACKEND

__all__ = ["doctor"]

_JSON = {
    "json_schema": "JSON by schema",
    "json_object": "JSON as any object",
    "text": "JSON in words only",
    "none": "no JSON",
}
_PROBED = 5000
"""Tokens: more than the 4096 that some servers read where nothing else is set."""


@dataclass(frozen=True, slots=True)
class Check:
    """What the doctor looked at and found."""

    name: str
    passed: bool
    found: str
    warning: bool = False
    """Whether it works, but not as one would expect."""


class _Warned(str):
    """What was found, and is not as one would expect."""

    __slots__ = ()


async def doctor(
    run: Run,
    context: Annotated[
        int, typer.Option("--context", min=0, help="Tokens of a prompt that the language model must read whole; 0: none is sent.")
    ] = _PROBED,
) -> int:
    """Checks that everything needed is there and works; of an endpoint, also what it can do and whether it cuts long prompts.

    Example: ekr doctor --llm-model gpt-4o-mini --context 30000
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
        ("context", functools.partial(_context, tokens=context)),
        ("reranker", _reranker),
        ("format", _format),
        ("store", _store),
    )
    for name, examine in examinations:
        try:
            found = await examine(run)
            checks.append(Check(name, True, str(found), isinstance(found, _Warned)))
        except EKRError as failure:
            checks.append(Check(name, False, str(failure)))
            worst = worst or failure.exit_code
        except OSError as failure:
            checks.append(Check(name, False, str(failure)))
            worst = worst or 6

    def show() -> None:
        for check in checks:
            mark, style = ("FAIL", "red") if not check.passed else ("warn", "yellow") if check.warning else ("ok  ", "")
            run.screen.say(f"{mark} {check.name}: {check.found}", style=style)

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
        batch = "" if isinstance(service, LocalEmbeddingService) else f", {service.batch_num} texts a request"
        return f"{service.fingerprint} answers with {service.embedding_dim} dimensions{batch}"
    finally:
        await service.aclose()


async def _language_model(run: Run) -> str:
    service = language_model(run.models)
    if service is None:
        return "none set: answers are sentences of the documents"
    try:
        return f"{service.model} answers; {_described(await probe_model(service))}"
    finally:
        await service.aclose()


def _described(probe: ModelProbe) -> str:
    able = [_JSON[probe.json], "thinks before it answers" if probe.thinks else "does not think aloud"]
    return ", ".join([*able, f"takes {probe.token_field}"])


async def _context(run: Run, tokens: int) -> str:
    service = language_model(run.models)
    if service is None or not tokens:
        return "not looked at"
    try:
        return _judged(await probe_context(service, tokens))
    finally:
        await service.aclose()


def _judged(probe: ContextProbe) -> str:
    size = f"a prompt of about {probe.tokens} tokens"
    match probe.outcome:
        case "read":
            return f"{size} is read whole"
        case "refused":
            return f"{size} is refused, and the server says so"
        case "cut":
            read = f"; it counts {probe.counted}" if probe.counted else ""
            return _Warned(
                f"{size} is cut without a word{read}: give the server more context (num_ctx), or keep max_total_tokens below it"
            )
        case "late":
            return _Warned(f"{size} is not answered in time: raise EKR_LLM_TIMEOUT, or try a smaller --context")
        case _:
            return _Warned(f"whether {size} is read whole could not be seen from the answer")


async def _reranker(run: Run) -> str:
    service = reranker(run.models)
    if service is None:
        return "none set: the first search decides the order"
    try:
        await service.scores("Is anybody there?", ("Yes.", "No."))
        return f"{run.models.rerank_model} answers, to requests like those of {service.features.style}"
    finally:
        await service.aclose()


async def _format(run: Run) -> str:
    path = Path(run.working_dir) / FILE_NAME
    if run.backend != DEFAULT_BACKEND or not path.is_file():
        return "not looked at"
    seen = outlook(path)
    match seen.verdict:
        case "current":
            return f"{seen.found}, as this library writes it"
        case "upgrade":
            return _Warned(
                f"{seen.found}: opening the base makes it {seen.known}, in one step that can be killed; back it up before"
            )
        case "too_new":
            raise StoreVersionError(
                f"{str(path)!r} has format {seen.found}, this library knows up to {seen.known}",
                hint="upgrade easy-knowledge-retriever",
            )
        case _:
            raise StoreVersionError(f"{str(path)!r} has format {seen.found}, from before the first release", hint="ingest anew")


async def _store(run: Run) -> str:
    if not Path(run.working_dir).is_dir():
        return "none yet"
    async with run.base() as rag:
        counts, model = await rag.get_processing_status(), await rag.get_embedding()
    documents = counted(sum(counts.values()), "document")
    if model is None:
        return f"opens; {documents}"
    opened = f"opens; {documents}, vectors of {model.fingerprint} with {model.dimension} dimensions"
    return opened if model.is_configured else _Warned(f"{opened}, not those of the model configured: run 'ekr reindex'")
