"""Progress of an ingest on a terminal: an observer that draws bars, and one that writes lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from easy_knowledge_retriever.cli.cost import spent, total_cost
from easy_knowledge_retriever.cli.output import Screen, counted, printable
from easy_knowledge_retriever.errors import BudgetExceeded
from easy_knowledge_retriever.events import (
    DocumentFailed,
    DocumentFinished,
    DocumentStarted,
    Event,
    ModelCharged,
    Observer,
    StageProgress,
    StageStarted,
)
from easy_knowledge_retriever.types import Usage

__all__ = ["progress"]


@contextmanager
def progress(screen: Screen, total: int) -> Iterator[Observer]:
    """An observer of the ingest of ``total`` documents: bars on a terminal, else a line for each document."""
    if not screen.lively:
        yield _Lines(screen, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen.err, transient=True) as bars:
        yield _Bars(bars, total)


class _Spent:
    """What was spent since the run began."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._cost: float | None = 0.0

    def add(self, event: ModelCharged) -> None:
        self._usage += event.usage
        self._cost = total_cost((self._cost, event.cost))

    def __str__(self) -> str:
        said = spent(self._usage, self._cost)
        return f" · {said}" if said else ""


class _Lines:
    def __init__(self, screen: Screen, total: int) -> None:
        self._screen = screen
        self._total = total
        self._done = 0
        self._spent = _Spent()

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, ModelCharged):
            self._spent.add(event)
        if isinstance(event, (DocumentFinished, DocumentFailed)):
            self._done += 1
            outcome = _outcome(event)
            self._screen.note(f"{self._done}/{self._total} {event.name}: {outcome}{self._spent}")


class _Bars:
    def __init__(self, bars: Progress, total: int) -> None:
        self._bars = bars
        self._whole = bars.add_task("documents", total=total)
        self._running: dict[str, TaskID] = {}
        self._spent = _Spent()

    def __call__(self, event: Event, /) -> None:
        match event:
            case DocumentStarted(name):
                self._running[name] = self._bars.add_task(_label(name), total=None)
            case StageStarted(name, stage, total) if name in self._running:
                self._bars.reset(self._running[name], total=total, description=_label(f"{name} · {stage}"))
            case StageProgress(name, stage, done, total) if name in self._running:
                # Stages run side by side: the bar is that of the one that moved last.
                label = _label(f"{name} · {stage}")
                self._bars.update(self._running[name], completed=done, total=total, description=label)
            case DocumentFinished(name) | DocumentFailed(name):
                if name in self._running:
                    self._bars.remove_task(self._running.pop(name))
                self._bars.advance(self._whole)
                self._bars.console.print(Text(printable(f"{name}: {_outcome(event)}"), style="dim"))
            case ModelCharged():
                self._spent.add(event)
                self._bars.update(self._whole, description=f"documents{self._spent}")
            case _:
                pass


def _outcome(event: DocumentFinished | DocumentFailed) -> str:
    if isinstance(event, DocumentFailed):
        return f"{'stopped' if event.code == BudgetExceeded.code else 'failed'} at {event.stage}"
    if event.unchanged:
        return "unchanged"
    entities, relations = counted(event.entities, "entity", "entities"), counted(event.relations, "relation")
    return f"{counted(event.chunks, 'chunk')}, {entities}, {relations} in {event.seconds:.1f} s"


def _label(text: str) -> str:
    return printable(text).replace("[", "\\[")
