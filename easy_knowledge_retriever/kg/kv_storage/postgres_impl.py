"""Values and document status in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import ClassVar

from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.codecs import decode_record, encode_record
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage, end_of_prefix
from easy_knowledge_retriever.kg.postgres import PGSession, PGStorage
from easy_knowledge_retriever.kg.postgres.session import Row
from easy_knowledge_retriever.kg.postgres.storage import decoded, encoded
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["PGDocStatusStorage", "PGKVStorage"]

_BATCH = 256


class PGKVStorage(PGStorage, KVStorage):
    """JSON objects in PostgreSQL, compact and with sorted keys: equal values are equal rows.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        options: How the database is reached, see ``PGOptions``.
    """

    role: ClassVar[str] = "kv"

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        async def work(session: PGSession, space: int) -> dict[str, JsonObject]:
            sql = "SELECT key, value FROM ekr.kv WHERE space = $1 AND key = ANY($2::text[])"
            found: dict[str, str] = dict(await session.rows(sql, space, list(keys)))
            return {key: decoded(session, found[key], dict) for key in keys if key in found}

        return await self._read(work) if keys else {}

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write(
                "INSERT INTO ekr.kv (space, workspace, key, value)"
                " SELECT $1, $2, key, value FROM unnest($3::text[], $4::text[]) AS given (key, value)"
                " ON CONFLICT (space, key) DO UPDATE SET value = excluded.value",
                space,
                self._space.workspace,
                list(values),
                texts,
            )

        texts = [encoded(value) for value in values.values()]
        if texts:
            await self._change(write)

    async def delete_many(self, keys: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write("DELETE FROM ekr.kv WHERE space = $1 AND key = ANY($2::text[])", space, list(keys))

        if keys:
            await self._change(write)

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        session = self._session
        if session is None:
            self._require_open()
            async with self._store.snapshot(self._space.workspace) as session:
                async for pair in self.within(session).scan(prefix):
                    yield pair
            return
        end = end_of_prefix(prefix)
        bound, values = ("", ()) if end is None else ("AND key < $3", (end,))
        sql = f"SELECT key, value FROM ekr.kv WHERE space = $1 AND key {{from_}} $2 {bound} ORDER BY key LIMIT {_BATCH}"

        async def batch(from_: str, start: str) -> list[Row]:
            return await self._read(lambda session, space: session.rows(sql.format(from_=from_), space, start, *values))

        rows = await batch(">=", prefix)
        while rows:
            for key, text in rows:
                yield key, decoded(session, text, dict)
            rows = await batch(">", rows[-1][0]) if len(rows) == _BATCH else []

    async def _drop(self, session: PGSession, space: int) -> None:
        await session.write("DELETE FROM ekr.kv WHERE space = $1", space)


class PGDocStatusStorage(PGStorage, DocStatusStorage):
    """The status of documents in PostgreSQL.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        options: How the database is reached, see ``PGOptions``.
    """

    role: ClassVar[str] = "status"

    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        async def work(session: PGSession, space: int) -> dict[str, DocRecord]:
            sql = "SELECT id, value FROM ekr.status WHERE space = $1 AND id = ANY($2::text[])"
            found: dict[str, str] = dict(await session.rows(sql, space, list(ids)))
            return {key: decoded(session, found[key], decode_record) for key in ids if key in found}

        return await self._read(work) if ids else {}

    async def put(self, records: Iterable[DocRecord]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write(
                "INSERT INTO ekr.status (space, workspace, id, name, status, collection, value)"
                " SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])"
                " ON CONFLICT (space, id) DO UPDATE SET name = excluded.name, status = excluded.status,"
                " collection = excluded.collection, value = excluded.value",
                space,
                self._space.workspace,
                [record.id for record in latest],
                [record.name for record in latest],
                [record.status.value for record in latest],
                [record.collection for record in latest],
                [encoded(encode_record(record)) for record in latest],
            )

        latest = list({record.id: record for record in records}.values())
        if latest:
            await self._change(write)

    async def delete(self, ids: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write("DELETE FROM ekr.status WHERE space = $1 AND id = ANY($2::text[])", space, list(ids))

        if ids:
            await self._change(write)

    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        return await self._records("AND status = $2 ORDER BY name, id", status.value)

    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        return await self._records("ORDER BY name, id OFFSET $2 LIMIT $3", offset, limit)

    async def _records(self, rest: str, *values: object) -> list[DocRecord]:
        async def work(session: PGSession, space: int) -> list[DocRecord]:
            rows = await session.rows(f"SELECT value FROM ekr.status WHERE space = $1 {rest}", space, *values)
            return [decoded(session, text, decode_record) for (text,) in rows]

        return await self._read(work)

    async def _drop(self, session: PGSession, space: int) -> None:
        await session.write("DELETE FROM ekr.status WHERE space = $1", space)
