"""A copy of the file while others read and write it, and the check of a file that came from elsewhere."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.kg.sqlite import migration, schema
from easy_knowledge_retriever.kg.sqlite.failures import translated

__all__ = ["copy_database", "examine_database", "rows_in_database"]

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
_TABLES = ("kv", "status", "vector", "lexical", "entity", "relation", "mention")


def copy_database(source: Path, target: Path) -> None:
    """Writes the last commit of a database to a new file. It is read in one step, which no writer waits for.

    Args:
        source: May be in use, by other processes too.
        target: Does not exist yet.

    Raises:
        StorageError: One of them failed.
    """
    with translated(source):
        with closing(_connect(source)) as old, closing(sqlite3.connect(target, isolation_level=None)) as new:
            old.backup(new)
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def examine_database(path: Path) -> None:
    """Reads a file that may be damaged, or made to do harm, from end to end.

    Raises:
        StoreCorruptError: It is no knowledge base, is damaged, or holds tables or statements that are not ours.
        StoreVersionError: A newer version of this library wrote it.
    """
    with translated(path), closing(_connect(path)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        schema.check(connection, path)
        migration.upgrade(connection, path)
        found = connection.execute(_OBJECTS).fetchall()
        if not schema.is_ours(found):
            raise StoreCorruptError(f"{str(path)!r} holds tables or statements of somebody else", hint="nothing was restored")
        [(verdict,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise StoreCorruptError(f"{str(path)!r} is damaged: {verdict}", hint="nothing was restored; take another backup")


def rows_in_database(path: Path) -> dict[str, int]:
    """How many rows each table has."""
    with translated(path), closing(_connect(path)) as connection:
        counts = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}
    return counts


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
