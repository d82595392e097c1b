"""Vectors in SQLite: exact cosine over a matrix in memory that follows the commits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.sqlite import SqliteSession, SqliteStorage
from easy_knowledge_retriever.kg.sqlite.mirror import Generation, Mirror, Part, Vocabulary, visible
from easy_knowledge_retriever.kg.sqlite.session import Row
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.types import FloatVector, FloatVectors, Hit, SearchFilter, VectorRecord

__all__ = ["SqliteVectorStorage"]

# The first byte of a row says how it is stored; little-endian, so that the file reads the same everywhere.
_BYTES, _HALVES = b"\1", b"\2"
_HALF = np.dtype("<f2")
_MANY = 128
"""Dimensions from which a byte each is enough: the error of a cosine gets smaller with their number."""
# Single precision decides which rows may be among the best; they are then compared in double precision, because the last
# bits of a matrix product depend on where in the matrix a row stands.
_DOUBT = 1e-5


class _Places:
    """Where rows stand in their segment, by id; made when it is first asked for."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._by_id: dict[str, int] = {}

    def of(self, ids: Collection[str]) -> NDArray[np.intp]:
        """The places of those of some ids that are here, ascending."""
        if not self._by_id:
            self._by_id = {row: place for place, row in enumerate(self._ids)}
        known = self._by_id
        return np.sort(np.array([known[row] for row in set(ids) if row in known], np.intp))


@dataclass(frozen=True, slots=True)
class _Segment:
    seqs: NDArray[np.int64]
    ids: list[str]
    places: _Places
    matrix: FloatVectors
    """Shape (rows, dim), rows of length 1."""
    documents: NDArray[np.int32]
    collections: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        seqs: NDArray[np.int64],
        ids: list[str],
        matrix: FloatVectors,
        documents: NDArray[np.int32],
        collections: NDArray[np.int32],
    ) -> _Segment:
        return cls(seqs, ids, _Places(ids), matrix, documents, collections)


class _VectorMirror(Mirror[_Segment]):
    source = "vector"
    columns = "id, document_id, collection, value"
    largest = 8192

    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> _Segment:
        seqs, ids, documents, collections, values = zip(*rows, strict=True)
        return _Segment.of(
            np.array(seqs, np.int64),
            list(ids),
            _matrix(values),
            vocabulary.documents.numbers(documents),
            vocabulary.collections.numbers(collections),
        )

    def merge(self, parts: Sequence[Part[_Segment]], vocabulary: Vocabulary) -> _Segment:
        return _Segment.of(
            np.concatenate([p.segment.seqs[p.live] for p in parts]),
            [row for p in parts for row, live in zip(p.segment.ids, p.live.tolist(), strict=True) if live],
            np.concatenate([p.segment.matrix[p.live] for p in parts]),
            np.concatenate([p.segment.documents[p.live] for p in parts]),
            np.concatenate([p.segment.collections[p.live] for p in parts]),
        )


_MIRROR = _VectorMirror()


class SqliteVectorStorage(SqliteStorage, VectorStorage):
    """Vectors in one SQLite file, searched exactly.

    They are normalised and kept with a byte a dimension, fewer than 128 dimensions in half precision: a cosine is off by
    0.0004 on average and hardly ever by 0.002. The first search loads them as single precision (4 bytes a dimension); later
    ones load what changed.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
    """

    role: ClassVar[str] = "vector"

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            self._store.dimensions[self._space] = _put(session, space, rows)

        latest = list({record.id: record for record in records}.values())
        if latest and np.size(latest[0].vector) != self._store.dimensions.get(self._space):
            # To be compared with the rows that are there before anything else happens.
            await self._change(lambda session: write(session, session.claim(self._space), _rows(latest)))
        else:
            await self._put(latest, _rows, write)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        query = _unit(vector, "the query")

        def work(session: SqliteSession, space: int) -> list[Hit]:
            generation = session.store.mirrors.generation(session, _MIRROR, space)
            _require_dimension(generation, len(query))
            vocabulary = session.store.mirrors.vocabulary(space)
            wanted = [(part.segment, _wanted(part, vocabulary, filter, ids)) for part in generation.parts]
            return _best(_likely(wanted, query, top_k), query, top_k)

        return await self._read(work) if top_k > 0 else []

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        def work(session: SqliteSession, space: int) -> dict[str, FloatVector]:
            sql = "SELECT id, value FROM vector WHERE space = ? AND id IN (SELECT value FROM json_each(?))"
            found: dict[str, bytes] = dict(session.keyed(sql, space, ids))
            return dict(zip(found, _matrix(list(found.values())), strict=True)) if found else {}

        return await self._read(work)

    async def delete_many(self, ids: Sequence[str]) -> None:
        def work(session: SqliteSession, space: int, keys: list[str]) -> None:
            self._store.dimensions.pop(self._space, None)
            session.remove("vector", space, _seqs(session, space, keys))

        await self._put(ids, list, work)

    async def ids(self) -> list[str]:
        sql = "SELECT id FROM vector WHERE space = ? ORDER BY id"
        return await self._read(lambda session, space: [row for (row,) in session.rows(sql, (space,))])

    async def count(self) -> int:
        sql = "SELECT count(*) FROM vector WHERE space = ?"
        return await self._read(lambda session, space: int(session.rows(sql, (space,))[0][0]))

    def _drop(self, session: SqliteSession, space: int) -> None:
        self._store.dimensions.pop(self._space, None)
        session.remove_all("vector", space)


