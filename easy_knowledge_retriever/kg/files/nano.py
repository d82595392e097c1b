"""A table of vectors that is an index of nano-vectordb."""

from __future__ import annotations

import base64
import functools
import json
import logging
from collections.abc import Callable, Iterator, KeysView
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.kg.files.table import Changes, Json, Key, Table
from easy_knowledge_retriever.types import FloatVector, SearchFilter, VectorRecord

__all__ = ["NanoTable"]

ID, SCORE = "__id__", "__metrics__"
"""Names the package gives to what it keeps in a row."""
DOUBT = 1e-5
"""How far a score in single precision may be from the exact one."""
MATRIX = b',"matrix":"'
AT_ONCE = 3 * 256
"""So many rows of the matrix are a piece of a file; a multiple of three, so that pieces of base64 can be joined."""
LEAST = 16
Index = Any
"""A ``NanoVectorDB``; the package has no types."""


class NanoTable(Table[VectorRecord]):
    """Rows and matrix stand in an index of the package, which searches them.

    It is written to without the package, whose ``upsert`` looks at every row and copies the matrix: the matrix grows by half
    of itself, the last row takes the place of one that is deleted, and a dictionary says where each row is.
    """

    kind: ClassVar[str] = "vectors"

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, int] = {}
        self._room: FloatVector
        self._data: list[dict[str, str]]
        self._index: Index
        self._begin(1)

    @staticmethod
    def load_package() -> None:
        """Imports it, without the changes it makes to the root logger.

        Raises:
            ImportError: It is not there.
        """
        _package()

    @property
    def dim(self) -> int:
        """Length of the vectors, if there are any."""
        return int(self._room.shape[1])

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> KeysView[str]:
        return self._places.keys()

    def get(self, key: Key) -> VectorRecord | None:
        place = self._places.get(str(key))
        return None if place is None else self._record(place)

    def apply(self, changes: Changes[VectorRecord]) -> None:
        for key, row in changes.items():
            if row is None and key in self._places:
                self._remove(str(key))
        for row in changes.values():
            if row is not None:
                self._put(row)
        self._show()

    def encode(self, row: VectorRecord) -> str:
        return json.dumps([row.document_id, row.collection, base64.b64encode(row.vector.tobytes()).decode("ascii")])

    def decode(self, key: Key, data: Json) -> VectorRecord:
        document_id, collection, values = data
        return VectorRecord(str(key), np.frombuffer(base64.b64decode(values), np.float32), document_id, collection)

    def members(self) -> Iterator[str]:
        # An empty file says one dimension, because the package cannot load a matrix of none.
        yield f'"embedding_dim":{self.dim},"data":['
        yield from (f"{',' if place else ''}{json.dumps(row, separators=(',', ':'))}" for place, row in enumerate(self._data))
        yield f"]{MATRIX.decode('ascii')}"
        for place in range(0, len(self), AT_ONCE):
            yield base64.b64encode(self._room[place : min(place + AT_ONCE, len(self))].tobytes()).decode("ascii")
        yield '"'

    def restore(self, body: bytes) -> Json:
        # The matrix is most of the file: it is decoded where it stands and never becomes a text.
        start, end = body.rindex(MATRIX), body.rindex(b'"')
        members = json.loads(body[:start] + b"}")
        values = np.frombuffer(base64.b64decode(memoryview(body)[start + len(MATRIX) : end]), np.float32)
        rows = [{name: row[name] for name in (ID, "document_id", "collection")} for row in members.pop("data")]
        self._room = values.reshape(len(rows), members["embedding_dim"])
        self._data = rows
        self._places = {row[ID]: place for place, row in enumerate(rows)}
        self._index = _package()(self.dim)
        self._show()
        return members

    def nearest(
        self,
        query: NDArray[np.float64],
        top_k: int,
        filter: SearchFilter | None,
        wanted: frozenset[str] | None,
        without: KeysView[Key],
    ) -> list[VectorRecord]:
        """The nearest rows, and those that nearly tie with the last of them, in any order.

        Args:
            query: Of length 1.
            top_k: How many at least, if there are so many; more than 0.
            filter: Only rows it admits.
            wanted: Only these rows; all if None.
            without: Not these rows.
        """
        if not self._places:
            return []
        if filter is None and wanted is None and not without:
            return self._by_package(query, top_k)
        places = self._admitted(filter, wanted, without)
        if not places.size:
            return []
        # The package asks a function about every row; this asks once a document.
        scores = self._room[places] @ query.astype(np.float32)
        if places.size > top_k:
            cut = np.partition(scores, -top_k)[-top_k]
            places = places[scores >= cut - DOUBT]
        return [self._record(int(place)) for place in places]

    def _by_package(self, query: NDArray[np.float64], top_k: int) -> list[VectorRecord]:
        found = self._index.query(query, top_k=top_k)
        if len(found) < len(self):
            near = float(found[-1][SCORE]) - DOUBT
            found = self._index.query(query, top_k=len(self), better_than_threshold=near)
        return [self._record(self._places[row[ID]]) for row in found]

    def _admitted(self, filter: SearchFilter | None, wanted: frozenset[str] | None, without: KeysView[Key]) -> NDArray[np.int64]:
        keys = self._places if wanted is None else wanted & self._places.keys()
        seen: dict[tuple[str, str], bool] = {}
        found = []
        for key in keys:
            place = self._places[key]
            if key in without:
                continue
            row = self._data[place]
            owner = row["document_id"], row["collection"]
            if owner not in seen:
                seen[owner] = filter is None or filter.admits(*owner)
            if seen[owner]:
                found.append(place)
        return np.array(found, dtype=np.int64)

    def _record(self, place: int) -> VectorRecord:
        row = self._data[place]
        return VectorRecord(row[ID], self._room[place].copy(), row["document_id"], row["collection"])

    def _put(self, row: VectorRecord) -> None:
        if not self._places and row.vector.size != self.dim:
            self._begin(row.vector.size)
        place = self._places.get(row.id, len(self))
        self._grow(max(place + 1, len(self)))
        if place == len(self):
            self._places[row.id] = place
            self._data.append({})
        self._room[place] = row.vector
        self._data[place] = {ID: row.id, "document_id": row.document_id, "collection": row.collection}

    def _remove(self, key: str) -> None:
        place = self._places.pop(key)
        last = self._data.pop()
        if last[ID] != key:
            self._grow(len(self._data))
            self._room[place] = self._room[len(self._data)]
            self._data[place] = last
            self._places[last[ID]] = place

    def _begin(self, dim: int) -> None:
        self._room = np.empty((0, dim), np.float32)
        self._data = []
        self._index = _package()(dim)
        self._show()

    def _grow(self, rows: int) -> None:
        # What was read from a file cannot be written to.
        if rows > len(self._room) or not self._room.flags.writeable:
            room = np.empty((max(rows + rows // 2, LEAST, len(self._room)), self.dim), np.float32)
            room[: len(self._room)] = self._room
            self._room = room

    def _show(self) -> None:
        """Lets the package see the rows."""
        self._index._NanoVectorDB__storage.update(data=self._data, matrix=self._room[: len(self._data)])


@functools.cache
def _package() -> Callable[[int], Index]:
    """The package's way to make an index."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    from nano_vectordb import NanoVectorDB  # noqa: PLC0415 — so that it is imported between these lines only

    root.handlers[:] = handlers
    root.setLevel(level)
    # Without a file name it would load whatever lies in the current folder under its default one.
    return lambda dim: NanoVectorDB(dim, storage_file="")
