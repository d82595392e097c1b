"""The database itself: the pool, snapshots and transactions."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Literal

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.base import Store
from easy_knowledge_retriever.kg.postgres import schema
from easy_knowledge_retriever.kg.postgres.indexes import Indexes, VectorIndex
from easy_knowledge_retriever.kg.postgres.schema import lock_number
from easy_knowledge_retriever.kg.postgres.server import PGServer, asyncpg_package
from easy_knowledge_retriever.kg.postgres.session import PGSession, Space
from easy_knowledge_retriever.kg.turns import turns_for
from easy_knowledge_retriever.settings import check_slug

__all__ = ["Durability", "PGStore"]

logger = logging.getLogger("easy_knowledge_retriever")
Durability = Literal["full", "relaxed"]

_PAUSE = 0.01
"""Seconds between two tries to take a lock."""
_PATIENCE = 5.0
"""Seconds for undoing a transaction, until its connection is thrown away instead."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""The first query after it is what pins the snapshot."""

# The transactions this task, or one it was started from, stands in: waiting for one's own turn would never end.
_inside: ContextVar[tuple[PGSession, ...]] = ContextVar("ekr_postgres_transactions", default=())


class PGStore(Store):
    """One database, reached through one pool of connections. Any number of processes read and write it at once.

    A snapshot is a read-only transaction of isolation level *repeatable read*. A transaction holds an advisory lock of its
    workspace, so there is one at a time in each workspace over all processes.

    Belongs to the event loop it was opened in.

    Args:
        server: Where the database is.
        max_connections: Connections at most.
        lock_timeout: Seconds to wait for the transaction of another process.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the server, which writes them within a
            second.
    """

    def __init__(
        self, server: PGServer, *, max_connections: int = 10, lock_timeout: float = 10.0, durability: Durability = "full"
    ) -> None:
        if durability not in {"full", "relaxed"}:
            raise ConfigError(f"durability={durability!r}", hint="use 'full' or 'relaxed'")
        if not 0 <= lock_timeout < float("inf"):
            raise ConfigError(f"lock_timeout={lock_timeout!r}", hint="give seconds, at least 0")
        if max_connections < 2:
            raise ConfigError(f"max_connections={max_connections!r}", hint="at least 2: one to write, one to read beside it")
        self.server = server
        self._package = asyncpg_package()
        self._most = max_connections
        self._lock_timeout = lock_timeout
        self._durability = durability
        self._users: set[object] = set()
        self._pool: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._spaces: dict[Space, int] = {}
        self.indexes = Indexes(server)

    @property
    def key(self) -> Hashable:
        return ("postgres", self.server)

    async def open(self) -> None:
        await self.retain(self)

    async def close(self) -> None:
        await self.release(self)

    async def retain(self, user: object, index: VectorIndex | None = None) -> None:
        """Opens the store for ``user`` if it is not open.

        Args:
            user: Whoever will release it.
            index: How vectors are to be indexed, for a user that has some.

        Raises:
            StorageError: It cannot be opened.
            ConfigError: The server does not have what the index needs.
        """
        async with self._turn(self._opening):
            opened = not self._users
            if opened:
                await self._open()
            try:
                if index is not None and user not in self._users:
                    async with self._login() as connection:
                        await self._prepare(connection, "vector")
                        await self.indexes.prepare(connection, index)
            except BaseException:
                if opened:
                    await self._close()
                raise
            self._users.add(user)

    async def release(self, user: object) -> None:
        """Closes the store if nobody but ``user`` has it open.

        Args:
            user: Whoever retained it.
        """
        if user not in self._users:
            return
        async with self._turn(self._opening):
            if user in self._users and len(self._users) == 1:
                self._refuse_inside()
                async with self._turn(self._writing):
                    await self._close()
            self._users.discard(user)

    def retained_by(self, user: object) -> bool:
        """Whether ``user`` has it open."""
        return user in self._users

    @asynccontextmanager
    async def snapshot(self, workspace: str | None = None) -> AsyncIterator[PGSession]:
        # One way there and back less for a reader that says at once whose rows it wants; a workspace is a slug.
        first = "1" if workspace is None else f"set_config('ekr.workspace', '={check_slug(workspace)}', true)"
        async with self._connection() as connection:
            session = PGSession(self, connection, writable=False, workspace=workspace)
            try:
                with self.server.translated():
                    await connection.execute(f"{_READ}; SELECT {first}")
                yield session
            finally:
                session.end()
                await self._undo(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PGSession]:
        self._refuse_inside()
        async with self._transaction() as session:
            yield session
        if session.grown:
            async with self._login() as connection:
                await self.indexes.follow(session.grown, connection)

    @asynccontextmanager
    async def claim(self, name: str, *, wait: float | None = None) -> AsyncIterator[bool]:
        # On a connection of its own: the server lets go of the lock when it ends, however that comes about.
        self._require_open()
        ends = None if wait is None else time.monotonic() + wait
        async with turns_for((self.key, name)).turn(wait) as ours:
            if not ours:
                yield False
                return
            async with self._login() as connection:
                with self.server.translated():
                    got = await _locked(connection, lock_number("claim", name), ends)
                yield got

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[PGSession]:
        async with self._turn(self._writing), self._connection() as connection:
            session = PGSession(self, connection, writable=True)
            before = _inside.get()
            _inside.set((*before, session))
            committed = False
            try:
                with self.server.translated():
                    await connection.execute(f"BEGIN; {self._settings()}")
                yield session
                await session.commit()
                committed = True
            finally:
                _inside.set(before)
                session.end()
                if not committed:
                    await self._undo(connection)

    async def flush(self) -> None:
        """Makes all commits durable."""
        self._require_open()
        if self._durability == "relaxed":
            # A commit that waits for the disk waits for all those before it.
            async with self._connection() as connection:
                with self.server.translated():
                    await connection.execute("SET LOCAL synchronous_commit = on; SELECT pg_current_xact_id()")

    def known_space(self, space: Space) -> int | None:
        """The number of a space, if a commit is known to have given it one."""
        return self._spaces.get(space)

    def learn_spaces(self, spaces: Mapping[Space, int]) -> None:
        """Remembers the numbers of spaces that were committed."""
        self._spaces.update(spaces)

    def _settings(self) -> str:
        relaxed = "; SET LOCAL synchronous_commit = off" if self._durability == "relaxed" else ""
        return f"SET LOCAL lock_timeout = {max(round(self._lock_timeout * 1000), 1)}{relaxed}"

    async def _open(self) -> None:
        async with self._login() as connection:
            await self._prepare(connection, "base")
        settings = {"application_name": "easy_knowledge_retriever", "jit": "off"}
        if self.server.role:
            settings["role"] = self.server.role
        pool = self._package.create_pool(
            **self.server.arguments,
            min_size=1,
            max_size=self._most,
            reset=_nothing,
            server_settings=settings,
        )
        with self.server.translated():
            await pool
        self._pool, self._loop, self._process = pool, asyncio.get_running_loop(), os.getpid()
        try:
            await self._check_role()
        except BaseException:
            await self._close()
            raise

    @asynccontextmanager
    async def _login(self) -> AsyncIterator[Any]:
        """A connection of the role that logs in."""
        with self.server.translated():
            connection = await self._package.connect(**self.server.arguments)
        done = False
        try:
            yield connection
            done = True
        finally:
            await self._hang_up(connection, gently=done)

    async def _prepare(self, connection: Any, part: str) -> None:
        """Makes the tables of a part, and lets the role that works have them."""
        with self.server.translated():
            await schema.prepare(connection, self.server, part)
            if self.server.role:
                await schema.grant(connection, self.server.role)

    async def _check_role(self) -> None:
        """Warns if the policies of the tables do not bind the role that works on them."""
        async with self._connection() as connection:
            with self.server.translated():
                encoding = await connection.fetchval("SHOW server_encoding")
                role, above, owner = await connection.fetchrow(
                    "SELECT rolname, rolsuper OR rolbypassrls, pg_has_role(oid, (SELECT nspowner FROM pg_namespace WHERE"
                    " nspname = 'ekr'), 'MEMBER') FROM pg_roles WHERE rolname = current_user"
                )
        if encoding != "UTF8":
            raise StorageError(f"{self.server} has the encoding {encoding}", hint="create it with ENCODING 'UTF8'")
        if above or owner:
            logger.warning(
                "row-level security of %s does not bind the role %r, which %s: workspaces are kept apart by queries alone",
                self.server,
                role,
                "is a superuser or has BYPASSRLS" if above else "owns the tables, and could lift it",
            )

    async def _close(self) -> None:
        pool, self._pool = self._pool, None
        self._spaces.clear()
        if pool is None:
            return
        if asyncio.get_running_loop() is not self._loop or os.getpid() != self._process:
            return  # its connections died with the loop that served them
        try:
            async with asyncio.timeout(_PATIENCE):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        pool = self._require_open()
        with self.server.translated():
            connection = await pool.acquire()
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def _undo(self, connection: Any) -> None:
        """Undoes what was not committed. A connection that cannot tell that it did so is thrown away."""
        done = False
        try:
            if not connection.is_closed():
                async with asyncio.timeout(_PATIENCE):
                    await connection.execute("ROLLBACK")
                done = True
        except (self._package.PostgresError, self._package.InterfaceError, OSError, TimeoutError):
            logger.debug("a connection to %s was thrown away", self.server)
        finally:
            if not done:
                with suppress(self._package.InterfaceError):  # one that broke has left the pool by itself
                    connection.terminate()

    async def _hang_up(self, connection: Any, *, gently: bool) -> None:
        try:
            if gently:
                async with asyncio.timeout(_PATIENCE):
                    await connection.close()
        except (self._package.PostgresError, self._package.InterfaceError, OSError, TimeoutError):
            logger.debug("a connection to %s was thrown away", self.server)
        finally:
            connection.terminate()

    @asynccontextmanager
    async def _turn(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        """Holds a lock; a loop that is not ours is told so before it waits for something of another one."""
        if self._pool is not None:
            self._require_open()
        async with lock:
            yield

    def _require_open(self) -> Any:
        if self._pool is None:
            raise StorageNotOpenError(f"{self.server} is not open", hint="call open() first, or use `async with`")
        if os.getpid() != self._process:
            raise StorageNotOpenError(f"{self.server} was opened before a fork", hint="open it in the child process")
        if asyncio.get_running_loop() is not self._loop:
            raise StorageError(
                f"{self.server} was opened in another event loop",
                hint="open one in each loop, or use the synchronous methods of the retriever",
            )
        return self._pool

    def _refuse_inside(self) -> None:
        if any(session.active and session.store is self for session in _inside.get()):
            raise StorageError(
                f"a transaction on {self.server} is open here already",
                hint="write through the storages that transaction gave; another one would wait for it for ever",
            )


async def _locked(connection: Any, number: int, ends: float | None) -> bool:
    """Whether a lock was got until then; without an end, as long as its holder lives."""
    if ends is None:
        await connection.execute("SELECT pg_advisory_lock($1)", number)
        return True
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", number):
        left = ends - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(min(_PAUSE, left))
    return True


async def _nothing(_: Any) -> None:
    """Connections come back clean: all of their settings end with a transaction."""
