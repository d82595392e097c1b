"""Values and document status in SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import ClassVar

from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.codecs import decode_record, encode_record
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage, end_of_prefix
from easy_knowledge_retriever.kg.sqlite import SqliteSession, SqliteStorage
from easy_knowledge_retriever.kg.sqlite.session import Row
from easy_knowledge_retriever.kg.sqlite.storage import decoded, encoded
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["SqliteDocStatusStorage", "SqliteKVStorage"]

_BATCH = 256


class SqliteKVStorage(SqliteStorage, KVStorage):
    """JSON objects in one SQLite file, compact, deflated and with sorted keys: equal values are equal bytes.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
    """

    role: ClassVar[str] = "kv"

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        def work(session: SqliteSession, space: int) -> dict[str, JsonObject]:
            sql = "SELECT key, value FROM kv WHERE space = ? AND key IN (SELECT value FROM json_each(?))"
            found: dict[str, str | bytes] = dict(session.keyed(sql, space, keys))
            return {key: _object(session, found[key]) for key in keys if key in found}

        return await self._read(work)

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            session.write(
                "INSERT INTO kv (space, key, value) VALUES (?, ?, ?)"
                " ON CONFLICT (space, key) DO UPDATE SET value = excluded.value",
                [(space, *row) for row in rows],
            )

        await self._put(list(values.items()), _rows, write)

    async def delete_many(self, keys: Sequence[str]) -> None:
        def write(session: SqliteSession, space: int, rows: list[str]) -> None:
            session.write("DELETE FROM kv WHERE space = ? AND key = ?", [(space, key) for key in rows])

        await self._put(keys, list, write)

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        session = self._session
        if session is None:
            self._require_open()
            async with self._store.snapshot() as session:
                async for pair in self.within(session).scan(prefix):
                    yield pair
            return
        end = end_of_prefix(prefix)
        bound, values = ("", ()) if end is None else ("AND key < ?", (end,))
        sql = f"SELECT key, value FROM kv WHERE space = ? AND key >= ? {bound} ORDER BY key LIMIT {_BATCH}"

        async def batch_from(start: str) -> list[Row]:
            return await self._read(lambda session, space: session.rows(sql, (space, start, *values)))

        batch = await batch_from(prefix)
        while batch:
            for key, text in batch:
                yield key, _object(session, text)
            # The text that follows the last key in order is that key and a NUL.
            batch = await batch_from(batch[-1][0] + "\0") if len(batch) == _BATCH else []

    def _drop(self, session: SqliteSession, space: int) -> None:
        session.write("DELETE FROM kv WHERE space = ?", [(space,)])


class SqliteDocStatusStorage(SqliteStorage, DocStatusStorage):
    """The status of documents in one SQLite file.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
    """

    role: ClassVar[str] = "status"

    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        sql = "SELECT id, value FROM status WHERE space = ? AND id IN (SELECT value FROM json_each(?))"

        def work(session: SqliteSession, space: int) -> dict[str, DocRecord]:
            found: dict[str, str | bytes] = dict(session.keyed(sql, space, ids))
            return {key: decoded(session, found[key], decode_record) for key in ids if key in found}

        return await self._read(work)

    async def put(self, records: Iterable[DocRecord]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            session.write(
                "INSERT INTO status (space, id, name, status, value) VALUES (?, ?, ?, ?, ?) ON CONFLICT (space, id)"
                " DO UPDATE SET name = excluded.name, status = excluded.status, value = excluded.value",
                [(space, *row) for row in rows],
            )

        def rows(records: Sequence[DocRecord]) -> list[Row]:
            return [(r.id, r.name, r.status.value, encoded(encode_record(r))) for r in records]

        await self._put(list(records), rows, write)

    async def delete(self, ids: Sequence[str]) -> None:
        def write(session: SqliteSession, space: int, rows: list[str]) -> None:
            session.write("DELETE FROM status WHERE space = ? AND id = ?", [(space, key) for key in rows])

        await self._put(ids, list, write)

    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        return await self._records("AND status = ? ORDER BY name, id", status.value)

    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        return await self._records("ORDER BY name, id LIMIT ? OFFSET ?", -1 if limit is None else limit, offset)

    async def _records(self, rest: str, *values: object) -> list[DocRecord]:
        def work(session: SqliteSession, space: int) -> list[DocRecord]:
            rows = session.rows(f"SELECT value FROM status WHERE space = ? {rest}", (space, *values))
            return [decoded(session, text, decode_record) for (text,) in rows]

        return await self._read(work)

    def _drop(self, session: SqliteSession, space: int) -> None:
        session.write("DELETE FROM status WHERE space = ?", [(space,)])


def _rows(pairs: Sequence[tuple[str, JsonObject]]) -> list[Row]:
    return [(key, encoded(value)) for key, value in pairs]


def _object(session: SqliteSession, stored: str | bytes) -> JsonObject:
    return decoded(session, stored, dict)
