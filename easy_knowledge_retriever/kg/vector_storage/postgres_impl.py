"""Vectors in PostgreSQL with pgvector: exact while they are few, found by an index and compared exactly when they are many."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.postgres import PGOptions, PGSession, PGStorage
from easy_knowledge_retriever.kg.postgres.filters import Conditions
from easy_knowledge_retriever.kg.postgres.indexes import Growing, IndexType, VectorIndex
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["PGVectorStorage"]

_UNIT = 1e-6
"""How far from 1 a length may be that is taken for 1: so a row that was read and is written again keeps its bits."""
# The server compares in single precision. What it says decides which rows may be among the best; they are then compared in
# double precision, as in every other storage.
_DOUBT = 1e-5
_SPARE = 20
"""Rows asked of an index beyond those wanted, at least."""
_STORED = np.dtype(">f4")
"""How pgvector sends a component, after two numbers of 16 bits."""


class PGVectorStorage(PGStorage, VectorStorage):
    """Vectors in PostgreSQL with pgvector, in single precision.

    A search compares all rows that pass its filter, as long as they are fewer than ``index_from``. Of more, those an index
    finds are compared: it goes on until enough of them passed the filter. The index is built when a transaction has
    committed that many rows.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        vector_index_type: ``HNSW``, ``IVFFlat``, or ``VCHORDRQ`` where the server has the extension *vchord*.
        hnsw_m: Neighbours of a node of HNSW.
        hnsw_ef: Candidates while HNSW is built.
        ivfflat_lists: Lists of IVFFlat and VCHORDRQ; None for the root of the number of rows.
        index_from: From how many rows on there is an index.
        options: How the database is reached, see ``PGOptions``.
    """

    role: ClassVar[str] = "vector"

    def __init__(
        self,
        workspace: str = "",
        *,
        vector_index_type: IndexType = "HNSW",
        hnsw_m: int = 16,
        hnsw_ef: int = 64,
        ivfflat_lists: int | None = None,
        index_from: int = 20_000,
        **options: Unpack[PGOptions],
    ) -> None:
        super().__init__(workspace, **options)
        self._index = VectorIndex(vector_index_type, hnsw_m, hnsw_ef, ivfflat_lists, index_from)

    async def open(self) -> None:
        await self._store.retain(self, self._index)

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        async def write(session: PGSession, space: int) -> None:
            given = matrix.shape[1]
            stored = await _dimension(session, space)
            if stored not in {None, given}:
                raise StorageError(
                    f"the vectors stored have dimension {stored}, these have {given}",
                    hint="was another embedding model configured? nothing was written",
                )
            rows = zip(latest, matrix.tolist(), strict=True)
            await session.write_many(
                "INSERT INTO ekr.vector (space, workspace, id, document_id, collection, value)"
                " VALUES ($1, $2, $3, $4, $5, $6::real[]::vector) ON CONFLICT (space, id) DO UPDATE SET"
                " document_id = excluded.document_id, collection = excluded.collection, value = excluded.value",
                [(space, self._space.workspace, r.id, r.document_id, r.collection, values) for r, values in rows],
            )
            grown = Growing(self._space.workspace, space, given, self._index)
            await session.store.indexes.grew(session, grown, len(latest))

        latest = list({record.id: record for record in records}.values())
        if latest:
            matrix = _matrix(latest)
            await self._change(write)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        query = _unit(vector, "the query")

        async def work(session: PGSession, space: int) -> list[Hit]:
            stored = await _dimension(session, space)
            if stored is None:
                return []
            if stored != len(query):
                raise StorageError(
                    f"the vectors stored have dimension {stored}, the query has {len(query)}",
                    hint="was another embedding model configured?",
                )
            search = _Search(session, space, query, top_k, filter)
            if ids is not None:
                return await search.exact(sorted(ids))
            return await search.approximate(self._index) or await search.exact()

        return await self._read(work) if top_k > 0 else []

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        sql = "SELECT id, vector_send(value) FROM ekr.vector WHERE space = $1 AND id = ANY($2::text[])"
        rows = await self._read(lambda session, space: session.rows(sql, space, list(ids))) if ids else []
        return {key: _components(value) for key, value in rows}

    async def delete_many(self, ids: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            await session.write("DELETE FROM ekr.vector WHERE space = $1 AND id = ANY($2::text[])", space, list(ids))

        if ids:
            await self._change(write)

    async def ids(self) -> list[str]:
        sql = "SELECT id FROM ekr.vector WHERE space = $1 ORDER BY id"
        return [key for (key,) in await self._read(lambda session, space: session.rows(sql, space))]

    async def count(self) -> int:
        sql = "SELECT count(*) FROM ekr.vector WHERE space = $1"
        return int(await self._read(lambda session, space: session.one(sql, space)))

    async def _drop(self, session: PGSession, space: int) -> None:
        await session.write("DELETE FROM ekr.vector WHERE space = $1", space)


class _Search:
    """One search of one space that has rows of the query's dimension."""

    def __init__(
        self, session: PGSession, space: int, query: NDArray[np.float64], top_k: int, filter: SearchFilter | None
    ) -> None:
        self._session = session
        self._space = space
        self._query = query
        self._top_k = top_k
        self._filter = filter

    async def exact(self, ids: list[str] | None = None) -> list[Hit]:
        """The best of all rows that may be seen, or of some of them."""
        seen = Conditions.of(self._filter, 4)
        only = "" if ids is None else f" AND v.id = ANY(${seen.after}::text[])"
        sql = f"""
            WITH near AS MATERIALIZED (
                SELECT v.id, v.value <=> $2::real[]::vector AS distance FROM ekr.vector AS v
                WHERE v.space = $1{seen.on("v")}{only}
            ), edge AS (SELECT distance FROM near ORDER BY distance OFFSET $3 LIMIT 1)
            SELECT v.id, vector_send(v.value) FROM near JOIN ekr.vector AS v ON v.space = $1 AND v.id = near.id
            WHERE near.distance <= coalesce((SELECT distance FROM edge) + {_DOUBT}, near.distance)
        """
        given = (self._space, self._query.tolist(), self._top_k - 1, *seen.values)
        return self._best(await self._session.rows(sql, *given, *([] if ids is None else [ids])))[: self._top_k]

    async def approximate(self, index: VectorIndex) -> list[Hit] | None:
        """The best of the rows an index finds; None if they are found better, or no slower, by comparing all of them."""
        indexes, dimension = self._session.store.indexes, len(self._query)
        if not await indexes.ready(self._session, index.name(self._space, dimension)) or not await self._many(index.rows):
            return None
        filtered = self._filter is not None
        if filtered and not index.iterates(indexes.version):
            return None
        seen = Conditions.of(self._filter, 3)
        column = index.column(dimension, indexes.version)
        wanted = self._top_k + max(self._top_k, _SPARE)
        # Only a query that repeats the condition of the index word for word is answered from it.
        sql = f"""
            SELECT v.id, vector_send(v.value) FROM ekr.vector AS v
            WHERE v.space = {self._space} AND vector_dims(v.value) = {dimension}{seen.on("v")}
            ORDER BY v.{column} <=> $1::real[]::{column.partition("::")[2]} LIMIT $2
        """
        async with self._session.having(index.settings(wanted)):
            rows = await self._session.rows(sql, self._query.tolist(), wanted, *seen.values)
        hits = self._best(rows)
        if len(hits) < self._top_k or (len(rows) == wanted and hits[self._top_k - 1].score - hits[-1].score <= _DOUBT):
            return None  # too few passed the filter, or the last one has more ties than were asked for
        return hits[: self._top_k]

    async def _many(self, rows: int) -> bool:
        """Whether at least so many rows may be seen."""
        seen = Conditions.of(self._filter, 3)
        sql = f"SELECT count(*) FROM (SELECT 1 FROM ekr.vector AS v WHERE v.space = $1{seen.on('v')} LIMIT $2) AS few"
        return bool(await self._session.one(sql, self._space, rows, *seen.values) >= rows)

    def _best(self, rows: Sequence[Any]) -> list[Hit]:
        if not rows:
            return []
        matrix = np.array([_components(value) for _, value in rows], np.float64)
        scores = np.clip(np.add.reduce(matrix * self._query, axis=1), -1.0, 1.0).tolist()
        hits = [Hit(key, score) for (key, _), score in zip(rows, scores, strict=True)]
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return hits


