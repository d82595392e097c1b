"""The tables, how they came to be what they are, and who may see which rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from easy_knowledge_retriever.errors import StorageError, StoreVersionError
from easy_knowledge_retriever.kg.postgres.server import PGServer

__all__ = ["MIGRATIONS", "grant", "lock_number", "prepare"]

_TEXT = 'text COLLATE "C" NOT NULL'
"""In the order of code points, whatever the database sorts by."""
_OWN = f"space integer NOT NULL, workspace {_TEXT}"

# The setting holds "=" and the workspace: a connection that had the setting once gives an empty text afterwards, which is
# no workspace, while "=" is the one without a name.
_POLICY = """
ALTER TABLE ekr.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE ekr.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON ekr.{table}
    USING (workspace = substr(nullif(current_setting('ekr.workspace', true), ''), 2));
"""


def _guarded(*tables: str) -> str:
    return "".join(_POLICY.format(table=table) for table in tables)


# `terms` of `lexical` are read when a row is deleted only, so they stand apart from the rest of it.
_BASE = f"""
CREATE TABLE ekr.space (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace {_TEXT}, role {_TEXT}, namespace {_TEXT},
    UNIQUE (workspace, role, namespace)
);
CREATE TABLE ekr.kv ({_OWN}, key {_TEXT}, value text NOT NULL, PRIMARY KEY (space, key));
CREATE TABLE ekr.status (
    {_OWN}, id {_TEXT}, name {_TEXT}, status {_TEXT}, collection {_TEXT}, value text NOT NULL, PRIMARY KEY (space, id)
);
CREATE INDEX status_name ON ekr.status (space, name, id);
CREATE INDEX status_status ON ekr.status (space, status, name, id);
CREATE TABLE ekr.lexical (
    {_OWN}, row bigint NOT NULL, id {_TEXT}, document_id {_TEXT}, collection {_TEXT},
    lengths integer[] NOT NULL, terms bigint[] NOT NULL, PRIMARY KEY (space, id)
) WITH (toast_tuple_target = 256);
CREATE UNIQUE INDEX lexical_row ON ekr.lexical (space, row);
CREATE TABLE ekr.posting (
    {_OWN}, term bigint NOT NULL, row bigint NOT NULL, field smallint NOT NULL, count integer NOT NULL,
    PRIMARY KEY (space, term, row, field) INCLUDE (count)
);
CREATE TABLE ekr.lexical_field (
    {_OWN}, position smallint NOT NULL, name {_TEXT}, total bigint NOT NULL, PRIMARY KEY (space, position), UNIQUE (space, name)
);
CREATE TABLE ekr.lexical_size ({_OWN}, rows bigint NOT NULL, last bigint NOT NULL, PRIMARY KEY (space));
CREATE TABLE ekr.entity ({_OWN}, key {_TEXT}, name {_TEXT}, value text NOT NULL, PRIMARY KEY (space, key));
CREATE TABLE ekr.relation (
    {_OWN}, first {_TEXT}, second {_TEXT}, weight double precision NOT NULL, chunks text[] COLLATE "C" NOT NULL,
    value text NOT NULL, PRIMARY KEY (space, first, second)
);
CREATE INDEX relation_second ON ekr.relation (space, second);
CREATE TABLE ekr.mention (
    {_OWN}, entity {_TEXT}, chunk {_TEXT}, document_id {_TEXT}, collection {_TEXT}, weight double precision NOT NULL,
    source {_TEXT}, PRIMARY KEY (space, entity, chunk)
);
CREATE INDEX mention_chunk ON ekr.mention (space, chunk);
CREATE INDEX mention_document ON ekr.mention (space, document_id);
""" + _guarded("space", "kv", "status", "lexical", "posting", "lexical_field", "lexical_size", "entity", "relation", "mention")
_VECTOR = f"""
CREATE TABLE ekr.vector (
    {_OWN}, id {_TEXT}, document_id {_TEXT}, collection {_TEXT}, value vector NOT NULL, PRIMARY KEY (space, id)
);
CREATE INDEX vector_document ON ekr.vector (space, document_id);
CREATE INDEX vector_collection ON ekr.vector (space, collection);
""" + _guarded("vector")

MIGRATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({"base": (_BASE,), "vector": (_VECTOR,)})
"""Part of the schema → what makes version 1 of nothing, version 2 of version 1 and so on. What was released stays."""

_LOCK = "the tables"


def lock_number(kind: str, name: str) -> int:
    """The number under which PostgreSQL knows a lock of ours.

    Args:
        kind: What it is for.
        name: Which one.
    """
    digest = hashlib.blake2b(f"ekr {kind} {name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


async def prepare(connection: Any, server: PGServer, part: str) -> None:
    """Makes the tables of a part, or brings them to this version; processes that do so at once wait for each other.

    Args:
        connection: One of the role that owns the tables, outside a transaction.
        server: For the words of errors.
        part: A key of :data:`MIGRATIONS`.

    Raises:
        StoreVersionError: A newer version of this library made them; nothing was changed.
        StorageError: pgvector is needed and not installed on the server.
    """
    if await _version(connection, server, part) == len(MIGRATIONS[part]):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_number("schema", _LOCK))
        version = await _version(connection, server, part)
        if part == "vector":
            await _extend(connection, server)
        if version is None:
            await connection.execute(
                "CREATE SCHEMA IF NOT EXISTS ekr;"
                "CREATE TABLE IF NOT EXISTS ekr.part (name text PRIMARY KEY, version integer NOT NULL);"
            )
        for script in MIGRATIONS[part][version or 0 :]:
            await connection.execute(script)
        await connection.execute(
            "INSERT INTO ekr.part (name, version) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET version = $2",
            part,
            len(MIGRATIONS[part]),
        )


async def grant(connection: Any, role: str) -> None:
    """Lets a role work on the rows, unless it may already.

    Args:
        connection: One of the role that owns the tables.
        role: Its name.
    """
    missing: Sequence[Any] = await connection.fetch(
        "SELECT 1 FROM pg_class WHERE relnamespace = 'ekr'::regnamespace AND relkind = 'r' AND NOT"
        " (has_schema_privilege($1, 'ekr', 'USAGE') AND has_table_privilege($1, oid, 'SELECT')"
        "  AND (relname = 'part' OR has_table_privilege($1, oid, 'INSERT, UPDATE, DELETE'))) LIMIT 1",
        role,
    )
    if missing:
        statement: str = await connection.fetchval(
            "SELECT format('GRANT USAGE ON SCHEMA ekr TO %1$I; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"
            " ekr TO %1$I; REVOKE INSERT, UPDATE, DELETE ON ekr.part FROM %1$I', $1::text)",
            role,
        )
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_number("schema", _LOCK))
            await connection.execute(statement)


async def _version(connection: Any, server: PGServer, part: str) -> int | None:
    """The version of a part; 0 if there is none of it, None if there is nothing of ours at all."""
    # Not to_regclass: what it did not find, it does not look for again after waiting for a lock.
    if not await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'ekr' AND tablename = 'part'"):
        return None
    version: int = await connection.fetchval("SELECT coalesce((SELECT version FROM ekr.part WHERE name = $1), 0)", part)
    known = len(MIGRATIONS[part])
    if version > known:
        raise StoreVersionError(
            f"the tables of {server} have version {version} of {part!r}, this library knows up to {known}",
            hint="upgrade easy-knowledge-retriever; nothing was changed",
        )
    return version


async def _extend(connection: Any, server: PGServer) -> None:
    if not await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
        raise StorageError(
            f"the server of {server} does not have the extension 'vector'",
            hint="install pgvector there, or keep the vectors in another storage",
        )
    await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
