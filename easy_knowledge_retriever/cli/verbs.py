"""What every verb has in common: its flags, its knowledge base, its exit code.

A verb is a coroutine function whose first parameter is a :class:`Run`. :func:`verb` adds the flags that stand everywhere,
runs it, and turns an error of ours into one message with its hint and the exit code of the error. Any other error is a
fault of the program: it ends with a traceback and exit code 1.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from easy_knowledge_retriever.cli.output import Screen
from easy_knowledge_retriever.cli.services import ModelOptions, retriever
from easy_knowledge_retriever.errors import EKRError, NotFound
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.settings import Settings, command_environment
from easy_knowledge_retriever.storages import DEFAULT_BACKEND, STORAGE_SETS

__all__ = ["CLOSED_PIPE", "FAILED_DOCUMENTS", "INTEGRITY_FINDING", "INTERRUPTED", "NOT_FOUND", "USAGE", "Run", "verb"]

USAGE, FAILED_DOCUMENTS, NOT_FOUND, INTEGRITY_FINDING, INTERRUPTED, CLOSED_PIPE = 2, 3, 4, 9, 130, 141
"""Exit codes that are not those of an error. 0 is done, 1 a fault of the program."""

_DEFAULT_FOLDER = Settings().working_dir
V = TypeVar("V", bound=Callable[..., Awaitable[int | None]])


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a verb: where it writes and which knowledge base it is about."""

    screen: Screen
    assume_yes: bool = False
    working_dir: str = _DEFAULT_FOLDER
    models: ModelOptions = field(default_factory=ModelOptions)
    backend: str = DEFAULT_BACKEND
    allow_network_fs: bool = False

    def base(self, observer: Observer = ignore, *, create: bool = False, embeds: bool = False) -> EasyKnowledgeRetriever:
        """The retriever over the knowledge base, to be opened with ``async with``.

        Args:
            observer: Told what happens.
            create: Whether there need be none yet.
            embeds: Whether the verb needs the embedding model of the base. Another one is refused when it is opened; any other
                verb works whatever the model.

        Raises:
            NotFound: There is no such folder and the verb only reads.
        """
        if not create and not Path(self.working_dir).is_dir():
            raise NotFound(
                f"there is no knowledge base in {self.working_dir!r}",
                hint="make one with 'ekr ingest PATH', or name another folder with --working-dir",
            )
        check: Literal["error", "warn"] = "error" if create or embeds else "warn"
        allow = self.allow_network_fs
        return retriever(self.working_dir, self.models, observer, check, self.backend, allow)

    def other_base(self, working_dir: str, backend: str, observer: Observer = ignore) -> EasyKnowledgeRetriever:
        """A retriever over another base, not open, which there need not be yet."""
        return retriever(working_dir, self.models, observer, "warn", backend, self.allow_network_fs)

    def confirm(self, question: str) -> bool:
        """Whether the user agrees, with ``--yes`` or on standard input; no answer is a no."""
        if self.assume_yes:
            return True
        try:
            return typer.confirm(question, err=True)
        except typer.Abort:
            return False


_Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but results and errors.")]
_Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say what happens; twice for details.")]
_NoColor = Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR in the environment does the same.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_WorkingDir = Annotated[str, typer.Option("--working-dir", "-d", help="Folder of the knowledge base. [EKR_WORKING_DIR]")]
_Storage = Annotated[str, typer.Option("--storage", help=f"Where its rows are: {', '.join(STORAGE_SETS)}. [EKR_STORAGE]")]
_AllowNetworkFs = Annotated[bool, typer.Option("--allow-network-fs", help="Write to a folder on a network file system, too.")]
_LlmModel = Annotated[str, typer.Option("--llm-model", help="Language model of an endpoint. [EKR_LLM_MODEL]")]
_LlmUrl = Annotated[str, typer.Option("--llm-url", help="Its base URL. [OPENAI_BASE_URL]")]
_EmbeddingModel = Annotated[str, typer.Option("--embedding-model", help="Embedding model of an endpoint. [EKR_EMBEDDING_MODEL]")]
_EmbeddingUrl = Annotated[str, typer.Option("--embedding-url", help="Its base URL. [OPENAI_BASE_URL]")]
_EmbeddingDim = Annotated[int, typer.Option("--embedding-dim", help="Length of its vectors. [EKR_EMBEDDING_DIM]", min=0)]
_RerankModel = Annotated[str, typer.Option("--rerank-model", help="Reranking model of an endpoint. [EKR_RERANK_MODEL]")]
_RerankUrl = Annotated[str, typer.Option("--rerank-url", help="Its full /rerank URL. [EKR_RERANK_URL]")]
_Prices = Annotated[str, typer.Option("--prices", help="TOML or JSON file of what models cost. [EKR_PRICES]")]
_MaxCost = Annotated[float | None, typer.Option("--max-cost", min=0, help="Send no call that would cost more in all.")]
_MaxLlmCalls = Annotated[int | None, typer.Option("--max-llm-calls", min=0, help="Ask language models no more often than that.")]
_MaxMinutes = Annotated[float | None, typer.Option("--max-minutes", min=0, help="Send no call after that time.")]

