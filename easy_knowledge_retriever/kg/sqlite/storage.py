"""What the five SQLite storages have in common."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from easy_knowledge_retriever.errors import ConfigError, StorageNotOpenError, StoreCorruptError
from easy_knowledge_retriever.kg.base import JsonObject, Session, Storage, Store
from easy_knowledge_retriever.kg.sqlite.packing import PackingError, pack, unpack
from easy_knowledge_retriever.kg.sqlite.session import Space, SqliteSession
from easy_knowledge_retriever.kg.sqlite.store import Durability, SqliteStore
from easy_knowledge_retriever.settings import check_slug

__all__ = ["SqliteStorage", "decoded", "encoded", "parsed"]

T = TypeVar("T")
R = TypeVar("R")


class SqliteStorage(Storage):
    """One role in one SQLite file. Used outside a session, each call is a snapshot or a transaction of its own.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
        allow_network_fs: Whether it may be written to on a network file system.
    """

    role: ClassVar[str]

    def __init__(
        self,
        working_dir: str | Path,
        *,
        durability: Durability = "full",
        lock_timeout: float = 10.0,
        allow_network_fs: bool = False,
    ) -> None:
        self._store = SqliteStore(
            working_dir, durability=durability, lock_timeout=lock_timeout, allow_network_fs=allow_network_fs
        )
        self._space = Space(self.role)
        self._session: SqliteSession | None = None

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = self._copy()
        bound._space = Space(self.role, check_slug(workspace), namespace)
        bound._session = None
        return bound

    @property
    def store(self) -> Store:
        return self._store

    def sharing(self, store: Store) -> Self:
        if not isinstance(store, SqliteStore) or store.key != self._store.key:
            raise ConfigError(f"{store.key!r} is not {self._store.key!r}", hint="share a store of the same file")
        shared = self._copy()
        shared._store = store
        shared._session = None
        return shared

    def within(self, session: Session) -> Self:
        if not isinstance(session, SqliteSession) or session.store is not self._store:
            raise ConfigError(f"the session is not one of {self._store.key!r}", hint="use a session of its own store")
        seen = self._copy()
        seen._session = session
        return seen

    async def open(self) -> None:
        await self._store.retain(self)

    async def flush(self) -> None:
        if self._session is None:
            self._require_open()
            await self._store.flush()

    async def close(self) -> None:
        await self._store.release(self)

    async def drop(self) -> None:
        await self._change(lambda session: self._drop(session, session.claim(self._space)))

    @abstractmethod
    def _drop(self, session: SqliteSession, space: int) -> None:
        """Deletes every row of the space."""

    def _copy(self) -> Self:
        # As copy.copy does it, several times faster: every snapshot and transaction copies each storage of a base.
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    async def _read(self, work: Callable[[SqliteSession, int], T]) -> T:
        """The result of ``work``, which is given the session and the number of the space, in a worker thread."""

        def located(session: SqliteSession) -> T:
            return work(session, session.space(self._space))

        if self._session is not None:
            return await self._session.run(located)
        self._require_open()
        return await self._store.read(located)

    async def _put(
        self, items: Sequence[T], encode: Callable[[Sequence[T]], list[R]], write: Callable[[SqliteSession, int, list[R]], None]
    ) -> None:
        """Writes items: ``encode`` makes rows of them, ``write`` is given the session, the space and the rows."""

        def located(session: SqliteSession, rows: list[R]) -> None:
            write(session, session.claim(self._space), rows)

        if self._session is not None:
            await self._session.put(items, encode, located)
            return
        self._require_open()
        if not items:
            return
        async with self._store.transaction() as session:
            await session.put(items, encode, located)

    async def _change(self, work: Callable[[SqliteSession], T]) -> T:
        if self._session is not None:
            return await self._session.change(work)
        self._require_open()
        async with self._store.transaction() as session:
            return await session.change(work)

    def _require_open(self) -> None:
        if not self._store.retained_by(self):
            raise StorageNotOpenError(f"{self._space} of {str(self._store.path)!r} is not open", hint="call open() first")


_DECODE = json.JSONDecoder().raw_decode
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=dict)


def encoded(value: JsonObject | list[str]) -> str | bytes:
    """JSON as it stands in a row; equal objects are equal rows."""
    return pack(_ENCODER.encode(value))


def parsed(stored: str | bytes) -> Any:
    """The JSON of a row.

    Raises:
        ValueError: It is not what was written.
        PackingError: So it is.
    """
    # As json.loads without its two searches for white space, which we do not write.
    text = unpack(stored)
    value, end = _DECODE(text)
    if end != len(text):
        raise ValueError(f"something follows at {end}")
    return value


def decoded(session: SqliteSession, stored: str | bytes, decode: Callable[[Any], T]) -> T:
    """What a row of JSON stands for.

    Args:
        session: The session that read it.
        stored: As it stands in the row.
        decode: Makes the value of the object.

    Raises:
        StoreCorruptError: It is not what was written.
    """
    try:
        return decode(parsed(stored))
    except (ValueError, KeyError, TypeError, PackingError) as error:
        raise StoreCorruptError(
            f"a row of {str(session.store.path)!r} cannot be read: {error!r}", hint="restore a backup, or ingest anew"
        ) from error
