"""Verbs about documents: ingest, list, retry, rm, status."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from easy_knowledge_retriever import aio
from easy_knowledge_retriever.cli.cost import show_estimate, spent, total_cost
from easy_knowledge_retriever.cli.files import Found, find_files
from easy_knowledge_retriever.cli.graph import graph_size
from easy_knowledge_retriever.cli.metadata import parsed
from easy_knowledge_retriever.cli.output import Screen, counted, plain
from easy_knowledge_retriever.cli.progress import progress
from easy_knowledge_retriever.cli.verbs import FAILED_DOCUMENTS, USAGE, Run, verb
from easy_knowledge_retriever.errors import BudgetExceeded, ConfigError, NotFound
from easy_knowledge_retriever.parsing import can_parse
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.types import DocRecord, DocStatus, IngestReport, Metadata, Usage

__all__ = ["choose", "ingest_files", "register", "show_ingest"]


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "ingest", spends=True)(ingest)
    verb(app, "list")(list_documents)
    verb(app, "retry")(retry)
    verb(app, "rm")(remove)
    verb(app, "status")(status)


async def ingest(
    run: Run,
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="Files, folders, or - for text from standard input.")],
    include: Annotated[list[str] | None, typer.Option("--include", help="In folders, only names like this.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="In folders, no names like this.")] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the text from standard input.")] = "",
    collection: Annotated[str, typer.Option("--collection", help="Collection they belong to.")] = "",
    meta: Annotated[list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="What filters may ask for.")] = None,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Documents at once.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost; nothing is sent or written.")] = False,
) -> int:
    """Reads documents into the knowledge base.

    Example: ekr ingest handbook.pdf notes/ --exclude 'draft*'

    A document that is there already and has not changed costs nothing; one that has changed replaces its old version.
    Exit code 3: some failed, the others are in. Exit code 10: a ceiling was reached; the same command with a higher one
    goes on where it stopped.
    """
    stdin = "-" in paths
    if stdin and not name:
        raise ConfigError("text from standard input needs a name", hint="give --name, such as --name notes.txt")
    found = find_files([Path(path) for path in paths if path != "-"], can_parse, include or (), exclude or ())
    for skipped in found.skipped:
        (run.screen.complain if skipped.named else run.screen.note)(f"skipped {skipped.path}: {skipped.reason}")
    if not stdin and not found.files and not any(skipped.named for skipped in found.skipped):
        raise _nothing_in(paths, found)
    about = About(collection, parsed(meta or ()))
    if dry_run:
        return await _dry_run(run, found, {name: sys.stdin.read()} if stdin else {}, about)
    reports: list[IngestReport] = []
    with progress(run.screen, len(found.files) + stdin) as observer:
        async with run.base(observer, create=True) as rag:
            if stdin:
                reports.append(await _ingest_text(rag, sys.stdin.read(), name, about))
            reports += await ingest_files(rag, found.files, about, parallel)
    run.screen.result(_as_data(reports, found), lambda: show_ingest(run.screen, reports))
    if any(report.status is DocStatus.INTERRUPTED for report in reports):
        return BudgetExceeded.exit_code
    failed = any(report.status is not DocStatus.PROCESSED for report in reports) or any(s.named for s in found.skipped)
    return FAILED_DOCUMENTS if failed else 0


async def _dry_run(run: Run, found: Found, texts: Mapping[str, str], about: About) -> int:
    """Says what an ingest would cost. A base that is not there yet is not made: an empty one elsewhere stands for it."""
    files, names = [path for path, _ in found.files], [*(name for _, name in found.files), *texts]
    with tempfile.TemporaryDirectory() as empty:
        there = run if Path(run.working_dir).is_dir() else replace(run, working_dir=empty)
        async with there.base(create=True) as rag:
            estimate = await rag.estimate(files, texts=list(texts.values()), names=names, collection=about.collection)
    run.screen.result(plain(estimate), lambda: show_estimate(run.screen, estimate))
    return FAILED_DOCUMENTS if estimate.warnings or any(skipped.named for skipped in found.skipped) else 0


def _nothing_in(paths: Sequence[str], found: Found) -> NotFound:
    seen = f"; {counted(len(found.skipped), 'file')} of other formats" if found.skipped else ""
    return NotFound(
        f"there is nothing to ingest in {', '.join(map(repr, paths))}{seen}",
        hint="'ekr formats' lists what can be read; --include, --exclude and hidden names leave files out",
    )


@dataclass(frozen=True, slots=True)
class About:
    """What is said of every document of one run."""

    collection: str = ""
    metadata: Metadata = field(default_factory=dict)


async def ingest_files(
    rag: EasyKnowledgeRetriever, files: Sequence[tuple[Path, str]], about: About | None = None, parallel: int = 1
) -> list[IngestReport]:
    """A report a file; a failure is reported, not raised. When a ceiling is reached, no further file is begun."""
    said = about or About()
    reports: list[IngestReport] = []

    async def one(file: tuple[Path, str]) -> None:
        path, name = file
        if not any(report.status is DocStatus.INTERRUPTED for report in reports):
            reports.append(
                await rag.ingest(path, name=name, collection=said.collection, metadata=said.metadata, raise_on_error=False)
            )

    await aio.map_bounded(one, files, parallel)
    order = {name: place for place, (_, name) in enumerate(files)}
    return sorted(reports, key=lambda report: order.get(report.name, 0))


async def _ingest_text(rag: EasyKnowledgeRetriever, text: str, name: str, about: About) -> IngestReport:
    track = await rag.ainsert(text, file_paths=[name], collection=about.collection, metadata=about.metadata)
    [record] = (await rag.aget_docs_by_track_id(track)).values()
    return IngestReport(record.id, record.name, record.version, record.status, chunks=record.chunk_count, track_id=track)


def _as_data(reports: Sequence[IngestReport], found: Found) -> dict[str, object]:
    kept = (
        "document_id",
        "name",
        "version",
        "status",
        "chunks",
        "entities",
        "relations",
        "pages",
        "unchanged",
        "warnings",
        "failed_chunks",
        "error",
        "usage",
        "cost",
    )
    return {
        "documents": [{field: getattr(report, field) for field in kept} for report in reports],
        "usage": _usage(reports),
        "cost": total_cost(report.cost for report in reports),
        "skipped": [{"path": str(skipped.path), "reason": skipped.reason} for skipped in found.skipped],
    }


def _usage(reports: Sequence[IngestReport]) -> Usage:
    return sum((report.usage for report in reports), Usage())


def show_ingest(screen: Screen, reports: Sequence[IngestReport]) -> None:
    """What an ingest did, for people."""
    for report in reports:
        for warning in report.warnings:
            screen.note(f"{report.name}: {warning}")
        if report.failed_chunks:
            screen.note(f"{report.name}: 'ekr retry' asks about {counted(len(report.failed_chunks), 'chunk')} again")
        if report.status is not DocStatus.PROCESSED:
            screen.complain(report.error)
    done = [report for report in reports if report.status is DocStatus.PROCESSED]
    unchanged = sum(report.unchanged for report in done)
    chunks = sum(report.chunks for report in done)
    screen.say(
        f"{len(done)} of {counted(len(reports), 'document')} in the knowledge base ({unchanged} unchanged), "
        f"{counted(chunks, 'chunk')}",
        style="bold",
    )
    if said := spent(_usage(reports), total_cost(report.cost for report in reports)):
        screen.say(said)


async def list_documents(
    run: Run,
    state: Annotated[DocStatus | None, typer.Option("--status", help="Only documents that stand there.")] = None,
) -> None:
    """Lists the documents.

    Example: ekr list --status failed
    """
    async with run.base() as rag:
        records = [record for record in await rag.get_docs() if state in (None, record.status)]

    def show() -> None:
        rows = [(r.name, r.collection, r.status.value, r.page_count or "", r.chunk_count, r.updated_at, r.id) for r in records]
        run.screen.table(
            ("document", "collection", "status", "pages", "chunks", "updated", "id"), rows, right=("pages", "chunks")
        )
        for record in records:
            if record.error:
                run.screen.say(f"{record.name} {record.status.value} at {record.stage}: {record.error}", style="red")

    run.screen.result({"documents": records}, show)


async def retry(
    run: Run, documents: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids or names, as 'ekr list' shows them.")]
) -> int:
    """Asks the language model about what it has not read of these documents, and nothing else.

    Example: ekr retry handbook.pdf

    Those are chunks that failed, and all chunks of a document that was ingested without a language model.
    Exit code 3: some could not be read this time either.
    """
    with progress(run.screen, len(documents)) as observer:
        async with run.base(observer, embeds=True) as rag:
            chosen = choose(await rag.get_docs(), documents)
            reports = [await rag.retry(record.id) for record in chosen]
    run.screen.result(_as_data(reports, Found((), ())), lambda: show_ingest(run.screen, reports))
    return FAILED_DOCUMENTS if any(report.failed_chunks for report in reports) else 0


async def remove(
    run: Run,
    documents: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids or names, as 'ekr list' shows them.")],
    purge: Annotated[bool, typer.Option("--purge", help="Leave no byte of them in any file, and no kept reply.")] = False,
) -> int | None:
    """Deletes documents, exactly: what only they said is gone, what others say too stays.

    Example: ekr rm handbook.pdf

    With --purge the files of the base are written anew, which takes as long as copying them.
    """
    async with run.base() as rag:
        chosen = choose(await rag.get_docs(), documents)
        _refuse_ambiguous(chosen, documents)
        if not run.confirm(f"Delete {', '.join(record.name for record in chosen)}?"):
            run.screen.failed("not_confirmed", "nothing was deleted", hint="answer yes, or give --yes")
            return USAGE
        last = chosen[-1].id
        results = [await rag.adelete_by_doc_id(record.id, purge=purge and record.id == last) for record in chosen]

    def show() -> None:
        for result in results:
            run.screen.say(f"deleted {result.file_path or result.doc_id}")

    run.screen.result({"deleted": results}, show)
    return None


def _refuse_ambiguous(chosen: Sequence[DocRecord], wanted: Sequence[str]) -> None:
    """A name that several collections have is no answer to which document is to be deleted."""
    for name, count in Counter(record.name for record in chosen if record.id not in wanted).items():
        if count > 1:
            ids = ", ".join(record.id for record in chosen if record.name == name)
            raise ConfigError(f"{count} documents are named {name!r}", hint=f"give the id of one: {ids}")


def choose(records: Sequence[DocRecord], wanted: Sequence[str]) -> list[DocRecord]:
    """The records with these ids or names, each once.

    Raises:
        NotFound: One fits none.
    """
    chosen: dict[str, DocRecord] = {}
    for word in wanted:
        fitting = [record for record in records if word in (record.id, record.name)]
        if not fitting:
            raise NotFound(f"there is no document {word!r}", hint="'ekr list' shows ids and names")
        chosen.update((record.id, record) for record in fitting)
    return list(chosen.values())


async def status(run: Run) -> None:
    """Shows what the knowledge base holds and where its documents stand.

    Example: ekr status --json
    """
    async with run.base() as rag:
        records = await rag.get_docs()
        graph = await rag.get_graph_counts()
    counts = Counter(record.status for record in records)
    folder = Path(run.working_dir)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    data = {
        "working_dir": str(folder.resolve()),
        "bytes": size,
        "documents": {state.value: counts[state] for state in DocStatus},
        "chunks": sum(record.chunk_count for record in records),
        "entities": graph.entities,
        "relations": graph.relations,
    }

    def show() -> None:
        standing = ", ".join(f"{counts[state]} {state.value}" for state in DocStatus if counts[state]) or "none"
        run.screen.table(
            ("", ""),
            [
                ("folder", data["working_dir"]),
                ("size", f"{size / 1e6:.1f} MB"),
                ("documents", standing),
                ("chunks", data["chunks"]),
                ("graph", graph_size(graph)),
            ],
        )

    run.screen.result(data, show)
