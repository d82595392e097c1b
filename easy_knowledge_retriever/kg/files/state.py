"""The state of a folder: the tables in memory, and how they follow and make its journal and snapshots."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from easy_knowledge_retriever.failpoints import failpoint, torn
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

__all__ = ["FolderState"]

logger = logging.getLogger("easy_knowledge_retriever")
LEAST, SHARE = 4 << 20, 0.5
"""A journal of so many bytes, and of such a share of the snapshots, is folded into new ones: what that costs is paid for by
what was written since, however large the base is."""


class FolderState:
    """What is in memory of a folder. One task at a time calls its methods; snapshots are taken beside them.

    Args:
        folder: Where the files are.
        full: Whether every commit is synced.
    """

    def __init__(self, folder: Path, *, full: bool) -> None:
        self._folder = folder
        self._full = full
        self._guard = threading.RLock()
        self._readers: set[FileSession] = set()
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
        self.dead = ""
        """Why nothing is written any more."""

    @property
    def tables(self) -> Mapping[str, Table[Any]]:
        """``kind_namespace`` → table, as the last commit left it."""
        return self._tables

    @property
    def stale(self) -> bool:
        """Whether the files are others than those that were read."""
        return self._signs() != self._seen

    @property
    def unsynced(self) -> bool:
        """Whether a commit is in the journal and perhaps not on the disk."""
        return self._unsynced

    @property
    def tail(self) -> int:
        """Bytes at the end of the journal that are no commit: a crash left them."""
        found = sign_of(self._journal)
        return found[2] - self._offset if found else 0

    def begin_reading(self, session: FileSession) -> None:
        """Keeps what a session sees from now on."""
        with self._guard:
            session.begin(self._tables)
            self._readers.add(session)

    def end_reading(self, session: FileSession) -> None:
        """Keeps nothing for it any more."""
        with self._guard:
            self._readers.discard(session)
            session.end()

    def _signs(self) -> tuple[Sign, Sign]:
        return sign_of(self._folder / MANIFEST), sign_of(self._journal)

    @property
    def _journal(self) -> Path:
        return self._folder / self._manifest.journal

    async def catch_up(self) -> None:
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

    async def load(self, name: str, make: Callable[[], Table[Any]]) -> None:
        """Opens a table, after :meth:`catch_up`.

        Args:
            name: ``kind_namespace``.
            make: Gives an empty one.
        """
        while (table := await self._restored(self._manifest, name, make)) is None:
            self._vanished(self._manifest, name, self._sign)
            await self.catch_up()
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

    def commit(self, session: FileSession) -> None:
        """Makes what was written in a session the state: in the journal first, then in memory.

        Args:
            session: A transaction of who may write, who has caught up before.

        Raises:
            StorageError: The system refused; the state is what it was before.
        """
        payload = session.payload()
        with self._fatal(self._journal):
            if not self._manifest.generation:
                self._begin()
            record = journal.packed(payload, self._manifest.generation, self._offset, self._synced)
            disk.append(
                self._journal,
                torn("journal-appended", record),
                durable=self._full,
                before_sync=partial(failpoint, "journal-appended"),
            )
        with self._guard:
            self._apply({name: view.changes for name, view in session.written().items()})
            self._offset += len(record)
        self._unsynced = not self._full
        if self._full:
            self._synced = self._offset
        self._seen = self._signs()
        if self._offset > max(LEAST, SHARE * self._weight):
            self.checkpoint()

    def _begin(self) -> None:
        """The first manifest of a folder: what an earlier format left are its first snapshots."""
        self._switch(Manifest(1, dict(self._manifest.snapshots), (0, 0)), b"")

    def checkpoint(self) -> None:
        """New snapshots of what was changed, and an empty journal. As :meth:`commit`, for who may write, in a thread."""
        with self._fatal(self._folder):
            generation = self._manifest.generation + 1
            snapshots = self._write_snapshots(generation)
            others = {
                name: [(key, json.dumps(row, separators=(",", ":"))) for key, row in rows.items()]
                for name, rows in self._others.items()
            }
            first = journal.packed(payload_of(others), generation, 0, 0) if others else b""
            self._switch(Manifest(generation, snapshots, (self._manifest.generation, self._offset)), first)
            self._weight = sum((self._folder / file).stat().st_size for file in snapshots.values())

    def _write_snapshots(self, generation: int) -> dict[str, str]:
        snapshots = dict(self._manifest.snapshots)
        for name in sorted(self._changed & self._tables.keys()):
            snapshots.pop(name, None)
            if len(self._tables[name]):
                snapshots[name] = f"{name}.{generation}.json"
                disk.write_atomically(self._folder / snapshots[name], disk.sealed(_file(name, self._tables[name])))
                failpoint("snapshot-renamed")
        return snapshots

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

    def cut_tail(self) -> None:
        """Removes what a crash left at the end of the journal."""
        logger.warning("%d bytes of an unfinished commit are cut from %s", self.tail, self._journal)
        with self._fatal(self._journal):
            disk.cut(self._journal, self._offset)
        self._seen = self._signs()

    def sync(self) -> None:
        """Makes every commit durable."""
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
            self.dead = str(error)
            raise error from failure


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
