"""The file itself: connections, threads, snapshots and transactions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.base import Store
from easy_knowledge_retriever.kg.filesystems import refuse_network, warn_of_network
from easy_knowledge_retriever.kg.locks import folder_claim
from easy_knowledge_retriever.kg.sqlite import migration, schema
from easy_knowledge_retriever.kg.sqlite.failures import is_busy, locked, translated, writer_of
from easy_knowledge_retriever.kg.sqlite.mirror import Mirrors
from easy_knowledge_retriever.kg.sqlite.session import Space, SqliteSession
from easy_knowledge_retriever.kg.turns import Turns

__all__ = ["FILE_NAME", "Durability", "SqliteStore"]

T = TypeVar("T")
Durability = Literal["full", "relaxed"]

FILE_NAME = "knowledge.db"
_THREADS = 8
_IDLE_READERS = 8
_CHURN, _FEW = 0.25, 1000
"""Removed rows, as a share of the vectors and at least, from which closing compacts the file."""

# The transactions this task, or one it was started from, stands in: waiting for one's own turn would never end.
_inside: ContextVar[tuple[SqliteSession, ...]] = ContextVar("ekr_sqlite_transactions", default=())


class SqliteStore(Store):
    """One SQLite file in WAL mode. Readers and one writer work side by side; a crash leaves the last commit.

    Closing compacts the file where much of it was overwritten since.

    Usable from several event loops and threads, not across a fork.

    Args:
        working_dir: Folder of the file; created when it is opened.
        durability: ``full`` syncs every commit. ``relaxed`` syncs at checkpoints and :meth:`flush`: a power loss may undo
            the last commits, whole ones only; a crash of the process loses nothing either way.
        lock_timeout: Seconds to wait for another process that writes.
        allow_network_fs: Whether it may be written to on a network file system.
    """

    def __init__(
        self,
        working_dir: str | Path,
        *,
        durability: Durability = "full",
        lock_timeout: float = 10.0,
        allow_network_fs: bool = False,
    ) -> None:
        if durability not in {"full", "relaxed"}:
            raise ConfigError(f"durability={durability!r}", hint="use 'full' or 'relaxed'")
        if not lock_timeout >= 0:
            raise ConfigError(f"lock_timeout={lock_timeout!r}", hint="give seconds, at least 0")
        self._path = Path(working_dir).expanduser().resolve() / FILE_NAME
        self._durability = durability
        self._lock_timeout = lock_timeout
        self._allow_network_fs = allow_network_fs
        self._network = ""
        self._users: set[object] = set()
        self._opening = Turns()
        self._writing = Turns()
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._spaces: dict[Space, int] = {}
        self._guard = threading.Lock()
        self.mirrors = Mirrors()
        self.dimensions: dict[Space, int] = {}
        """Of the vectors last written in each space; may be out of date."""

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def key(self) -> Hashable:
        return ("sqlite", self._path)

    async def open(self) -> None:
        await self.retain(self)

    async def close(self) -> None:
        await self.release(self)

    async def retain(self, user: object) -> None:
        """Opens the store for ``user`` if it is not open.

        Args:
            user: Whoever will release it.

        Raises:
            StorageError: It cannot be opened.
        """
        async with self._opening.turn():
            if not self._users:
                threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ekr-sqlite")
                try:
                    self._writer = await _hop(threads, self._open)
                except BaseException:
                    threads.shutdown(wait=False)
                    raise
                self._threads, self._process = threads, os.getpid()
            self._users.add(user)

    async def release(self, user: object) -> None:
        """Closes the store if nobody but ``user`` has it open.

        Args:
            user: Whoever retained it.
        """
        async with self._opening.turn():
            if user not in self._users:
                return
            if len(self._users) == 1:
                self._refuse_inside()
                async with self._writing.turn():
                    threads = self._require_open()
                    self._threads = None
                    await _hop(threads, self._close)
                    threads.shutdown(wait=False)
            self._users.discard(user)

    def retained_by(self, user: object) -> bool:
        """Whether ``user`` has it open."""
        return user in self._users

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqliteSession]:
        session = SqliteSession(self, writable=False)
        try:
            await self.hop(partial(self._begin_reading, session))
            yield session
        finally:
            await self._finish(session)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteSession]:
        self._refuse_inside()
        async with self._writing.turn():
            session = SqliteSession(self, writable=True)
            before = _inside.get()
            _inside.set((*before, session))
            try:
                await self._begin_writing(session)
                yield session
                await self.hop(partial(self._commit, session))
            finally:
                _inside.set(before)
                await self._finish(session)

    @asynccontextmanager
    async def claim(self, name: str, *, wait: float | None = None) -> AsyncIterator[bool]:
        self._require_open()
        async with folder_claim(self._path.parent, name, wait=wait, patience=self._lock_timeout) as got:
            yield got

    async def read(self, work: Callable[[SqliteSession], T]) -> T:
        """The result of ``work`` in a snapshot of its own, with one change of thread."""
        return await self.hop(partial(self._read, work))

    async def flush(self) -> None:
        """Makes all commits durable."""
        if self._durability == "relaxed":
            self._refuse_inside()
            async with self._writing.turn():
                await self.hop(self._checkpoint)

    async def scrub(self) -> None:
        self._refuse_inside()
        async with self._writing.turn():
            for step in (self._vacuum, self._truncate_journal):
                await self._until_free(step)

    async def _until_free(self, step: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._lock_timeout
        while not await self.hop(step):
            if time.monotonic() >= deadline:
                raise locked(self._path, self._lock_timeout, writer_of(self._path))
            await asyncio.sleep(0.05)

    async def hop(self, work: Callable[[], T]) -> T:
        """The result of ``work`` in a worker thread. Once this returns or raises, no thread works at it any more."""
        return await _hop(self._require_open(), work)

    def known_space(self, space: Space) -> int | None:
        """The number of a space, if a commit is known to have given it one."""
        return self._spaces.get(space)

    def learn_spaces(self, spaces: Mapping[Space, int]) -> None:
        """Remembers the numbers of spaces that were committed."""
        self._spaces.update(spaces)

    async def _begin_writing(self, session: SqliteSession) -> None:
        self._refuse_network()
        deadline = time.monotonic() + self._lock_timeout
        pause = 0.001
        while not await self.hop(partial(self._try_writing, session)):
            if time.monotonic() >= deadline:
                raise locked(self._path, self._lock_timeout, writer_of(self._path))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _try_writing(self, session: SqliteSession) -> bool:
        writer = self._required_writer()
        with translated(self._path):
            try:
                session.begin(writer, "BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if is_busy(error):
                    return False
                raise
        return True

    def _begin_reading(self, session: SqliteSession) -> None:
        with translated(self._path):
            connection = self._reader()
            try:
                session.begin(connection, "BEGIN")
            except sqlite3.Error:
                session.end()
                connection.close()
                raise

    def _read(self, work: Callable[[SqliteSession], T]) -> T:
        session = SqliteSession(self, writable=False)
        self._begin_reading(session)
        try:
            return work(session)
        finally:
            self._end(session)

    async def _finish(self, session: SqliteSession) -> None:
        """Ends a session in any case: a cancellation is raised when that is over, and never keeps it from beginning."""
        if self._threads is None:  # closed meanwhile, and its threads with it
            self._end(session)
        elif session.active:
            job = self._threads.submit(self._end, session)
            try:
                await asyncio.shield(asyncio.wrap_future(job))
            except asyncio.CancelledError:
                await _settled(job)
                raise

    def _commit(self, session: SqliteSession) -> None:
        session.commit()
        self._end(session)

    def _end(self, session: SqliteSession) -> None:
        connection = session.end()
        if connection is None or connection is self._writer:
            return
        with self._guard:
            if self._threads is not None and len(self._readers) < _IDLE_READERS:
                self._readers.append(connection)
                return
        connection.close()

    def _refuse_network(self) -> None:
        if not self._allow_network_fs:
            refuse_network(self._path.parent, self._network)

    def _open(self) -> sqlite3.Connection:
        self._network = warn_of_network(self._path.parent)
        if not self._path.exists():
            self._refuse_network()
        with translated(self._path):
            try:
                schema.create(self._path)
            except OSError as error:
                raise StorageError(f"cannot create {str(self._path)!r}: {error}", hint="may the folder be written to?") from error
            connection = self._connect()
            try:
                schema.check(connection, self._path)
                migration.upgrade(connection, self._path)
                connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
                connection.execute("PRAGMA cache_size = -16000")
                connection.execute("PRAGMA wal_autocheckpoint = 4000")
                connection.execute("PRAGMA journal_size_limit = 67108864")
                connection.execute("PRAGMA busy_timeout = 50")  # the waiting is done on the event loop
            except BaseException:
                connection.close()
                raise
            return connection

    def _vacuum(self) -> bool:
        """Writes the file anew, without rows that were deleted; False if somebody writes."""
        with translated(self._path):
            try:
                writer = self._required_writer()
                writer.execute("PRAGMA secure_delete = ON")
                writer.execute("VACUUM")
            except sqlite3.OperationalError as error:
                if is_busy(error):
                    return False
                raise
        return True

    def _truncate_journal(self) -> bool:
        """Takes all of the journal over into the file and empties it; False if somebody still reads from it."""
        with translated(self._path):
            [(busy, _, _)] = self._required_writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    def _required_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            raise StorageNotOpenError(f"{str(self._path)!r} is closed", hint="open it first")
        return self._writer

    def _checkpoint(self) -> None:
        with translated(self._path):
            if self._writer is not None:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _reader(self) -> sqlite3.Connection:
        with self._guard:
            if self._readers:
                return self._readers.pop()
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw",
            uri=True,
            timeout=self._lock_timeout,
            isolation_level=None,
            check_same_thread=False,
        )

    def _close(self) -> None:
        with self._guard:
            connections, self._readers = [*self._readers], []
        if self._writer is not None:
            self._compact(self._writer)
            connections.append(self._writer)
            self._writer = None
        for connection in connections:
            connection.close()
        self.mirrors.clear()
        self._spaces.clear()

    def _compact(self, writer: sqlite3.Connection) -> None:
        """Writes the file anew once a quarter of it may be holes: rows that are overwritten come back at its end.

        Paid for by what was written since, as a table that doubles is. If it cannot be done now, it is done later.
        """
        with suppress(sqlite3.Error):
            counts = "SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM vector)"
            removed, rows = writer.execute(counts).fetchone()
            if removed > max(rows * _CHURN, _FEW):
                # A mirror of another process that has not read these yet is loaded anew.
                writer.execute("DELETE FROM removed WHERE number < (SELECT max(number) FROM removed)")
                writer.execute("VACUUM")

    def _require_open(self) -> ThreadPoolExecutor:
        if self._threads is None:
            raise StorageNotOpenError(f"{str(self._path)!r} is not open", hint="call open() first, or use `async with`")
        if os.getpid() != self._process:
            raise StorageNotOpenError(f"{str(self._path)!r} was opened before a fork", hint="open it in the child process")
        return self._threads

    def _refuse_inside(self) -> None:
        if any(session.active and session.store is self for session in _inside.get()):
            raise StorageError(
                f"a transaction on {str(self._path)!r} is open here already",
                hint="write through the storages that transaction gave; another one would wait for it for ever",
            )


async def _hop(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    try:
        job = threads.submit(work)
    except RuntimeError as error:
        raise StorageNotOpenError("the store was closed meanwhile") from error
    try:
        return await asyncio.wrap_future(job)
    except asyncio.CancelledError:
        await _settled(job)
        raise


async def _settled(job: Future[T]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    while not ended.is_set():
        with suppress(asyncio.CancelledError):  # the first one is raised when this is over
            await ended.wait()
