"""One consistent view of the file: a snapshot, or the transaction that is being written."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from easy_knowledge_retriever.errors import StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.sqlite.failures import translated

if TYPE_CHECKING:
    from easy_knowledge_retriever.kg.sqlite.store import SqliteStore

__all__ = ["Row", "Space", "SqliteSession"]

T = TypeVar("T")
R = TypeVar("R")
Row = tuple[Any, ...]
"""A row as sqlite3 gives and takes it."""

AT_ONCE = 16
"""So many rows are encoded on the event loop and written with the next read or the commit; more go to a thread at once."""

REMOVALS_KEPT = 100_000
"""A mirror that is further behind than this many removed rows is loaded anew."""

_MANY = "IN (SELECT value FROM json_each(?))"


class Space(NamedTuple):
    """What a storage is bound to: the rows of one role in one namespace of one workspace."""

    role: str
    workspace: str = ""
    namespace: str = ""


class SqliteSession:
    """A snapshot or a transaction. Made by the store; its methods without ``async`` run in a worker thread.

    Args:
        store: The store it belongs to.
        writable: Whether it is a transaction.
    """

    def __init__(self, store: SqliteStore, *, writable: bool) -> None:
        self._store = store
        self._writable = writable
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pending: list[Callable[[], None]] = []
        self._spoilt = False
        self._spaces: dict[Space, int] = {}
        self.mirrors: Mapping[tuple[str, int], object] = {}
        """What was in memory when it began, for the mirrors."""

    @property
    def writable(self) -> bool:
        """Whether this is a transaction."""
        return self._writable

    @property
    def store(self) -> SqliteStore:
        """The store it belongs to."""
        return self._store

    @property
    def active(self) -> bool:
        """Whether it has begun and not ended."""
        return self._connection is not None

    async def run(self, work: Callable[[SqliteSession], T]) -> T:
        """The result of ``work``, which reads in a worker thread; it sees what was written in this session before."""
        return await self._store.hop(partial(self._run, work))

    async def put(
        self, items: Sequence[T], encode: Callable[[Sequence[T]], list[R]], write: Callable[[SqliteSession, list[R]], None]
    ) -> None:
        """Writes ``items``: ``encode`` makes rows of them, ``write`` puts the rows into the tables in a worker thread.

        A few rows wait in the session until something is read or committed, which saves a change of thread.

        Args:
            items: What to write.
            encode: Gives rows for items.
            write: Writes rows.
        """
        self._require_writable()
        if len(items) > AT_ONCE:
            await self.change(lambda session: write(session, encode(items)))
        elif items:
            later = partial(write, self, encode(items))
            with self._guard:
                self._pending.append(later)

    async def change(self, work: Callable[[SqliteSession], T]) -> T:
        """The result of ``work``, which writes in a worker thread now. If it fails, nothing of it stays."""
        self._require_writable()
        return await self.run(partial(self._all_or_nothing, work))

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """All rows of a query."""
        with self._guard, translated(self._store.path):
            return self._opened().execute(sql, values).fetchall()

    def one_by_one(self, sql: str, values: Iterable[Sequence[object]]) -> list[Row]:
        """All rows of a query that is asked several times.

        Args:
            sql: The query.
            values: Its parameters, each time.
        """
        with self._guard, translated(self._store.path):
            execute = self._opened().execute
            return [row for given in values for row in execute(sql, given)]

    def keyed(self, sql: str, space: int, keys: Iterable[str], values: Sequence[object] = ()) -> list[Row]:
        """All rows of a query whose first parameter is the space and whose second is a list of keys.

        Args:
            sql: Has the condition ``… IN (SELECT value FROM json_each(?))``.
            space: The first parameter.
            keys: The second.
            values: The parameters after it.
        """
        wanted = list(keys)
        plain = [key for key in wanted if "\0" not in key]
        found = self.rows(sql, (space, json.dumps(plain), *values)) if plain else []
        if len(plain) < len(wanted):  # json_each cuts a text at NUL
            one = sql.replace(_MANY, "= ?", 1)
            for key in wanted:
                if "\0" in key:
                    found += self.rows(one, (space, key, *values))
        return found

    def write(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Executes a statement once a row."""
        with self._guard, translated(self._store.path):
            connection = self._opened()
            if not connection.in_transaction:  # SQLite undoes all of it by itself when the disk is full or broken
                raise StorageError(f"the transaction on {str(self._store.path)!r} was undone", hint="begin another one")
            connection.executemany(sql, rows)

    def space(self, space: Space) -> int:
        """The number of a space; -1 if nothing was ever written to it."""
        known = self._spaces.get(space)
        if known is None:
            known = self._store.known_space(space)
        if known is None:
            sql = "SELECT id FROM space WHERE role = ? AND workspace = ? AND namespace = ?"
            found = self.rows(sql, space)
            if not found:
                return -1
            known = self._spaces[space] = int(found[0][0])
        return known

    def claim(self, space: Space) -> int:
        """The number of a space, given now if it has none."""
        known = self.space(space)
        if known < 0:
            self.write("INSERT INTO space (role, workspace, namespace) VALUES (?, ?, ?)", [space])
            known = self.space(space)
        return known

    def remove(self, source: str, space: int, seqs: Sequence[int]) -> None:
        """Deletes rows of a mirrored table and notes it for the mirrors.

        Args:
            source: The table.
            space: The space of all of the rows.
            seqs: The rows.
        """
        if seqs:
            self.write(f"DELETE FROM {source} WHERE seq = ?", [(seq,) for seq in seqs])
            self._note_removed([(source, space, seq) for seq in seqs])

    def remove_all(self, source: str, space: int) -> None:
        """Deletes every row of a space from a mirrored table.

        Args:
            source: The table.
            space: The space.
        """
        last = self.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", (source,))
        if last:
            self.write(f"DELETE FROM {source} WHERE space = ?", [(space,)])
            self._note_removed([(source, space, -last[0][0])])  # a negative number stands for every row up to it

    def begin(self, connection: sqlite3.Connection, statement: str) -> None:
        """Begins on a connection; for the store.

        Args:
            connection: The connection it has for itself from now on.
            statement: ``BEGIN`` or ``BEGIN IMMEDIATE``.
        """
        with self._guard:
            self.mirrors = self._store.mirrors.latest()
            connection.execute(statement)
            self._connection = connection
            connection.execute("SELECT max(id) FROM space").fetchone()  # the first read is what pins the snapshot

    def commit(self) -> None:
        """Writes what waits and commits; for the store."""
        with self._guard, translated(self._store.path):
            self._flush()
            self._opened().execute("COMMIT")
            self._store.learn_spaces(self._spaces)

    def end(self) -> sqlite3.Connection | None:
        """Undoes what was not committed and gives the connection back; for the store."""
        with self._guard:
            connection, self._connection = self._connection, None
            self._pending.clear()
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
            return connection

    def _note_removed(self, rows: Sequence[Row]) -> None:
        self.write("INSERT INTO removed (source, space, seq) VALUES (?, ?, ?)", rows)
        self.write("DELETE FROM removed WHERE number <= (SELECT max(number) FROM removed) - ?", [(REMOVALS_KEPT,)])

    def _run(self, work: Callable[[SqliteSession], T]) -> T:
        with self._guard:
            self._opened()
            self._flush()
        return work(self)

    def _all_or_nothing(self, work: Callable[[SqliteSession], T], session: SqliteSession) -> T:
        with self._guard, translated(self._store.path):
            connection = self._opened()
            connection.execute("SAVEPOINT change")
            try:
                result = work(session)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK TO change")
                raise
            finally:
                if connection.in_transaction:
                    connection.execute("RELEASE change")
            return result

    def _flush(self) -> None:
        if self._spoilt:
            raise StorageError("an earlier write of this transaction failed", hint="leave the transaction and begin another one")
        self._spoilt = bool(self._pending)  # whoever asked for these writes has gone on, so none of them may be left out
        for write in self._pending:
            write()
        self._pending.clear()
        self._spoilt = False

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageNotOpenError(
                "this snapshot or transaction has ended", hint="use the storages it gave inside its block only"
            )
        return self._connection

    def _require_writable(self) -> None:
        if not self._writable:
            raise StorageError("a snapshot cannot be written to", hint="open a transaction")
        self._opened()
