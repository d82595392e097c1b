"""The verb that makes the vectors anew: reindex."""

from __future__ import annotations

from typing import Annotated

import typer

from easy_knowledge_retriever.cli.cost import show_ranges, spent
from easy_knowledge_retriever.cli.output import Screen, counted, plain
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.events import Event, StageProgress

__all__ = ["register"]

_NOTES = 20
"""Lines of progress at most."""


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    verb(app, "reindex", spends=True)(reindex)


async def reindex(
    run: Run,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")] = False,
) -> None:
    """Makes all vectors anew with the configured embedding model. The ones before answer until all are there.

    Example: ekr reindex --embedding-model text-embedding-3-small --embedding-dim 1536

    No language model is asked. Interrupted, it goes on where it was when it is run again.
    """
    async with run.base(_Told(run.screen)) as rag:
        if dry_run:
            estimate = await rag.estimate_reindex()
        else:
            report = await rag.reindex()

    def show_estimate() -> None:
        ready = f", {estimate.kept} made already" if estimate.kept else ""
        run.screen.say(f"{counted(estimate.vectors, 'vector')}{ready}", style="bold")
        rows = [
            ("calls of the embedding model", estimate.embedding_calls),
            ("tokens embedded", estimate.embedding_tokens),
            ("seconds", estimate.seconds),
        ]
        show_ranges(run.screen, rows, estimate.cost)

    def show() -> None:
        ready = f", {report.kept} of them made before" if report.kept else ""
        run.screen.say(f"{counted(report.vectors, 'vector')} of {report.model} in {report.seconds:.1f} s{ready}", style="bold")
        if said := spent(report.usage, report.cost):
            run.screen.say(said)

    if dry_run:
        run.screen.result(plain(estimate), show_estimate)
    else:
        run.screen.result(plain(report), show)


class _Told:
    """Says now and then how far it is."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._told = 0

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, StageProgress) and event.done * _NOTES >= (self._told + 1) * event.total:
            self._told = event.done * _NOTES // event.total
            self._screen.note(f"{event.done:,} of {event.total:,} vectors")
