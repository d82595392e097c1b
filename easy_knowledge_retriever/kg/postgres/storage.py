"""What the five PostgreSQL storages have in common."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack

from easy_knowledge_retriever.errors import ConfigError, StorageNotOpenError, StoreCorruptError
from easy_knowledge_retriever.kg.base import JsonObject, Session, Storage, Store
from easy_knowledge_retriever.kg.postgres.server import PGServer, require_port
from easy_knowledge_retriever.kg.postgres.session import PGSession, Space
from easy_knowledge_retriever.kg.postgres.store import Durability, PGStore
from easy_knowledge_retriever.settings import check_slug, environment

__all__ = ["PGOptions", "PGStorage"]

logger = logging.getLogger("easy_knowledge_retriever")
T = TypeVar("T")


class PGOptions(TypedDict, total=False):
    """How the database is reached."""

    user: str
    """Who logs in; else ``POSTGRES_USER``, else ``postgres``."""
    password: str
    """Else ``POSTGRES_PASSWORD``."""
    database: str
    """Else ``POSTGRES_DATABASE``, else ``postgres``."""
    host: str
    """A name, an address, or the folder of a socket; else ``POSTGRES_HOST``, else ``localhost``."""
    port: int
    """Else ``POSTGRES_PORT``, else 5432."""
    role: str
    """A role that works on the rows instead of the one that logs in, which must be a member of it."""
    ssl: object
    """As asyncpg takes it: ``"require"``, an ``ssl.SSLContext`` …"""
    max_connections: int
    """Connections at most, 10 if not given."""
    lock_timeout: float
    """Seconds to wait for the transaction of another process, 10 if not given."""
    durability: Durability
    """``full`` syncs every commit; ``relaxed`` may lose those of the last second if the server crashes, whole ones only."""
    embedding_func: object
    """Ignored with a warning: a storage does not embed."""


class PGStorage(Storage):
    """One role in one PostgreSQL database. Used outside a session, each call is a snapshot or a transaction of its own.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        options: How the database is reached, see :class:`PGOptions`.

    Raises:
        MissingExtraError: asyncpg is not installed.
    """

    role: ClassVar[str]

    def __init__(self, workspace: str = "", **options: Unpack[PGOptions]) -> None:
        self._own_workspace = check_slug(workspace)
        self._store = _store(options)
        self._space = Space(self.role, self._own_workspace)
        self._session: PGSession | None = None

    @classmethod
    def beside(cls, other: PGStorage) -> Self:
        """A storage in the database of another one, of the same workspace."""
        made = object.__new__(cls)
        made.__dict__.update(other.__dict__)
        made._space = Space(cls.role, other._own_workspace)
        made._session = None
        return made

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = self._copy()
        bound._space = Space(self.role, self._own_workspace or check_slug(workspace), check_slug(namespace))
        bound._session = None
        return bound

    @property
    def store(self) -> Store:
        return self._store

    def sharing(self, store: Store) -> Self:
        if not isinstance(store, PGStore) or store.key != self._store.key:
            raise ConfigError(f"the store is not {self._store.server}", hint="share a store of the same database")
        shared = self._copy()
        shared._store = store
        shared._session = None
        return shared

    def within(self, session: Session) -> Self:
        if not isinstance(session, PGSession) or session.store is not self._store:
            raise ConfigError(f"the session is not one of {self._store.server}", hint="use a session of its own store")
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
        await self._change(self._drop)

    @abstractmethod
    async def _drop(self, session: PGSession, space: int) -> None:
        """Deletes every row of the space."""

    async def _read(self, work: Callable[[PGSession, int], Awaitable[T]]) -> T:
        """The result of ``work``, which is given the session and the number of the space."""
        if self._session is not None:
            return await self._session.run(self._space, work)
        self._require_open()
        async with self._store.snapshot(self._space.workspace) as session:
            return await session.run(self._space, work)

    async def _change(self, work: Callable[[PGSession, int], Awaitable[T]]) -> T:
        if self._session is not None:
            return await self._session.change(self._space, work)
        self._require_open()
        async with self._store.transaction() as session:
            return await session.change(self._space, work)

    def _copy(self) -> Self:
        # As copy.copy does it, several times faster: every snapshot and transaction copies each storage of a base.
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _require_open(self) -> None:
        if not self._store.retained_by(self):
            raise StorageNotOpenError(f"{self._space} of {self._store.server} is not open", hint="call open() first")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=dict)


def encoded(value: JsonObject) -> str:
    """JSON as it stands in a row; equal objects are equal rows."""
    return _ENCODER.encode(value)


def decoded(session: PGSession, stored: str, decode: Callable[[Any], T]) -> T:
    """What a row of JSON stands for.

    Args:
        session: The session that read it.
        stored: As it stands in the row.
        decode: Makes the value of the object.

    Raises:
        StoreCorruptError: It is not what was written.
    """
    try:
        return decode(json.loads(stored))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            f"a row of {session.store.server} cannot be read: {error!r}", hint="restore a backup, or ingest anew"
        ) from error


def _store(options: PGOptions) -> PGStore:
    strangers = sorted(options.keys() - PGOptions.__annotations__.keys())
    if strangers:
        raise ConfigError(f"unknown arguments: {strangers}", hint=f"known: {', '.join(PGOptions.__annotations__)}")
    if options.get("embedding_func") is not None:
        _warn_once()
    known = environment()
    server = PGServer(
        host=options.get("host") or known.postgres_host or "localhost",
        port=require_port(options.get("port") or known.postgres_port or 5432),
        database=options.get("database") or known.postgres_database or "postgres",
        user=options.get("user") or known.postgres_user or "postgres",
        role=options.get("role", ""),
        password=options.get("password") or known.postgres_password or "",
        ssl=options.get("ssl"),
    )
    return PGStore(
        server,
        max_connections=options.get("max_connections", 10),
        lock_timeout=options.get("lock_timeout", 10.0),
        durability=options.get("durability", "full"),
    )


@cache
def _warn_once() -> None:
    logger.warning("embedding_func is ignored: a storage does not embed")
