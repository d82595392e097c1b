"""One consistent view of the database: a snapshot, or the transaction that is being written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from easy_knowledge_retriever.errors import StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.postgres.schema import lock_number

if TYPE_CHECKING:
    from easy_knowledge_retriever.kg.postgres.indexes import Growing
    from easy_knowledge_retriever.kg.postgres.store import PGStore

__all__ = ["PGSession", "Space"]

T = TypeVar("T")
Row = Any
"""A row as asyncpg gives it."""

_LOOK = "SELECT set_config('ekr.workspace', $1, true)"
_TAKE = "SELECT set_config('ekr.workspace', $1, true), pg_advisory_xact_lock($2), set_config('lock_timeout', '0', true)"
_SHOW = "SELECT name, current_setting(name, true) FROM unnest($1::text[]) AS asked (name)"


class Space(NamedTuple):
    """What a storage is bound to: the rows of one role in one namespace of one workspace."""

    role: str
    workspace: str = ""
    namespace: str = ""


class PGSession:
    """A snapshot or a transaction on one connection. Made by the store.

    Args:
        store: The store it belongs to.
        connection: The connection it has for itself.
        writable: Whether it is a transaction.
        workspace: The one whose rows are visible from the beginning.
    """

    def __init__(self, store: PGStore, connection: Any, *, writable: bool, workspace: str | None = None) -> None:
        self._store = store
        self._connection = connection
        self._writable = writable
        self._turn = asyncio.Lock()
        self._active = True
        self._spoilt = False
        self._workspace = workspace
        self._spaces: dict[Space, int] = {}
        self.grown: set[Growing] = set()
        """Indexes that may be due when it is committed."""

    @property
    def writable(self) -> bool:
        """Whether this is a transaction."""
        return self._writable

    @property
    def store(self) -> PGStore:
        """The store it belongs to."""
        return self._store

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self._active

    async def run(self, space: Space, work: Callable[[PGSession, int], Awaitable[T]]) -> T:
        """The result of ``work``, which is given the session and the number of the space (-1 if nothing was written to it)."""
        async with self._turn:
            await self._enter(space.workspace)
            return await work(self, await self._number(space))

    async def change(self, space: Space, work: Callable[[PGSession, int], Awaitable[T]]) -> T:
        """The result of ``work``, which writes, and is given the session and the number of the space."""
        if not self._writable:
            raise StorageError("a snapshot cannot be written to", hint="open a transaction")
        async with self._turn:
            await self._enter(space.workspace)
            number = await self._number(space)
            if number < 0:
                number = await self._claim(space)
            return await work(self, number)

    async def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a query."""
        with self._guarded(values):
            found: list[Row] = await self._connection.fetch(sql, *values)
            return found

    async def one(self, sql: str, *values: object) -> Any:
        """The first column of the first row of a query; None if there is no row."""
        with self._guarded(values):
            return await self._connection.fetchval(sql, *values)

    async def write(self, sql: str, *values: object) -> None:
        """Executes a statement."""
        with self._guarded(values):
            await self._connection.execute(sql, *values)

    async def write_many(self, sql: str, rows: Sequence[Row]) -> None:
        """Executes a statement once a row."""
        for row in rows:
            _require_text(row)
        with self._guarded(()):
            await self._connection.executemany(sql, rows)

    @asynccontextmanager
    async def having(self, settings: Mapping[str, str]) -> AsyncIterator[None]:
        """Settings of PostgreSQL for the queries of the block.

        Args:
            settings: Name → value.
        """
        if not settings:
            yield
            return
        names = list(settings)
        before = {name: str(value or "") for name, value in await self.rows(_SHOW, names)}
        await self._set(settings)
        yield
        await self._set({name: before[name] for name in names if before[name]})

    async def commit(self) -> None:
        """Commits; for the store."""
        if self._spoilt:
            raise StorageError(
                "an earlier statement of this transaction failed, so all of it was undone", hint="begin another transaction"
            )
        async with self._turn:
            with self._guarded(()):
                await self._connection.execute("COMMIT")
        self._store.learn_spaces(self._spaces)

    def end(self) -> None:
        """Takes the connection away; for the store."""
        self._active = False

    async def _set(self, settings: Mapping[str, str]) -> None:
        sql = "SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS given (name, value)"
        await self.rows(sql, list(settings), list(settings.values()))

    async def _enter(self, workspace: str) -> None:
        """Makes the rows of a workspace visible, and waits until nobody else writes to it if this is a transaction.

        Only the wait for another transaction has a limit: the others end when an index is built or a row is written.
        """
        if workspace == self._workspace:
            return
        if self._writable:
            # Statements after this one see what those before us committed: the isolation is that of each statement.
            await self.rows(_TAKE, f"={workspace}", lock_number("transaction", workspace))
        else:
            await self.rows(_LOOK, f"={workspace}")
        self._workspace = workspace

    async def _number(self, space: Space) -> int:
        known = self._spaces.get(space)
        if known is None:
            known = self._store.known_space(space)
        if known is None:
            found = await self.one("SELECT id FROM ekr.space WHERE role = $1 AND workspace = $2 AND namespace = $3", *space)
            if found is None:
                return -1
            known = self._spaces[space] = int(found)
        return known

    async def _claim(self, space: Space) -> int:
        number = int(
            await self.one("INSERT INTO ekr.space (role, workspace, namespace) VALUES ($1, $2, $3) RETURNING id", *space)
        )
        self._spaces[space] = number
        return number

    @contextmanager
    def _guarded(self, values: Sequence[object]) -> Iterator[None]:
        if not self._active:
            raise StorageNotOpenError(
                "this snapshot or transaction has ended", hint="use the storages it gave inside its block only"
            )
        _require_text(values)
        try:
            with self._store.server.translated():
                yield
        except BaseException:
            # The server undoes the rest of the transaction, and would take a commit for a rollback without a word.
            self._spoilt = True
            raise


def _require_text(values: Sequence[object]) -> None:
    """Refuses what the server would refuse, before it does so and undoes the transaction."""
    for value in values:
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        for text in texts:
            if isinstance(text, str) and not _storable(text):
                raise StorageError(f"{text[:100]!r} holds NUL or is not valid Unicode", hint="clean the text first")


def _storable(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
