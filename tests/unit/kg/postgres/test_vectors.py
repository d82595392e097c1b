"""Vectors in PostgreSQL: filtered searches among many rows, and the kinds of index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.types import SearchFilter, VectorRecord
from tests.support.postgres import on_postgres, postgres

DATABASE = "vectors"
TENANTS, SMALL, BIG, DIMENSION = 200, 10, 2000, 32


async def _storage(folder: Path, **more: Any) -> PGVectorStorage:
    storage = PGVectorStorage(**more, **await on_postgres(folder, DATABASE)).bind("rows", "w")
    await storage.open()
    return storage


def _rows(count: int, dimension: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _exact(rows: NDArray[np.float32], ids: Sequence[str], query: NDArray[np.float32], top_k: int) -> list[str]:
    scores = rows.astype(np.float64) @ query.astype(np.float64)
    return [ids[place] for place in np.argsort(-scores, kind="stable")[:top_k]]


@pytest.mark.parametrize("kind", ["HNSW", "IVFFlat"])
async def test_a_filtered_search_finds_top_k_among_small_tenants_and_one_big_one(tmp_path: Path, kind: Any) -> None:
    tenants = [f"t{number // SMALL:03}" for number in range(TENANTS * SMALL)] + ["big"] * BIG
    matrix, ids = _rows(len(tenants), DIMENSION), [f"{number:05}" for number in range(len(tenants))]
    storage = await _storage(tmp_path, vector_index_type=kind, index_from=1000)
    rows = zip(ids, matrix, tenants, strict=True)
    await storage.put_many([VectorRecord(key, row, tenant, tenant) for key, row, tenant in rows])
    found = there = 0
    for number, query in enumerate(_rows(30, DIMENSION, 1)):
        names = {"big"} if number % 3 == 0 else {f"t{(7 * number) % TENANTS:03}"}
        if number % 3 == 1:
            names |= {"big"}
        mine = [place for place, tenant in enumerate(tenants) if tenant in names]
        expected = _exact(matrix[mine], [ids[place] for place in mine], query, 10)
        for seen in (SearchFilter(collections=frozenset(names)), SearchFilter(document_ids=frozenset(names))):
            hits = await storage.search(query, 10, seen)
            assert len(hits) == len(expected) == 10
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            found += len({hit.id for hit in hits} & set(expected))
            there += len(expected)
    assert found / there >= 0.95
    assert await _indexes() != []
    await storage.drop()
    await storage.close()


@pytest.mark.parametrize("kind", ["HNSW", "IVFFlat"])
async def test_an_index_finds_what_comparing_finds_with_the_same_scores(tmp_path: Path, kind: Any) -> None:
    matrix = _rows(1500, DIMENSION)
    storage = await _storage(tmp_path, vector_index_type=kind, index_from=1000)
    await storage.put_many([VectorRecord(f"{number:05}", row) for number, row in enumerate(matrix)])
    plain = PGVectorStorage(**await on_postgres(tmp_path, DATABASE)).bind("rows", "w")
    await plain.open()
    found = 0
    for query in _rows(20, DIMENSION, 2):
        exact = {hit.id: hit.score for hit in await plain.search(query, 10)}
        hits = await storage.search(query, 10)
        found += len({hit.id for hit in hits} & exact.keys())
        assert all(hit.score == exact[hit.id] for hit in hits if hit.id in exact)
    assert found >= 0.95 * 200
    await storage.close()
    await plain.close()


async def test_a_search_is_answered_from_the_index(tmp_path: Path) -> None:
    storage = await _storage(tmp_path, index_from=1000)
    await storage.put_many([VectorRecord(f"{number:05}", row) for number, row in enumerate(_rows(1200, DIMENSION))])
    assert await _scans() == 0
    await storage.search(_rows(1, DIMENSION, 3)[0], 5)
    await storage.close()  # what was counted is written when a connection ends
    assert await _scans() == 1


async def test_more_dimensions_than_an_index_takes_are_compared(tmp_path: Path) -> None:
    matrix = _rows(12, 4100)
    storage = await _storage(tmp_path, index_from=10)
    await storage.put_many([VectorRecord(f"{number:02}", row) for number, row in enumerate(matrix)])
    assert await _indexes() == []
    assert [hit.id for hit in await storage.search(matrix[3], 1)] == ["03"]
    await storage.close()


async def test_a_space_may_change_its_dimension_under_an_index(tmp_path: Path) -> None:
    storage = await _storage(tmp_path, index_from=10)
    await storage.put_many([VectorRecord(f"{number:02}", row) for number, row in enumerate(_rows(20, 8))])
    await storage.drop()
    matrix = _rows(20, 16)
    await storage.put_many([VectorRecord(f"{number:02}", row) for number, row in enumerate(matrix)])
    assert [hit.id for hit in await storage.search(matrix[7], 1)] == ["07"]
    await storage.close()


async def test_vchordrq_is_refused_where_the_server_does_not_have_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vchord"):
        await _storage(tmp_path, vector_index_type="VCHORDRQ")
    storage = await _storage(tmp_path)
    await storage.close()


@pytest.mark.parametrize(
    "options",
    [{"vector_index_type": "FLAT"}, {"hnsw_m": 1}, {"hnsw_m": 16, "hnsw_ef": 16}, {"ivfflat_lists": 0}, {"index_from": 0}],
)
def test_a_bad_index_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PGVectorStorage(**options)


async def _indexes() -> list[str]:
    """Indexes of vectors of the latest space."""
    connection = await postgres().connect(DATABASE)
    rows = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'i' AND relname LIKE"
        " (SELECT format('vector\\_%s\\_%%', max(id)) FROM ekr.space WHERE role = 'vector')"
    )
    await connection.close()
    return [name for (name,) in rows]


async def _scans() -> int:
    """How often an index of the latest space was used."""
    names = await _indexes()
    connection = await postgres().connect(DATABASE)
    count: int = await connection.fetchval("SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname = ANY($1)", names)
    await connection.close()
    return count