async def _dimension(session: PGSession, space: int) -> int | None:
    """Of the vectors stored in a space; None if there are none."""
    found: int | None = await session.one("SELECT vector_dims(value) FROM ekr.vector WHERE space = $1 LIMIT 1", space)
    return found


def _components(value: bytes) -> NDArray[np.float32]:
    """A vector as pgvector sends it."""
    components: NDArray[np.float32] = np.frombuffer(value, _STORED, offset=4).astype(np.float32)
    return components


def _unit(vector: FloatVector, whose: str) -> NDArray[np.float64]:
    values = np.asarray(vector, np.float64)
    length = float(np.sqrt(np.dot(values, values))) if values.ndim == 1 else 0.0
    if not (np.isfinite(length) and length > 0):
        raise _unusable(whose)
    return values / length


def _unusable(whose: str) -> StorageError:
    return StorageError(f"the vector of {whose} is not one row of finite numbers, or is zero", hint="nothing was written")


def _matrix(records: Sequence[VectorRecord]) -> NDArray[np.float32]:
    """The vectors of records, of length 1, all or none."""
    shapes = {np.shape(record.vector) for record in records}
    if len(shapes) > 1 or not all(len(shape) == 1 for shape in shapes):
        raise StorageError(f"the vectors have shapes {sorted(shapes)}, not one dimension", hint="nothing was written")
    matrix = np.array([record.vector for record in records], np.float64)
    lengths = np.sqrt(np.add.reduce(np.square(matrix), axis=1))
    for place in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0))).tolist()[:1]:
        raise _unusable(repr(records[place].id))
    lengths[np.abs(lengths - 1) <= _UNIT] = 1
    units: NDArray[np.float32] = (matrix / lengths[:, None]).astype(np.float32)
    return units
