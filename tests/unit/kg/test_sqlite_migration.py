"""Older formats become this one whole or not at all, and newer ones are left alone. No format before this one was released:
the steps here are made up."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest

from easy_knowledge_retriever.errors import StorageError, StoreVersionError
from easy_knowledge_retriever.kg.sqlite import schema
from easy_knowledge_retriever.kg.sqlite.migration import STEPS, Outlook, outlook, upgrade
from easy_knowledge_retriever.kg.sqlite.store import SqliteStore

NEXT = schema.VERSION + 2


def _rename(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE note RENAME TO remark")


def _mark(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE remark SET text = text || '!'")


MADE_UP = MappingProxyType({schema.VERSION: _rename, schema.VERSION + 1: _mark})


def _file(folder: Path) -> Path:
    path = folder / "knowledge.db"
    schema.create(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE note (text)")
        connection.execute("INSERT INTO note VALUES ('kept')")
    return path


def _upgraded(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, path, MADE_UP, NEXT)


def _rows(path: Path, table: str) -> list[tuple[str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT text FROM {table}").fetchall()


def test_all_steps_are_taken_once(tmp_path: Path) -> None:
    path = _file(tmp_path)
    assert outlook(path, MADE_UP, NEXT) == Outlook(schema.VERSION, NEXT, "upgrade")
    assert _rows(path, "note") == [("kept",)]
    _upgraded(path)
    _upgraded(path)
    assert _rows(path, "remark") == [("kept!",)]
    assert outlook(path, MADE_UP, NEXT) == Outlook(NEXT, NEXT, "current")


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = _file(tmp_path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE missing SET text = 1")

    with closing(sqlite3.connect(path, isolation_level=None)) as connection, pytest.raises(StorageError, match="no such table"):
        upgrade(connection, path, {**MADE_UP, schema.VERSION + 1: fail}, NEXT)
    assert _rows(path, "note") == [("kept",)]
    assert outlook(path, MADE_UP, NEXT).found == schema.VERSION


@pytest.mark.parametrize("place", [f"format-{schema.VERSION}", f"format-{schema.VERSION + 1}", f"format-{NEXT}"])
def test_a_kill_in_any_step_leaves_the_old_file_and_the_next_opening_goes_on(tmp_path: Path, place: str) -> None:
    path = _file(tmp_path)
    code = f"from pathlib import Path; from tests.unit.kg.test_sqlite_migration import _upgraded; _upgraded(Path({str(path)!r}))"
    killed = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "EKR_FAILPOINTS": f"{place}=kill"}, check=False, timeout=60
    )
    assert killed.returncode == -9
    assert _rows(path, "note") == [("kept",)]
    assert outlook(path, MADE_UP, NEXT).verdict == "upgrade"
    _upgraded(path)
    assert _rows(path, "remark") == [("kept!",)]


@pytest.mark.parametrize(("version", "message"), [(schema.VERSION + 1, "knows up to"), (1, "from before the first release")])
async def test_what_no_step_leads_from_is_refused_untouched(tmp_path: Path, version: int, message: str) -> None:
    path = _file(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match=f"has format {version}.*{message}"):
        await SqliteStore(tmp_path).open()
    assert path.read_bytes() == before
    assert outlook(path).verdict == ("too_new" if version > schema.VERSION else "too_old")


def test_the_steps_lead_to_the_format_that_is_written() -> None:
    assert all(version < schema.VERSION for version in STEPS)
