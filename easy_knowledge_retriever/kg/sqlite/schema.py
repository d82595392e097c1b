"""The tables of the file, how it is created, and how it is recognised."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.failpoints import failpoint

__all__ = ["APPLICATION_ID", "VERSION", "check", "create", "is_ours", "version_of"]

APPLICATION_ID = 0x454B5242
"""``EKRB`` in the header of the file."""
VERSION = 2
"""Kept in ``user_version``. It grows with every change of the tables."""
_ABANDONED = 60.0
"""Seconds after which a file that is still a draft is nobody's; it takes milliseconds to make one."""

# JSON is packed, see `packing`: as text where it is short, else as bytes.
# Rows that are mirrored in memory carry a `seq` that only grows: an overwritten row comes back under a new one, and the
# old one goes into `removed`. From these two a reader learns what has changed since it last looked, whoever changed it.
_TABLES = """
CREATE TABLE space (
    id INTEGER PRIMARY KEY, role TEXT NOT NULL, workspace TEXT NOT NULL, namespace TEXT NOT NULL,
    UNIQUE (role, workspace, namespace)
);
CREATE TABLE kv (space INTEGER NOT NULL, key TEXT NOT NULL, value NOT NULL, PRIMARY KEY (space, key)) WITHOUT ROWID;
CREATE TABLE status (
    space INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, value TEXT NOT NULL,
    UNIQUE (space, id)
);
CREATE INDEX status_name ON status (space, name, id);
CREATE INDEX status_status ON status (space, status, name, id);
CREATE TABLE vector (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, id TEXT NOT NULL, document_id TEXT NOT NULL,
    collection TEXT NOT NULL, value BLOB NOT NULL, UNIQUE (space, id)
);
CREATE TABLE lexical (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, id TEXT NOT NULL, document_id TEXT NOT NULL,
    collection TEXT NOT NULL, fields TEXT NOT NULL, terms BLOB NOT NULL, counts BLOB NOT NULL, UNIQUE (space, id)
);
CREATE TABLE entity (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    value NOT NULL, UNIQUE (space, key)
);
CREATE TABLE relation (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,
    weight REAL NOT NULL, chunks NOT NULL, value NOT NULL, UNIQUE (space, first, second)
);
CREATE INDEX relation_second ON relation (space, second);
CREATE TABLE mention (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, entity TEXT NOT NULL, chunk TEXT NOT NULL,
    document_id TEXT NOT NULL, collection TEXT NOT NULL, weight REAL NOT NULL, source TEXT NOT NULL
);
CREATE INDEX mention_chunk ON mention (space, chunk);
CREATE TABLE removed (
    number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, space INTEGER NOT NULL, seq INTEGER NOT NULL
);
"""


def create(path: Path) -> None:
    """Creates an empty database at ``path`` unless there is a file already.

    It is built under another name and then linked to its own, so that a file of this name is always whole: an empty or
    cut one is damaged, never new.
    """
    _remove_old_drafts(path)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
            )
        finally:
            connection.close()
        failpoint("file-draft")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    failpoint("before-dir-fsync")
    _sync_folder(path.parent)


def _remove_old_drafts(path: Path) -> None:
    """Removes what processes left that ended before they could link it. One that is younger may be somebody's work."""
    for draft in path.parent.glob(f"{path.name}.*.new*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _ABANDONED:
                draft.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there, and its entries are written through
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Looks whether the database is one of ours and whole as far as can be told at once.

    Args:
        connection: A connection to it.
        path: Where it is.

    Raises:
        StoreCorruptError: It is something else, or shorter than it says.
    """
    if path.stat().st_size == 0:
        raise StoreCorruptError(f"{str(path)!r} is empty", hint="nothing was changed; restore a backup, or move the file away")
    if _number(connection, "application_id") != APPLICATION_ID:
        raise StoreCorruptError(
            f"{str(path)!r} is a database, but not a knowledge base", hint="give another working_dir; nothing was changed"
        )
    journal = path.with_name(f"{path.name}-wal")
    expected = _number(connection, "page_count") * _number(connection, "page_size")
    if path.stat().st_size < expected and (not journal.exists() or journal.stat().st_size == 0):
        raise StoreCorruptError(
            f"{str(path)!r} has {path.stat().st_size} bytes instead of {expected}",
            hint="nothing was changed; restore a backup, or move the file away",
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The format of a database."""
    return _number(connection, "user_version")


def is_ours(objects: Sequence[tuple[str, ...]]) -> bool:
    """Whether these rows of ``sqlite_master`` (type, name, table, text), in order, are exactly those of a new file."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_TABLES)
        ours = fresh.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return bool(list(objects) == ours)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    value: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return value