def _put(session: SqliteSession, space: int, rows: list[Row]) -> int:
    """Writes rows, and gives their dimension."""
    stored = session.rows("SELECT value FROM vector WHERE space = ? LIMIT 1", (space,))
    given = _dimension(rows[0][3])
    if stored and _dimension(stored[0][0]) != given:
        raise StorageError(
            f"the vectors stored have dimension {_dimension(stored[0][0])}, these have {given}",
            hint="was another embedding model configured? nothing was written",
        )
    session.remove("vector", space, _seqs(session, space, [row[0] for row in rows]))
    session.write(
        "INSERT INTO vector (space, id, document_id, collection, value) VALUES (?, ?, ?, ?, ?)",
        [(space, *row) for row in rows],
    )
    return given


def _seqs(session: SqliteSession, space: int, ids: list[str]) -> list[int]:
    sql = "SELECT seq FROM vector WHERE space = ? AND id IN (SELECT value FROM json_each(?))"
    return [seq for (seq,) in session.keyed(sql, space, ids)]


def _unit(vector: FloatVector, whose: str) -> NDArray[np.float64]:
    values = np.asarray(vector, np.float64)
    length = float(np.sqrt(np.dot(values, values))) if values.ndim == 1 else 0.0
    if not (np.isfinite(length) and length > 0):
        raise _unusable(whose)
    return values / length


def _unusable(whose: str) -> StorageError:
    return StorageError(f"the vector of {whose} is not one row of finite numbers, or is zero", hint="nothing was written")


def _rows(records: Sequence[VectorRecord]) -> list[Row]:
    """Columns of records, all or none."""
    shapes = {np.shape(record.vector) for record in records}
    if len(shapes) > 1 or not all(len(shape) == 1 for shape in shapes):
        raise StorageError(f"the vectors have shapes {sorted(shapes)}, not one dimension", hint="nothing was written")
    matrix = np.array([record.vector for record in records], np.float64)
    lengths = np.sqrt(np.add.reduce(np.square(matrix), axis=1))
    for place in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0))).tolist()[:1]:
        raise _unusable(repr(records[place].id))
    stored = _stored(matrix / lengths[:, None])
    return [(r.id, r.document_id, r.collection, value) for r, value in zip(records, stored, strict=True)]


def _stored(matrix: NDArray[np.float64]) -> list[bytes]:
    """Rows of length 1 as they are kept."""
    if matrix.shape[1] < _MANY:
        return [_HALVES + row.tobytes() for row in matrix.astype(_HALF)]
    # The largest component becomes 127, so a row that was read and is stored again stays the same.
    scaled = np.rint(matrix * (127 / np.abs(matrix).max(axis=1))[:, None])
    return [_BYTES + row.tobytes() for row in scaled.astype(np.int8)]


def _dimension(value: bytes) -> int:
    """Of a stored vector."""
    return (len(value) - 1) // (1 if value[:1] == _BYTES else _HALF.itemsize)


def _matrix(values: Sequence[bytes]) -> FloatVectors:
    """The rows of stored vectors, of length 1.

    Raises:
        ValueError: They are none, or not of one dimension.
    """
    raw = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    if values[0][:1] not in {_BYTES, _HALVES} or not (raw[:, 0] == raw[0, 0]).all():
        raise ValueError("a vector is stored in an unknown way")
    plain = np.ascontiguousarray(raw[:, 1:])
    matrix = plain.view(np.int8 if values[0][:1] == _BYTES else _HALF).astype(np.float32)
    # Row by row, so that a row comes out the same whatever stands beside it.
    matrix /= np.sqrt(np.add.reduce(np.square(matrix), axis=1))[:, None]
    return matrix


def _require_dimension(generation: Generation[_Segment], dimension: int) -> None:
    for part in generation.parts[:1]:
        stored = part.segment.matrix.shape[1]
        if stored != dimension:
            raise StorageError(
                f"the vectors stored have dimension {stored}, the query has {dimension}",
                hint="was another embedding model configured?",
            )


def _wanted(
    part: Part[_Segment], vocabulary: Vocabulary, filter: SearchFilter | None, ids: Collection[str] | None
) -> NDArray[np.intp] | None:
    """The rows of a part that are searched; None for all of its segment."""
    if ids is None and filter is None and part.alive == part.size:
        return None
    mask = visible(part, vocabulary, filter)
    if ids is None:
        return np.flatnonzero(mask)
    places = part.segment.places.of(ids)
    return places[mask[places]]


def _likely(
    wanted: Sequence[tuple[_Segment, NDArray[np.intp] | None]], query: NDArray[np.float64], top_k: int
) -> list[tuple[_Segment, NDArray[np.intp]]]:
    """For each segment the rows that may be among the best."""
    single = query.astype(np.float32)
    # Not a BLAS product: it would wake a thread a core, and they wait for each other longer than they work.
    scores = [np.einsum("ij,j->i", s.matrix if places is None else s.matrix[places], single) for s, places in wanted]
    everything = np.concatenate(scores) if scores else np.zeros(0, np.float32)
    floor = -np.inf
    if top_k < len(everything):
        floor = float(np.partition(everything, -top_k)[-top_k]) - _DOUBT
    likely = [np.flatnonzero(s >= floor) for s in scores]
    return [(s, found if places is None else places[found]) for (s, places), found in zip(wanted, likely, strict=True)]


def _best(candidates: Sequence[tuple[_Segment, NDArray[np.intp]]], query: NDArray[np.float64], top_k: int) -> list[Hit]:
    hits: list[Hit] = []
    for segment, places in candidates:
        exact = np.add.reduce(segment.matrix[places].astype(np.float64) * query, axis=1)
        scores = np.clip(exact, -1.0, 1.0).tolist()
        hits += [Hit(segment.ids[place], score) for place, score in zip(places.tolist(), scores, strict=True)]
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return hits[:top_k]
