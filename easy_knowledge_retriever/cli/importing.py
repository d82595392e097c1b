"""Verbs that take in what another system made: import-lightrag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.output import counted, plain
from easy_knowledge_retriever.cli.progress import progress
from easy_knowledge_retriever.cli.verbs import Run, verb

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "import-lightrag", spends=True)(import_lightrag)


async def import_lightrag(
    run: Run,
    folder: Annotated[str, typer.Argument(help="The working_dir of the index: JSON stores, vectors and GraphML.")],
    workspace: Annotated[str, typer.Option("--workspace", help="Its workspace, if it had one.")] = "",
    collection: Annotated[str, typer.Option("--collection", help="Collection its documents go to.")] = "",
) -> None:
    """Takes in an index that LightRAG or the earlier library made; what was extracted there is not paid for again.

    Example: ekr import-lightrag ./rag_storage --working-dir ./knowledge

    The files of the index are only read. A second run changes nothing, so an interrupted one is run again.
    """
    with progress(run.screen, 0) as observer:
        async with run.base(observer, create=True) as rag:
            report = await rag.import_lightrag(Path(folder), workspace=workspace, collection=collection)

    def show() -> None:
        taken = (
            counted(len(report.documents), "document"),
            counted(report.chunks, "chunk"),
            f"{counted(report.from_replies, 'extraction')} as the model gave them",
            f"{report.from_graph} taken back from the graph",
            f"{report.unread} of nothing",
            counted(report.vectors, "vector"),
        )
        run.screen.say(", ".join(taken), style="bold")
        for loss in report.losses:
            run.screen.say(f"not carried over: {loss}")

    run.screen.result(plain(report), show)
