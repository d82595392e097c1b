"""What the five storages in files have in common."""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from easy_knowledge_retriever.errors import ConfigError, StorageNotOpenError
from easy_knowledge_retriever.kg.base import Session, Storage, Store
from easy_knowledge_retriever.kg.files.disk import off_loop
from easy_knowledge_retriever.kg.files.session import FileSession
from easy_knowledge_retriever.kg.files.store import Durability, FileStore
from easy_knowledge_retriever.kg.files.table import Changes, Table, View
from easy_knowledge_retriever.settings import Settings, check_slug

__all__ = ["FileStorage"]

logger = logging.getLogger("easy_knowledge_retriever")
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_DIR = Settings().working_dir


class FileStorage(Storage, Generic[R]):
    """One role in the files of one folder. Used outside a session, each write is a transaction of its own.

    Args:
        working_dir: Folder of the files; the retriever's if not given, and ``./rag_storage`` without a retriever.
        workspace: Separates bases in one folder. One given here is kept whatever ``bind`` is told.
        embedding_func: Ignored with a warning: a storage does not embed.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
        allow_network_fs: Whether it may be written to on a network file system.
    """

    rows: ClassVar[type[Table[Any]]]

    def __init__(
        self,
        working_dir: str | os.PathLike[str] | None = None,
        workspace: str = "",
        embedding_func: object = None,
        *,
        durability: Durability = "full",
        lock_timeout: float = 10.0,
        allow_network_fs: bool = False,
    ) -> None:
        if embedding_func is not None:
            _warn_once(type(self).__name__)
        self._told_dir = working_dir is not None
        self._options: dict[str, Any] = {
            "durability": durability,
            "lock_timeout": lock_timeout,
            "allow_network_fs": allow_network_fs,
        }
        self._store = FileStore(DEFAULT_DIR if working_dir is None else working_dir, **self._options)
        self._own_workspace = check_slug(workspace)
        self._workspace = workspace
        self._namespace = ""
        self._session: FileSession | None = None

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = self._copy()
        bound._namespace = check_slug(namespace)
        bound._workspace = self._own_workspace or check_slug(workspace)
        bound._session = None
        return bound

    def under(self, working_dir: str) -> Self:
        if self._told_dir:
            return self
        moved = self._copy()
        moved._store = FileStore(Path(working_dir), **self._options)
        return moved

    @property
    def store(self) -> FileStore:
        if not self._workspace:
            return self._store
        return self._store.beside(f"workspaces/{hashlib.blake2b(self._workspace.encode(), digest_size=8).hexdigest()}")

    def sharing(self, store: Store) -> Self:
        if not isinstance(store, FileStore) or store.key != self.store.key:
            raise ConfigError(f"{store.key!r} is not {self.store.key!r}", hint="share a store of the same folder")
        shared = self._copy()
        shared._store = store
        return shared

    def within(self, session: Session) -> Self:
        if not isinstance(session, FileSession) or session.store is not self.store:
            raise ConfigError(f"the session is not one of {self.store.key!r}", hint="use a session of its own store")
        seen = self._copy()
        seen._session = session
        return seen

    async def open(self) -> None:
        await self.store.retain(self, self._name, self.rows)

    async def flush(self) -> None:
        if self._session is None:
            self._require_open()
            await self.store.flush()

    async def close(self) -> None:
        await self.store.release(self)

    async def drop(self) -> None:
        await self._change(lambda view: dict.fromkeys(view.keys()))

    def _copy(self) -> Self:
        return copy.copy(self)

    @property
    def _name(self) -> str:
        return f"{self.rows.kind}_{self._namespace}"

    async def _view(self) -> View[R]:
        """The rows as this storage sees them now."""
        if self._session is not None:
            return self._session.view(self._name)
        self._require_open()
        store = self.store
        await store.refresh()
        return View(store.table(self._name))

    async def _read(self, work: Callable[[View[R]], T]) -> T:
        """The result of ``work``, which is too short for a thread."""
        view = await self._view()
        with view.table.lock:
            return work(view)

    async def _search(self, work: Callable[[View[R]], T]) -> T:
        """The result of ``work``, which is too long for the event loop."""
        view = await self._view()

        def locked() -> T:
            with view.table.lock:
                return work(view)

        return await off_loop(locked)

    async def _change(self, make: Callable[[View[R]], Changes[R]]) -> None:
        """Writes the rows that ``make`` gives; if it raises, nothing."""
        if self._session is not None:
            self._session.change(self._name, make)
            return
        self._require_open()
        async with self.store.transaction() as session:
            session.change(self._name, make)

    def _require_open(self) -> None:
        if not self.store.retained_by(self):
            raise StorageNotOpenError(f"{self._name!r} of {str(self.store.folder)!r} is not open", hint="call open() first")


@functools.cache
def _warn_once(storage: str) -> None:
    logger.warning("%s was given an embedding_func and ignores it: storages do not embed", storage)
