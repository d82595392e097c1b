"""Files of an older format become files of this one when they are opened: all steps in one transaction.

A process that dies in the middle leaves the old file, as any transaction that was not committed. There is no way back from the
new format; a backup of before is one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from easy_knowledge_retriever.errors import StoreVersionError
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.kg.sqlite import schema
from easy_knowledge_retriever.kg.sqlite.failures import translated

__all__ = ["STEPS", "Outlook", "Step", "outlook", "upgrade"]

Step = Callable[[sqlite3.Connection], None]
"""Changes tables and rows of one format into those of the next; begins and commits nothing."""

STEPS: Mapping[int, Step] = MappingProxyType({})
"""Format → the step from it to the next. The formats before 2 were never released and have none."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What opening would do to a file."""

    found: int
    """Its format."""
    known: int
    """The one this library writes."""
    verdict: Literal["current", "upgrade", "too_old", "too_new"]


def outlook(path: Path, steps: Mapping[int, Step] = STEPS, known: int = schema.VERSION) -> Outlook:
    """Looks at a file without changing it.

    Args:
        path: The file.
        steps: Those there are.
        known: The format they lead to.

    Raises:
        StorageError: It cannot be read.
    """
    with translated(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return _judged(schema.version_of(connection), steps, known)


def _judged(found: int, steps: Mapping[int, Step], known: int) -> Outlook:
    if found == known:
        return Outlook(found, known, "current")
    if found > known:
        return Outlook(found, known, "too_new")
    possible = all(version in steps for version in range(found, known))
    return Outlook(found, known, "upgrade" if possible else "too_old")


def upgrade(connection: sqlite3.Connection, path: Path, steps: Mapping[int, Step] = STEPS, known: int = schema.VERSION) -> None:
    """Brings a file to the format of this library. Nothing is done to one that has it.

    Args:
        connection: A connection without a transaction.
        path: Where it is.
        steps: Those there are.
        known: The format they lead to.

    Raises:
        StoreVersionError: It is of a newer format, or of one that no step begins at; it was not touched.
        StorageError: A step failed; the file is as it was.
    """
    seen = _judged(schema.version_of(connection), steps, known)
    match seen.verdict:
        case "too_new":
            raise StoreVersionError(
                f"{str(path)!r} has format {seen.found}, this library knows up to {known}",
                hint="upgrade easy-knowledge-retriever; nothing was changed",
            )
        case "too_old":
            raise StoreVersionError(
                f"{str(path)!r} has format {seen.found}, from before the first release", hint="ingest anew; nothing was changed"
            )
        case "upgrade":
            _take_steps(connection, path, steps, known)


def _take_steps(connection: sqlite3.Connection, path: Path, steps: Mapping[int, Step], known: int) -> None:
    with translated(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for version in range(schema.version_of(connection), known):  # another process may have been quicker
                failpoint(f"format-{version}")
                steps[version](connection)
            failpoint(f"format-{known}")
            connection.execute(f"PRAGMA user_version = {known}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
