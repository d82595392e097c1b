"""A folder of namespaces that are committed together: journal, snapshots, and the tables in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Hashable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError, WorkingDirLockedError
from easy_knowledge_retriever.kg.base import Store
from easy_knowledge_retriever.kg.files import disk
from easy_knowledge_retriever.kg.files.session import FileSession
from easy_knowledge_retriever.kg.files.state import FolderState
from easy_knowledge_retriever.kg.files.table import Table
from easy_knowledge_retriever.kg.filesystems import refuse_network, warn_of_network
from easy_knowledge_retriever.kg.locks import folder_claim, holder_of
from easy_knowledge_retriever.kg.turns import Turns

__all__ = ["Durability", "FileStore"]

Durability = Literal["full", "relaxed"]
WRITER = "write"
"""The claim of who writes to a folder."""

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
        allow_network_fs: Whether it may be written to on a network file system.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        lock_timeout: float = 10.0,
        allow_network_fs: bool = False,
    ) -> None:
        if durability not in {"full", "relaxed"}:
            raise ConfigError(f"durability={durability!r}", hint="use 'full' or 'relaxed'")
        if not lock_timeout >= 0:
            raise ConfigError(f"lock_timeout={lock_timeout!r}", hint="give seconds, at least 0")
        self._folder = Path(folder).expanduser().resolve()
        self._durability: Durability = durability
        self._lock_timeout = lock_timeout
        self._allow_network_fs = allow_network_fs
        self._network = ""
        self._beside: dict[str, FileStore] = {}
        self._users: set[object] = set()
        self._opening = Turns()
        self._writing = Turns()
        self._syncing = Turns()
        self._process = 0
        self._state = self._fresh()

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
                self._state = self._fresh()
                self._process = os.getpid()
                self._network = warn_of_network(self._folder)
                await self._remove_leftovers()
            async with self._syncing.turn():
                await self._state.catch_up()
                if make is not None and name not in self._state.tables:
                    await self._state.load(name, make)
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
                    if self._state.unsynced and not self._state.dead:
                        await disk.off_loop(self._state.sync)
                    self._state = self._fresh()
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
        found = self._state.tables.get(name)
        if found is None:
            raise StorageNotOpenError(f"{name!r} of {str(self._folder)!r} is not open", hint="call open() first")
        return found

    async def refresh(self) -> None:
        """Takes in what other processes have committed."""
        self._require_open()
        if self._state.stale:
            async with self._syncing.turn():
                await self._state.catch_up()

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[FileSession]:
        await self.refresh()
        state, session = self._state, FileSession(self, writable=False)
        state.begin_reading(session)
        try:
            yield session
        finally:
            state.end_reading(session)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[FileSession]:
        self._require_open()
        self._refuse_inside()
        async with self._writing.turn(), self._writer():
            self._require_alive()
            async with self._syncing.turn():
                await self._state.catch_up()
                if self._state.tail:
                    await disk.off_loop(self._state.cut_tail)
            session = FileSession(self, writable=True)
            session.begin(self._state.tables)
            before = _inside.get()
            _inside.set((*before, session))
            try:
                yield session
                if session.written():
                    async with self._syncing.turn():
                        await disk.off_loop(partial(self._state.commit, session))
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
        if self._state.unsynced:
            self._require_alive()
            self._refuse_inside()
            async with self._writing.turn(), self._syncing.turn():
                await disk.off_loop(self._state.sync)

    async def checkpoint(self) -> None:
        """Writes snapshots and begins an empty journal now, not when it has grown."""
        self._require_open()
        self._refuse_inside()
        async with self._writing.turn(), self._writer(), self._syncing.turn():
            self._require_alive()
            await self._state.catch_up()
            await disk.off_loop(self._state.checkpoint)

    async def scrub(self) -> None:
        # Snapshots of what was deleted from are written anew, and the journal with them; nothing else holds rows.
        await self.checkpoint()

    def _fresh(self) -> FolderState:
        """As if nothing had been read yet."""
        return FolderState(self._folder, full=self._durability == "full")

    @contextlib.asynccontextmanager
    async def _writer(self) -> AsyncIterator[None]:
        if not self._allow_network_fs:
            refuse_network(self._folder, self._network)
        await self._make_folder()
        async with folder_claim(self._folder, WRITER, wait=self._lock_timeout) as got:
            if not got:
                holder = holder_of(self._folder, WRITER) or "another process"
                raise WorkingDirLockedError(
                    f"{holder}, has been writing to {str(self._folder)!r} for more than {self._lock_timeout:g} s",
                    hint="wait for it to finish, raise lock_timeout, or give each process its own working_dir",
                )
            yield

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
        if self._state.dead:
            raise StorageError(
                f"nothing is written any more since a failure: {self._state.dead}", hint="close it and open it again"
            )

    def _refuse_inside(self) -> None:
        if any(session.active and session.store is self for session in _inside.get()):
            raise StorageError(
                f"a transaction on {str(self._folder)!r} is open here already",
                hint="write through the storages that transaction gave; another one would wait for it for ever",
            )
