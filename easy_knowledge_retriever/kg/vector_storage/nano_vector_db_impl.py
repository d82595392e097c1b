"""Vectors in the layout and with the search of nano-vectordb, behind guards against its ways to lose or spoil rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.kg.files.nano import NanoTable
from easy_knowledge_retriever.kg.files.storage import FileStorage
from easy_knowledge_retriever.kg.files.store import Durability
from easy_knowledge_retriever.kg.files.table import Key, View
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["NanoVectorDBStorage"]

UNIT = 1e-6
"""A vector whose length is so near to 1 is kept as it is, so that what was read and is written again stays."""


class NanoVectorDBStorage(FileStorage[VectorRecord], VectorStorage):
    """An exact index in memory; on disk in the journal and in ``vectors_<namespace>.<number>.json``, for nano-vectordb to load.

    The package searches the rows; it never gets near the disk and is given only what was checked. A search looks at every
    row: above some 10,000 take the SQLite storage.

    Args:
        working_dir: Folder of the files; the retriever's if not given, and ``./rag_storage`` without a retriever.
        workspace: Separates bases in one folder. One given here, or else in ``NANO_VECTOR_DB_WORKSPACE``, is kept
            whatever ``bind`` is told.
        cosine_better_than_threshold: Hits below are left out of every search of this storage; none are if not given.
        embedding_func: Ignored with a warning: a storage does not embed.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
        allow_network_fs: Whether it may be written to on a network file system.
    """

    rows = NanoTable

    def __init__(
        self,
        working_dir: str | os.PathLike[str] | None = None,
        workspace: str = "",
        cosine_better_than_threshold: float | None = None,
        embedding_func: object = None,
        *,
        durability: Durability = "full",
        lock_timeout: float = 10.0,
        allow_network_fs: bool = False,
    ) -> None:
        if cosine_better_than_threshold is not None and not -1 <= cosine_better_than_threshold <= 1:
            raise ConfigError(f"cosine_better_than_threshold is {cosine_better_than_threshold!r}", hint="from -1 to 1")
        self._floor = -1.0 if cosine_better_than_threshold is None else cosine_better_than_threshold
        NanoTable.load_package()
        own = workspace or environment().nano_vector_db_workspace or ""
        super().__init__(
            working_dir,
            own,
            embedding_func,
            durability=durability,
            lock_timeout=lock_timeout,
            allow_network_fs=allow_network_fs,
        )

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        def checked(view: View[VectorRecord]) -> dict[Key, VectorRecord | None]:
            dim = _dim(view) or (records[0].vector.size if records else 0)
            return {record.id: _row(record, dim) for record in records}

        await self._change(checked)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        wanted = None if ids is None else frozenset(ids)
        return await self._search(lambda view: self._nearest(view, vector, top_k, filter, wanted))

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        return await self._search(lambda view: {key: row.vector.copy() for key in ids if (row := view.get(key)) is not None})

    async def delete_many(self, ids: Sequence[str]) -> None:
        await self._change(lambda view: {key: None for key in ids if view.get(key) is not None})

    async def ids(self) -> list[str]:
        return await self._search(lambda view: sorted(map(str, view.keys())))

    async def count(self) -> int:
        return await self._search(len)

    def _nearest(
        self,
        view: View[VectorRecord],
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None,
        wanted: frozenset[str] | None,
    ) -> list[Hit]:
        dim = _dim(view)
        if dim is None or top_k <= 0:
            return []
        query = _unit(vector, dim, "the query")
        table = view.table
        rows = table.nearest(query, top_k, filter, wanted, view.changes.keys()) if isinstance(table, NanoTable) else []
        rows += [row for _, row in view.changed() if _admits(row, filter, wanted)]
        hits = [Hit(row.id, _cosine(row.vector, query)) for row in rows]
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return [hit for hit in hits[:top_k] if hit.score >= self._floor]


def _dim(view: View[VectorRecord]) -> int | None:
    """Of the rows in a view; None if it has none."""
    for _, row in view.changed():
        return row.vector.size
    table = view.table
    return table.dim if len(view) and isinstance(table, NanoTable) else None


def _admits(row: VectorRecord, filter: SearchFilter | None, wanted: frozenset[str] | None) -> bool:
    return (wanted is None or row.id in wanted) and (filter is None or filter.admits(row.document_id, row.collection))


def _row(record: VectorRecord, dim: int) -> VectorRecord:
    return replace(record, vector=_unit(record.vector, dim, repr(record.id)).astype(np.float32))


def _unit(vector: FloatVector, dim: int, whose: str) -> NDArray[np.float64]:
    values = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(values))
    if values.shape != (dim,):
        raise StorageError(f"the vector of {whose} has shape {values.shape}, not ({dim},)", hint="nothing was written")
    if not np.isfinite(length) or length == 0:
        raise StorageError(f"the vector of {whose} has length {length}", hint="a model gave zeros or no numbers")
    return values if abs(length - 1) < UNIT else values / length


def _cosine(vector: FloatVector, query: NDArray[np.float64]) -> float:
    # One row at a time: the last bits of a matrix product depend on where in the matrix a row stands.
    return float(np.clip(np.dot(vector.astype(np.float64), query), -1, 1))