_OUTPUT_FLAGS: dict[str, tuple[object, object]] = {
    "json": (_Json, False),
    "quiet": (_Quiet, False),
    "verbose": (_Verbose, 0),
    "no_color": (_NoColor, False),
}
_BASE_FLAGS: dict[str, tuple[object, object]] = {
    "yes": (_Yes, False),
    "working_dir": (_WorkingDir, ""),
    "storage": (_Storage, ""),
    "allow_network_fs": (_AllowNetworkFs, False),
    "llm_model": (_LlmModel, ""),
    "llm_url": (_LlmUrl, ""),
    "embedding_model": (_EmbeddingModel, ""),
    "embedding_url": (_EmbeddingUrl, ""),
    "embedding_dim": (_EmbeddingDim, 0),
    "rerank_model": (_RerankModel, ""),
    "rerank_url": (_RerankUrl, ""),
}
_SPENDING_FLAGS: dict[str, tuple[object, object]] = {
    "prices": (_Prices, ""),
    "max_cost": (_MaxCost, None),
    "max_llm_calls": (_MaxLlmCalls, None),
    "max_minutes": (_MaxMinutes, None),
}


def verb(app: typer.Typer, name: str, *, base: bool = True, spends: bool = False, of: str = "") -> Callable[[V], V]:
    """Registers a coroutine function as a verb.

    Args:
        app: Where it is registered.
        name: Its name.
        base: Whether it is about a knowledge base, and so has the flags that describe one.
        spends: Whether it asks models, and so has the flags of prices and ceilings.
        of: Group it belongs to.
    """

    def register(function: V) -> V:
        flags = _OUTPUT_FLAGS | (_BASE_FLAGS if base else {}) | (_SPENDING_FLAGS if spends else {})
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = [
            inspect.Parameter(flag, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for flag, (annotation, default) in flags.items()
        ]

        def call(**values: Any) -> None:  # what typer parsed
            given = {flag: values.pop(flag) for flag in flags}
            raise typer.Exit(_ended(_run(f"{of} {name}".strip(), given), function, values))

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # what inspect looks for
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
        app.command(name)(call)
        return function

    return register


def _run(name: str, given: dict[str, Any]) -> Run:
    color = False if given["no_color"] else None
    screen = Screen(name, as_json=given["json"], quiet=given["quiet"], verbosity=given["verbose"], color=color)
    if "working_dir" not in given:
        return Run(screen)
    said = command_environment()
    models = ModelOptions(
        llm_model=given["llm_model"] or said.llm_model,
        llm_url=given["llm_url"],
        embedding_model=given["embedding_model"] or said.embedding_model,
        embedding_url=given["embedding_url"],
        embedding_dim=given["embedding_dim"] or said.embedding_dim,
        rerank_model=given["rerank_model"] or said.rerank_model,
        rerank_url=given["rerank_url"] or said.rerank_url,
        prices=given.get("prices") or said.prices,
        max_cost=given.get("max_cost"),
        max_llm_calls=given.get("max_llm_calls"),
        max_minutes=given.get("max_minutes"),
    )
    folder = given["working_dir"] or said.working_dir or _DEFAULT_FOLDER
    backend = given["storage"] or said.storage or DEFAULT_BACKEND
    return Run(screen, given["yes"], folder, models, backend, given["allow_network_fs"])


def _ended(run: Run, function: Callable[..., Any], values: dict[str, Any]) -> int:
    try:
        code: int | None = asyncio.run(function(run, **values))
        sys.stdout.flush()
    except EKRError as failure:
        if run.screen.verbosity:
            traceback.print_exc()
        run.screen.error(failure)
        return failure.exit_code
    except KeyboardInterrupt:
        run.screen.failed("interrupted", "interrupted", hint="what was committed is kept; run the command again to go on")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more when it ends
        return CLOSED_PIPE
    return code or 0
