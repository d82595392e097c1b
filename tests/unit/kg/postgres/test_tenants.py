"""Row-level security: what a query sees that forgets its filter, as a role that neither owns the tables nor may lift it."""

from __future__ import annotations

import logging
from typing import Any

import asyncpg
import numpy as np
import pytest

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.storages import open_description
from easy_knowledge_retriever.types import (
    DocRecord,
    DocStatus,
    Entity,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    VectorRecord,
)
from tests.support.postgres import postgres

NAME = "tenants"
TABLES = (
    "space",
    "kv",
    "status",
    "lexical",
    "posting",
    "lexical_field",
    "lexical_size",
    "entity",
    "relation",
    "mention",
    "vector",
)


async def _database() -> None:
    await postgres().database(NAME)
    for role in ("ekr_owner", "ekr_app"):
        await postgres().execute(
            NAME,
            f"DO $$ BEGIN CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        )
    await postgres().execute(
        NAME, f"GRANT CREATE ON DATABASE {NAME} TO ekr_owner", "CREATE EXTENSION vector", "GRANT ekr_app TO ekr_owner"
    )


def _options(**more: Any) -> Any:
    return {**postgres().options(NAME), "user": "ekr_owner", "role": "ekr_app", **more}


async def _base(workspace: str, **more: Any) -> KnowledgeBase:
    options = _options(**more)
    base = open_description(
        Settings(workspace=workspace),
        PGKVStorage(**options),
        PGDocStatusStorage(**options),
        PGVectorStorage(**options),
        None,
        PGGraphStorage(**options),
    )
    await base.open()
    return base


async def _fill(base: KnowledgeBase, mark: str) -> None:
    async with base.transaction() as inside:
        await inside.stamps.put_many({mark: {}})
        await inside.status.put([DocRecord(mark, mark, DocStatus.PROCESSED)])
        await inside.chunk_vectors.put_many([VectorRecord(mark, np.ones(2, dtype=np.float32))])
        await inside.lexical.put_many([LexicalRecord(mark, {"text": ("word",)})])
        await inside.graph.put_entities([Entity(mark)])
        await inside.graph.put_relations([Relation(RelationKey(mark, mark + "'"), weight=1)])
        await inside.graph.put_mentions([MentionEdge(mark, mark, mark)])


async def test_two_workspaces_cannot_see_each_other_even_if_a_query_forgets_its_filter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await _database()
    with caplog.at_level(logging.WARNING):
        one, other = await _base("one"), await _base("other")
    assert "row-level security" not in caplog.text
    await _fill(one, "a")
    await _fill(other, "b")
    assert [key async for key, _ in one.stamps.scan()] == ["a"]
    await one.close()
    await other.close()
    connection = await postgres().connect(NAME, "ekr_app")
    for setting, seen in ((None, set()), ("=one", {"one"}), ("=other", {"other"}), ("", set()), ("=", set()), ("one", set())):
        async with connection.transaction():
            if setting is not None:
                await connection.execute("SELECT set_config('ekr.workspace', $1, true)", setting)
            for table in TABLES:
                rows = await connection.fetch(f"SELECT DISTINCT workspace FROM ekr.{table}")
                assert {workspace for (workspace,) in rows} == seen, table
    # The setting ended with its transaction, and left an empty text behind.
    assert await connection.fetchval("SELECT count(*) FROM ekr.kv") == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with connection.transaction():
            await connection.execute("SELECT set_config('ekr.workspace', '=one', true)")
            await connection.execute("UPDATE ekr.kv SET workspace = 'other'")
    await connection.close()


async def test_the_role_that_logs_in_may_be_the_one_that_works_once_the_tables_are_there() -> None:
    await _database()
    with pytest.raises(StorageError, match="ekr_app"):
        await _base("one", user="ekr_app", role="")
    await (await _base("one")).close()
    base = await _base("one", user="ekr_app", role="")
    await _fill(base, "a")
    assert await base.lexical.ids() == ["a"]
    await base.close()


async def test_connections_are_shared_by_workspaces_without_leaks() -> None:
    await _database()
    first = PGKVStorage(**_options(max_connections=2))
    storages = [first.bind("rows", f"w{number}") for number in range(8)]
    for number, storage in enumerate(storages):
        await storage.open()
        await storage.put_many({f"{number}": {}})

    async def ask(turn: int) -> bool:
        return [key async for key, _ in storages[turn % 8].scan()] == [f"{turn % 8}"]

    assert all(await map_bounded(ask, range(400), 16))
    for storage in storages:
        await storage.close()
