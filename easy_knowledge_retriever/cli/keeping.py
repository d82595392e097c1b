"""Verbs that keep a base: backup, restore, export, import, migrate, clear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from easy_knowledge_retriever.cli.output import Screen, counted, plain
from easy_knowledge_retriever.cli.verbs import USAGE, Run, verb
from easy_knowledge_retriever.events import BaseProgress, Event, Observer, ignore
from easy_knowledge_retriever.operating.exporting_data import DATA_FORMATS
from easy_knowledge_retriever.storages import DEFAULT_BACKEND, STORAGE_SETS

__all__ = ["register"]

_Path = Annotated[str, typer.Argument(metavar="PATH", help="The file.")]


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "backup")(backup)
    verb(app, "restore")(restore)
    verb(app, "export")(export)
    verb(app, "import")(import_base)
    verb(app, "migrate")(migrate)
    verb(app, "clear")(clear)


async def backup(run: Run, path: _Path) -> None:
    """Writes one archive that holds the base as it is at this moment, and reads it back.

    Example: ekr backup base.zip

    The base may be in use. What is on a server is exported into the archive; pg_dump is quicker for all of a PostgreSQL database.
    """
    with _told(run.screen) as observer:
        async with run.base(observer) as rag:
            report = await rag.backup(path)
    documents = counted(report.rows.get("status", 0), "document")
    run.screen.result(plain(report), lambda: run.screen.say(f"{documents}, {report.bytes / 1e6:.1f} MB, in {path}", style="bold"))


async def restore(run: Run, path: _Path) -> None:
    """Makes a base of a backup, in a folder that is empty or not there.

    Example: ekr restore base.zip --working-dir ./copy

    The archive is checked whole before anything of it is used, wherever it comes from.
    """
    with _told(run.screen) as observer:
        manifest = await run.base(observer, create=True).restore(path)
    documents = counted(manifest.rows.get("status", 0), "document")
    run.screen.result(
        {"working_dir": run.working_dir, "backup": manifest},
        lambda: run.screen.say(f"{documents} of {manifest.created_at} in {run.working_dir}", style="bold"),
    )


async def export(
    run: Run,
    path: _Path,
    file_format: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(DATA_FORMATS)}.")] = "jsonl",
    vectors: Annotated[bool, typer.Option("--vectors", help="With the vectors; jsonl always has them.")] = False,
) -> None:
    """Writes the whole base to a file from which 'ekr import' makes it again on any storage, or a table of what it says.

    Example: ekr export base.jsonl

    jsonl is the whole base. The other formats are entities, relations, and chunks with their documents and pages, for people and
    other programs; graphml is the graph alone. The file is as the base is at this moment, whatever is ingested meanwhile.
    """
    with _told(run.screen) as observer:
        async with run.base(observer) as rag:
            counts = await rag.aexport_data(path, file_format, vectors)
    rows = counts.total()
    run.screen.result({"path": path, "rows": counts}, lambda: run.screen.say(f"{counted(rows, 'row')} in {path}", style="bold"))


async def import_base(run: Run, path: _Path) -> None:
    """Makes a base of a file that 'ekr export' wrote. The folder of the base is new, or half of this import.

    Example: ekr import base.jsonl --working-dir ./copy

    What is interrupted cannot be used until the same import was run again, which goes on where it stopped.
    """
    with _told(run.screen) as observer:
        rows = await run.base(observer, create=True).import_base(path)
    run.screen.result(
        {"working_dir": run.working_dir, "rows": rows},
        lambda: run.screen.say(f"{counted(rows, 'row')} in {run.working_dir}", style="bold"),
    )


async def migrate(
    run: Run,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The working_dir of the new base.")],
    to: Annotated[str, typer.Option("--to", help=f"Its storages: {', '.join(STORAGE_SETS)}.")] = DEFAULT_BACKEND,
) -> None:
    """Copies the base to other storages and compares what came of it row by row. The base itself is only read.

    Example: ekr migrate ./moved --to files

    What is interrupted cannot be used until the same migration was run again, which goes on where it stopped.
    """
    with _told(run.screen) as observer:
        async with run.base(observer) as rag:
            rows = await rag.migrate_to(run.other_base(folder, to))

    def show() -> None:
        run.screen.say(f"{counted(rows, 'row')} in {folder}, the same as in {run.working_dir}", style="bold")
        if to != DEFAULT_BACKEND:
            run.screen.say(f"use it with --storage {to}, or EKR_STORAGE={to}")

    run.screen.result({"working_dir": folder, "storage": to, "rows": rows}, show)


async def clear(run: Run) -> int | None:
    """Drops all documents and everything made of them. The base stays usable.

    Example: ekr clear
    """
    async with run.base() as rag:
        count = sum((await rag.get_processing_status()).values())
        if not run.confirm(f"Drop {counted(count, 'document')} of {run.working_dir}?"):
            run.screen.failed("not_confirmed", "nothing was dropped", hint="answer yes, or give --yes")
            return USAGE
        await rag.aclear()
    run.screen.result({"dropped": count}, lambda: run.screen.say(f"dropped {counted(count, 'document')}"))
    return None


@contextmanager
def _told(screen: Screen) -> Iterator[Observer]:
    """An observer that shows on a terminal how far it is."""
    if not screen.lively:
        yield ignore
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=screen.err, transient=True) as bars:
        task = bars.add_task("", total=None)

        def show(event: Event, /) -> None:
            if isinstance(event, BaseProgress):
                bars.update(task, description=f"{event.step}: {event.rows} rows, {event.role}")

        yield show
