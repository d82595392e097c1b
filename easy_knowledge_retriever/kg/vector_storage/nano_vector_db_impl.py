"""Vectors in nano-vectordb, behind guards against its ways to lose or spoil rows."""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.kg.files import FileStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["NanoVectorDBStorage"]

ID, VECTOR, SCORE = "__id__", "__vector__", "__metrics__"
"""Names the package gives to what it keeps in a row."""
DOUBT = 1e-5
"""How far a score of the package, which computes in single precision, may be from the exact one."""
Index = Any
"""A ``NanoVectorDB``; the package has no types."""
Row = dict[str, Any]


class NanoVectorDBStorage(FileStorage, VectorStorage):
    """An exact index in memory, all of a namespace in one file ``vectors_<namespace>.json``, which nano-vectordb can load.

    The package keeps and searches the rows; it never gets near the disk and is given only what was checked. It copies
    its matrix at every write: above some 10,000 rows take the SQLite storage.

    Args:
        working_dir: Folder of the files; the retriever's if not given, and ``./rag_storage`` without a retriever.
        workspace: Separates bases in one folder. One given here, or else in ``NANO_VECTOR_DB_WORKSPACE``, is kept
            whatever ``bind`` is told.
        cosine_better_than_threshold: Hits below are left out of every search of this storage; none are if not given.
        embedding_func: Ignored with a warning: a storage does not embed.
    """

    kind = "vectors"
    _index: Index
    _places: dict[str, int]

    def __init__(
        self,
        working_dir: str | os.PathLike[str] | None = None,
        workspace: str = "",
        cosine_better_than_threshold: float | None = None,
        embedding_func: object = None,
    ) -> None:
        if cosine_better_than_threshold is not None and not -1 <= cosine_better_than_threshold <= 1:
            raise ConfigError(f"cosine_better_than_threshold is {cosine_better_than_threshold!r}", hint="from -1 to 1")
        self._floor = -1.0 if cosine_better_than_threshold is None else cosine_better_than_threshold
        self._new_index = _package()
        super().__init__(working_dir, workspace or environment().nano_vector_db_workspace or "", embedding_func)

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        async with self._writing():
            if not records:
                return
            dim = self._index.embedding_dim if self._index else records[0].vector.size
            rows = {record.id: _row(record, dim) for record in records}
            self._index = self._index or self._new_index(dim)
            self._index.upsert(list(rows.values()))
            self._number()

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        wanted = None if ids is None else frozenset(ids)
        return await self._searched(lambda: self._search(vector, top_k, filter, wanted))

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        self._require_open()
        return {key: self._matrix[self._places[key]].copy() for key in ids if key in self._places}

    async def delete_many(self, ids: Sequence[str]) -> None:
        async with self._writing():
            gone = [key for key in ids if key in self._places]
            if len(gone) == len(self._places):
                self._clear()
            elif gone:
                self._index.delete(gone)
                self._number()

    async def ids(self) -> list[str]:
        self._require_open()
        return sorted(self._places)

    async def count(self) -> int:
        self._require_open()
        return len(self._places)

    def _search(self, vector: FloatVector, top_k: int, filter: SearchFilter | None, wanted: frozenset[str] | None) -> list[Hit]:
        admitted = frozenset(row[ID] for row in self._rows if _admits(row, filter, wanted))
        # The package fails on a filter that admits nothing, and takes 0 rows for all rows.
        if not admitted or top_k <= 0:
            return []
        query = _unit(vector, self._index.embedding_dim, "the query")
        accept = None if len(admitted) == len(self._rows) else (lambda row: row[ID] in admitted)
        found = self._index.query(query, top_k=top_k, filter_lambda=accept)
        if len(found) < len(admitted):
            # What nearly ties with the last one is compared as well, for the order of ids to decide.
            near = float(found[-1][SCORE]) - DOUBT
            found = self._index.query(query, top_k=len(admitted), better_than_threshold=near, filter_lambda=accept)
        hits = [Hit(row[ID], self._cosine(row[ID], query)) for row in found]
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return [hit for hit in hits[:top_k] if hit.score >= self._floor]

    def _cosine(self, key: str, query: NDArray[np.float64]) -> float:
        # One row at a time: the last bits of a matrix product depend on where in the matrix a row stands.
        return float(np.clip(np.dot(self._matrix[self._places[key]].astype(np.float64), query), -1, 1))

    @property
    def _rows(self) -> list[Row]:
        rows: list[Row] = _inside(self._index)["data"] if self._index else []
        return rows

    @property
    def _matrix(self) -> NDArray[np.float32]:
        matrix: NDArray[np.float32] = _inside(self._index)["matrix"]
        return matrix

    def _number(self) -> None:
        self._places = {row[ID]: place for place, row in enumerate(self._rows)}

    def _clear(self) -> None:
        self._index = None
        self._places = {}

    def _text(self) -> str:
        # An empty file says one dimension, because the package cannot load a matrix of none.
        dim, matrix = (self._index.embedding_dim, self._matrix.tobytes()) if self._index else (1, b"")
        members = {"embedding_dim": dim, "data": self._rows, "matrix": base64.b64encode(matrix).decode("ascii")}
        return json.dumps(members, separators=(",", ":"))

    def _restore(self, members: Any) -> None:
        rows = [{name: row[name] for name in (ID, "document_id", "collection")} for row in members["data"]]
        matrix = np.frombuffer(base64.b64decode(members["matrix"]), np.float32).reshape(len(rows), members["embedding_dim"])
        if rows:
            self._index = self._new_index(members["embedding_dim"])
            _inside(self._index).update(data=rows, matrix=matrix.copy())
            self._number()


def _admits(row: Row, filter: SearchFilter | None, wanted: frozenset[str] | None) -> bool:
    return (wanted is None or row[ID] in wanted) and (filter is None or filter.admits(row["document_id"], row["collection"]))


def _row(record: VectorRecord, dim: int) -> Row:
    vector = _unit(record.vector, dim, repr(record.id)).astype(np.float32)
    return {ID: record.id, VECTOR: vector, "document_id": record.document_id, "collection": record.collection}


def _unit(vector: FloatVector, dim: int, whose: str) -> NDArray[np.float64]:
    values = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(values))
    if values.shape != (dim,):
        raise StorageError(f"the vector of {whose} has shape {values.shape}, not ({dim},)", hint="nothing was written")
    if not np.isfinite(length) or length == 0:
        raise StorageError(f"the vector of {whose} has length {length}", hint="a model gave zeros or no numbers")
    return values / length


def _inside(index: Index) -> dict[str, Any]:
    """What the package keeps: rows and matrix, which it shows to nobody."""
    kept: dict[str, Any] = index._NanoVectorDB__storage
    return kept


@functools.cache
def _package() -> Callable[[int], Index]:
    """The package's way to make an index, imported without the changes it makes to the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    from nano_vectordb import NanoVectorDB  # noqa: PLC0415 — so that it is imported between these lines only

    root.handlers[:] = handlers
    root.setLevel(level)
    # Without a file name it would load whatever lies in the current folder under its default one.
    return lambda dim: NanoVectorDB(dim, storage_file="")
