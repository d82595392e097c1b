"""A folder of namespaces that are committed together: journal, snapshots, and the tables in memory."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError, WorkingDirLockedError
from easy_knowledge_retriever.failpoints import failpoint, torn
from easy_knowledge_retriever.kg.base import Store
from easy_knowledge_retriever.kg.files import disk, journal
from easy_knowledge_retriever.kg.files.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    Sign,
    read_manifest,
    sign_of,
    unneeded,
    write_manifest,
)
from easy_knowledge_retriever.kg.files.session import FileSession, payload_of
from easy_knowledge_retriever.kg.files.table import Json, Key, Table
from easy_knowledge_retriever.kg.locks import folder_claim, holder_of
from easy_knowledge_retriever.kg.turns import Turns

__all__ = ["Durability", "FileStore"]

logger = logging.getLogger("easy_knowledge_retriever")
Durability = Literal["full", "relaxed"]
WRITER = "write"
"""The claim of who writes to a folder."""
LEAST, SHARE = 4 << 20, 0.5
"""A journal of so many bytes, and of such a share of the snapshots, is folded into new ones: what that costs is paid for by
what was written since, however large the base is."""

# The transactions this task, or one it was started from, stands in: waiting for one's own turn would never end.
_inside: ContextVar[tuple[FileSession, ...]] = ContextVar("ekr_file_transactions", default=())


class FileStore(Store):
    """The files of one folder. One process at a time writes, others read beside it and see each commit whole.

    Usable from several event loops and threads, not across a fork.

    Args:
        folder: Created by the first commit.
        durability: ``full`` syncs every commit. ``relaxed`` syncs at snapshots and :meth:`flush`: a power loss may undo the
            last commits, whole ones only; a crash of the process loses nothing either way.
        lock_timeout: Seconds to wait for another process that writes.
    """

    def __init__(self, folder: str | os.PathLike[str], *, durability: Durability = "full", lock_timeout: float = 10.0) -> None:
        if durability not in {"full", "relaxed"}:
            raise ConfigError(f"durability={durability!r}", hint="use 'full' or 'relaxed'")
        if not lock_timeout >= 0:
            raise ConfigError(f"lock_timeout={lock_timeout!r}", hint="give seconds, at least 0")
        self._folder = Path(folder).expanduser().resolve()
        self._durability: Durability = durability
        self._lock_timeout = lock_timeout
        self._beside: dict[str, FileStore] = {}
        self._users: set[object] = set()
        self._opening = Turns()
        self._writing = Turns()
        self._syncing = Turns()
        self._guard = threading.RLock()
        self._readers: set[FileSession] = set()
        self._process = 0
        self._reset()

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    @property
    def key(self) -> Hashable:
        return ("files", self._folder)

    def beside(self, name: str) -> FileStore:
        """The store of a folder below this one, always the same object.

        Args:
            name: The folder, seen from this one.
        """
        if name not in self._beside:
            self._beside[name] = FileStore(self._folder / name, durability=self._durability, lock_timeout=self._lock_timeout)
        return self._beside[name]

    async def open(self) -> None:
        await self.retain(self)

    async def close(self) -> None:
        await self.release(self)

    async def retain(self, user: object, name: str = "", make: Callable[[], Table[Any]] | None = None) -> None:
        """Opens the store for ``user`` if it is not open, and one of its tables.

        Args:
            user: Whoever will release it.
            name: Of the table, ``kind_namespace``.
            make: Gives an empty one.

        Raises:
            StorageError: It cannot be opened.
        """
        async with self._opening.turn():
            if not self._users:
                self._reset()
                self._process = os.getpid()
                await self._remove_leftovers()
            async with self._syncing.turn():
                await self._catch_up()
                if make is not None and name not in self._tables:
                    await self._load(name, make)
            self._users.add(user)

    async def release(self, user: object) -> None:
        """Closes the store if nobody but ``user`` has it open.

        Args:
            user: Whoever retained it.
        """
        async with self._opening.turn():
            if user in self._users and len(self._users) == 1:
                self._refuse_inside()
                async with self._writing.turn(), self._syncing.turn():
                    if self._unsynced and not self._dead:
                        await disk.off_loop(self._sync)
                    self._reset()
            self._users.discard(user)

    def retained_by(self, user: object) -> bool:
        """Whether ``user`` has it open."""
        return user in self._users

    def table(self, name: str) -> Table[Any]:
        """A table as the last commit left it.

        Args:
            name: ``kind_namespace``.

        Raises:
            StorageNotOpenError: It is not open.
        """
        found = self._tables.get(name)
        if found is None:
            raise StorageNotOpenError(f"{name!r} of {str(self._folder)!r} is not open", hint="call open() first")
        return found

    async def refresh(self) -> None:
        """Takes in what other processes have committed."""
        self._require_open()
        if self._signs() != self._seen:
            async with self._syncing.turn():
                await self._catch_up()

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[FileSession]:
        await self.refresh()
        with self._guard:
            session = FileSession(self, self._tables, writable=False)
            self._readers.add(session)
        try:
            yield session
        finally:
            with self._guard:
                self._readers.discard(session)
                session.end()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[FileSession]:
        self._require_open()
        self._refuse_inside()
        async with self._writing.turn(), self._writer():
            self._require_alive()
            async with self._syncing.turn():
                await self._catch_up()
                if self._tail():
                    await disk.off_loop(self._cut_tail)
            session = FileSession(self, self._tables, writable=True)
            before = _inside.get()
            _inside.set((*before, session))
            try:
                yield session
                if session.written():
                    async with self._syncing.turn():
                        await disk.off_loop(partial(self._commit, session))
            finally:
                _inside.set(before)
                session.end()

    @contextlib.asynccontextmanager
    async def claim(self, name: str, *, wait: float | None = None) -> AsyncIterator[bool]:
        self._require_open()
        await self._make_folder()
        async with folder_claim(self._folder, name, wait=wait, patience=self._lock_timeout) as got:
            yield got

    async def flush(self) -> None:
        """Makes all commits durable."""
        self._require_open()
        if self._unsynced:
            self._require_alive()
            self._refuse_inside()
            async with self._writing.turn(), self._syncing.turn():
                await disk.off_loop(self._sync)

    async def checkpoint(self) -> None:
        """Writes snapshots and begins an empty journal now, not when it has grown."""
        self._require_open()
        self._refuse_inside()
        async with self._writing.turn(), self._writer(), self._syncing.turn():
            self._require_alive()
            await self._catch_up()
            with self._fatal(self._folder):
                await disk.off_loop(self._checkpoint)

    @contextlib.asynccontextmanager
    async def _writer(self) -> AsyncIterator[None]:
        await self._make_folder()
        async with folder_claim(self._folder, WRITER, wait=self._lock_timeout) as got:
            if not got:
                holder = holder_of(self._folder, WRITER) or "another process"
                raise WorkingDirLockedError(
                    f"{holder}, has been writing to {str(self._folder)!r} for more than {self._lock_timeout:g} s",
                    hint="wait for it to finish, raise lock_timeout, or give each process its own working_dir",
                )
            yield

    def _reset(self) -> None:
        """As if nothing had been read yet."""
        self._tables: dict[str, Table[Any]] = {}
        self._makers: dict[str, Callable[[], Table[Any]]] = {}
        self._others: defaultdict[str, dict[Key, Json]] = defaultdict(dict)
        """What the journal says of tables that are not open."""
        self._manifest = Manifest()
        self._offset = 0
        """So much of the journal is in the tables."""
        self._synced = 0
        self._unsynced = False
        self._changed: set[str] = set()
        """Tables the journal says something of."""
        self._weight = 0
        """Bytes of the snapshots."""
        self._seen: tuple[Sign, Sign] = (None, None)
        self._sign: Sign = (0, 0, 0)
        self._dead = ""

    def _signs(self) -> tuple[Sign, Sign]:
        return sign_of(self._folder / MANIFEST), sign_of(self._journal)

    @property
    def _journal(self) -> Path:
        return self._folder / self._manifest.journal

    # Reading what is on the disk. The caller has the turn of `_syncing`.

    async def _catch_up(self) -> None:
        """Follows the folder to its last commit."""
        while True:
            sign = sign_of(self._folder / MANIFEST)
            if sign != self._sign and not await self._follow(sign):
                continue
            seen = self._signs()
            if seen == self._seen and sign == seen[0]:
                return
            data = await disk.off_loop(partial(disk.read_from, self._journal, self._offset))
            if seen[0] != sign or sign_of(self._folder / MANIFEST) != sign:
                continue
            if data is None and self._manifest.generation:
                raise disk.corrupt(self._journal, "it is missing")
            if seen[1] and seen[1][2] < self._offset:  # a commit that had failed was taken back
                self._sign = (0, 0, 0)
                self._offset = -1
                continue
            await disk.off_loop(partial(self._replay, data or b""))
            self._seen = seen
            return

    async def _follow(self, sign: Sign) -> bool:
        """Goes over to another manifest; False if it is not the one of the folder any more."""
        manifest = await read_manifest(self._folder)
        tables = self._tables
        if manifest.after != (self._manifest.generation, self._offset):
            tables = {}
            for name, make in self._makers.items():
                table = await self._restored(manifest, name, make)
                if table is None:
                    return self._vanished(manifest, name, sign)
                tables[name] = table
        with self._guard:
            self._tables, self._manifest, self._sign = tables, manifest, sign
            self._offset = self._synced = 0
            self._others.clear()
            self._changed.clear()
        self._weight = sum(found[2] for file in manifest.snapshots.values() if (found := sign_of(self._folder / file)))
        return True

    async def _load(self, name: str, make: Callable[[], Table[Any]]) -> None:
        while (table := await self._restored(self._manifest, name, make)) is None:
            self._vanished(self._manifest, name, self._sign)
            await self._catch_up()
        with readable(self._journal):
            table.apply({key: _decoded(table, key, data) for key, data in self._others.get(name, {}).items()})
        with self._guard:
            self._others.pop(name, None)
            self._tables[name], self._makers[name] = table, make

    async def _restored(self, manifest: Manifest, name: str, make: Callable[[], Table[Any]]) -> Table[Any] | None:
        """A table as its snapshot has it; None if the snapshot is not there."""
        table = make()
        if name not in manifest.snapshots:
            return table
        path = self._folder / manifest.snapshots[name]
        body = await disk.read_sealed(path)
        if body is None:
            return None
        await disk.off_loop(partial(_restore, table, name, path, body))
        return table

    def _vanished(self, manifest: Manifest, name: str, sign: Sign) -> bool:
        if sign_of(self._folder / MANIFEST) == sign:
            raise disk.corrupt(self._folder / manifest.snapshots[name], "it is missing")
        return False

    def _replay(self, data: bytes) -> None:
        start, generation, end = self._offset, self._manifest.generation, self._offset
        for record in journal.records(data, generation, start):
            with readable(self._journal):
                spaces = [(name, [(_key(key), row) for key, row in rows]) for name, rows in json.loads(record.payload)]
                decoded = {name: self._decoded(name, rows) for name, rows in spaces}
            with self._guard:
                self._apply(decoded)
                self._offset, self._synced = record.end, record.synced
            end = record.end
        if journal.damaged(data[end - start :], generation, end):
            raise disk.corrupt(self._journal, f"what stands at byte {end} is no record, and what follows says it was one")

    def _decoded(self, name: str, rows: list[tuple[Key, Json]]) -> dict[Key, Any]:
        table = self._tables.get(name)
        return dict(rows) if table is None else {key: _decoded(table, key, row) for key, row in rows}

    def _apply(self, changes: Mapping[str, Mapping[Key, Any]]) -> None:
        """Takes one commit into the tables. The caller has the guard, so that no snapshot begins in the middle."""
        for name, rows in changes.items():
            self._changed.add(name)
            table = self._tables.get(name)
            if table is None:
                self._others[name].update(rows)
                continue
            with table.lock:
                for session in self._readers:
                    session.keep(name, table, rows.keys())
                table.apply(rows)

    # Writing. The caller has the claim of the folder and both turns, and is in a thread.

    def _commit(self, session: FileSession) -> None:
        payload = session.payload()
        with self._fatal(self._journal):
            if not self._manifest.generation:
                self._begin()
            record = journal.packed(payload, self._manifest.generation, self._offset, self._synced)
            full = self._durability == "full"
            disk.append(
                self._journal,
                torn("journal-appended", record),
                durable=full,
                before_sync=partial(failpoint, "journal-appended"),
            )
        with self._guard:
            self._apply({name: view.changes for name, view in session.written().items()})
            self._offset += len(record)
        self._unsynced = not full
        if full:
            self._synced = self._offset
        self._seen = self._signs()
        if self._offset > max(LEAST, SHARE * self._weight):
            with self._fatal(self._folder):
                self._checkpoint()

    def _begin(self) -> None:
        """The first manifest of a folder: what an earlier format left are its first snapshots."""
        self._switch(Manifest(1, dict(self._manifest.snapshots), (0, 0)), b"")

    def _checkpoint(self) -> None:
        """New snapshots of what was changed, and an empty journal."""
        generation = self._manifest.generation + 1
        snapshots = dict(self._manifest.snapshots)
        for name in sorted(self._changed & self._tables.keys()):
            snapshots.pop(name, None)
            if len(self._tables[name]):
                snapshots[name] = f"{name}.{generation}.json"
                disk.write_atomically(self._folder / snapshots[name], disk.sealed(_file(name, self._tables[name])))
                failpoint("snapshot-renamed")
        others = {
            name: [(key, json.dumps(row, separators=(",", ":"))) for key, row in rows.items()]
            for name, rows in self._others.items()
        }
        first = journal.packed(payload_of(others), generation, 0, 0) if others else b""
        self._switch(Manifest(generation, snapshots, (self._manifest.generation, self._offset)), first)
        self._weight = sum((self._folder / file).stat().st_size for file in snapshots.values())

    def _switch(self, manifest: Manifest, first: bytes) -> None:
        """Makes another manifest the one of the folder, with a journal that begins with ``first``."""
        disk.write_atomically(self._folder / manifest.journal, [first])
        write_manifest(self._folder, manifest)
        failpoint("journal-cut")
        with self._guard:
            self._manifest, self._offset, self._synced = manifest, len(first), len(first)
            self._changed = set(self._others)
            self._unsynced = False
            self._seen = self._signs()
            self._sign = self._seen[0]
        self._collect()

    def _collect(self) -> None:
        for path in unneeded(self._folder, self._manifest):
            with contextlib.suppress(OSError):  # open elsewhere, on some systems: the next time
                path.unlink()

    def _tail(self) -> int:
        """Bytes of a commit that nobody was told of, which a crash left."""
        found = sign_of(self._journal)
        return found[2] - self._offset if found else 0

    def _cut_tail(self) -> None:
        logger.warning("%d bytes of an unfinished commit are cut from %s", self._tail(), self._journal)
        with self._fatal(self._journal):
            disk.cut(self._journal, self._offset)
        self._seen = self._signs()

    def _sync(self) -> None:
        with self._fatal(self._journal):
            if self._manifest.generation:
                disk.sync(self._journal)
        self._synced, self._unsynced = self._offset, False

    @contextlib.contextmanager
    def _fatal(self, path: Path) -> Iterator[None]:
        """After a refusal of the system nobody knows what it kept: the store must be opened anew to be written to."""
        try:
            yield
        except OSError as failure:
            error = disk.refused(path, failure)
            self._dead = str(error)
            raise error from failure

    async def _make_folder(self) -> None:
        try:
            if not self._folder.is_dir():
                await disk.off_loop(partial(disk.make_folder, self._folder))
        except OSError as failure:
            raise disk.refused(self._folder, failure) from failure

    async def _remove_leftovers(self) -> None:
        """Temporary files are of no use to anyone but who writes them."""
        if any(self._folder.glob(f"*{disk.TEMPORARY}*")):
            with contextlib.suppress(StorageError):  # who may not write may read
                async with folder_claim(self._folder, WRITER, wait=0) as got:
                    if got:
                        for path in self._folder.glob(f"*{disk.TEMPORARY}*"):
                            path.unlink(missing_ok=True)

    def _require_open(self) -> None:
        if not self._users:
            raise StorageNotOpenError(f"{str(self._folder)!r} is not open", hint="call open() first, or use `async with`")
        if os.getpid() != self._process:
            raise StorageNotOpenError(f"{str(self._folder)!r} was opened before a fork", hint="open it in the child process")

    def _require_alive(self) -> None:
        if self._dead:
            raise StorageError(f"nothing is written any more since a failure: {self._dead}", hint="close it and open it again")

    def _refuse_inside(self) -> None:
        if any(session.active and session.store is self for session in _inside.get()):
            raise StorageError(
                f"a transaction on {str(self._folder)!r} is open here already",
                hint="write through the storages that transaction gave; another one would wait for it for ever",
            )


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raises what a reader of rows raises as a file that is corrupt.

    Args:
        path: Where the rows are from.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as failure:
        raise disk.corrupt(path, f"{failure!r} while it was read") from failure


def _key(data: Json) -> Key:
    return tuple(data) if isinstance(data, list) else data


def _decoded(table: Table[Any], key: Key, data: Json) -> Any:
    return None if data is None else table.decode(key, data)


def _file(name: str, table: Table[Any]) -> Iterator[str]:
    """A snapshot."""
    kind, _, namespace = name.partition("_")
    header = json.dumps({"format": FORMAT, "kind": kind, "namespace": namespace}, separators=(",", ":"))
    yield f"{header[:-1]},"
    yield from table.members()
    yield "}"


def _restore(table: Table[Any], name: str, path: Path, body: bytes) -> None:
    with readable(path):
        rest = table.restore(body)
        if f"{rest['kind']}_{rest['namespace']}" != name:
            raise disk.corrupt(path, f"it belongs to {rest['kind']!r} {rest['namespace']!r}")
