"""What SQLite raises, in the words of this library."""

from __future__ import annotations

import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from easy_knowledge_retriever.errors import StorageError, StoreCorruptError, WorkingDirLockedError
from easy_knowledge_retriever.kg.locks import holder_of

__all__ = ["is_busy", "locked", "translated", "writer_of"]

_WRITE_LOCK = "120"
"""Byte of the shared-memory file that a writer locks, by the file format of SQLite's WAL index."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raises what SQLite raises in the block as a :class:`StorageError` that names the file.

    Args:
        path: The database.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(error, path) from error
    except UnicodeEncodeError as error:
        raise StorageError(f"{error.object!r} is not valid Unicode: {error.reason}", hint="clean the text first") from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return _primary(error) in _BUSY


def locked(path: Path, waited: float, holder: str = "") -> WorkingDirLockedError:
    """The error for a lock that did not come free.

    Args:
        path: The database.
        waited: Seconds.
        holder: Who has it, where that can be told.
    """
    return WorkingDirLockedError(
        f"{holder or 'another process'} has been writing to {str(path)!r} for more than {waited:g} s",
        hint="wait for it to finish, raise lock_timeout, or give each process its own working_dir",
    )


def writer_of(path: Path) -> str:
    """Which process holds the write lock of a database, and since when at most, where the system tells; empty otherwise.

    Args:
        path: The database.
    """
    try:
        index = str(path.with_name(f"{path.name}-shm").stat().st_ino)
        locks = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
        # number, POSIX, ADVISORY, WRITE, process, device:index, first and last byte; a waiting one has "->" before POSIX
        found = [row[4] for row in locks if row[3] == "WRITE" and row[5].endswith(f":{index}") and row[6] == _WRITE_LOCK]
        process = found[0]
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except (OSError, IndexError):
        return ""
    holder = holder_of(path.parent, "commit")
    since = holder.since if holder is not None and str(holder.process) == process else _started(process)
    return f"process {process} ({command!r}) on {socket.gethostname()}, since {since or 'an unknown time'},"


def _started(process: str) -> str:
    """When a process began, where the system tells; empty otherwise."""
    try:
        began = Path(f"/proc/{process}").stat().st_mtime
    except OSError:
        return ""
    return datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds")


def _primary(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _translation(error: sqlite3.Error, path: Path) -> StorageError:
    code = _primary(error)
    if code in _BUSY:
        return WorkingDirLockedError(f"another process holds {str(path)!r}: {error}", hint="try again, or raise lock_timeout")
    if code in _CORRUPT:
        return StoreCorruptError(
            f"{str(path)!r} is not a readable knowledge base: {error}",
            hint="nothing was changed; restore a backup, or move the file away to start anew",
        )
    return StorageError(f"{str(path)!r}: {error}", hint=_advice(code, path))


def _advice(code: int, path: Path) -> str:
    if code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return ""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return "is the folder there, and may it be written to?"
    return f"the last commit is intact; {free} bytes are free there; is it writable?"
