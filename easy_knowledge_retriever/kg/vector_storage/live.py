"""Vectors that can be made anew beside those that are served: a row of the base says which ones are.

Each set of vectors is a namespace of the backend of its own. The first has the name of what it serves, ``chunk_vectors``; one
that was built later has its number after it, ``chunk_vectors_2``. A change of the row is the change of all sets at once, seen
by every reader with its next look.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Self

from easy_knowledge_retriever.kg.base import Session, Store
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage
from easy_knowledge_retriever.kg.outside import NotedVectors, Steps
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["LIVE", "LivePointer", "LiveVectors"]

LIVE: Final = "live"
"""Key of the row that holds the number of the set that is served."""


class LivePointer:
    """Which set is served, in one view of the base.

    Args:
        index: Holds the row.
        fixed: Whether it is a snapshot or transaction, so that the row need be read only once.
    """

    def __init__(self, index: KVStorage, *, fixed: bool = False) -> None:
        self._index = index
        self._fixed = fixed
        self._number: int | None = None

    async def number(self) -> int:
        """The number of the set; 1 if none was ever built beside the first."""
        if self._number is None or not self._fixed:
            row: Mapping[str, Any] = (await self._index.get_many([LIVE])).get(LIVE, {})
            self._number = int(row.get("value", 1))
        return self._number


class _Sets:
    """The sets of one role that are open."""

    def __init__(self, backend: VectorStorage, namespace: str, workspace: str) -> None:
        self._backend = backend
        self._namespace = namespace
        self._workspace = workspace
        self._turn = asyncio.Lock()
        self.opened: dict[int, VectorStorage] = {}
        self.first = self.bound(1)

    def bound(self, number: int) -> VectorStorage:
        return self._backend.bind(self._namespace if number == 1 else f"{self._namespace}_{number}", self._workspace)

    async def get(self, number: int) -> VectorStorage:
        if number not in self.opened:
            async with self._turn:
                if number not in self.opened:
                    storage = self.first if number == 1 else self.bound(number)
                    await storage.open()
                    self.opened[number] = storage
        return self.opened[number]


class LiveVectors(VectorStorage):
    """The set of vectors that is served.

    Args:
        backend: Unbound; each set is a namespace of it.
        namespace: What the vectors are of.
        workspace: The workspace.
        index: Says which set is served; opened by itself.
    """

    def __init__(self, backend: VectorStorage, namespace: str, workspace: str, index: KVStorage) -> None:
        self._sets = _Sets(backend, namespace, workspace)
        self._backend = backend
        self._pointer = LivePointer(index)
        self._index = index
        self._session: Session | None = None
        self._noting: tuple[str, Steps] | None = None

    def bind(self, namespace: str, workspace: str = "") -> Self:
        return type(self)(self._backend, namespace, workspace, self._index)

    @property
    def store(self) -> Store | None:
        return self._sets.first.store

    def within(self, session: Session) -> Self:
        seen = copy.copy(self)
        seen._session = session
        return seen

    def led_by(self, pointer: LivePointer) -> Self:
        """The same as one view of the base has it."""
        seen = copy.copy(self)
        seen._pointer = pointer
        return seen

    def noted(self, place: str, steps: Steps) -> Self:
        """The same inside a transaction of another store, which takes note of the writes."""
        seen = copy.copy(self)
        seen._noting = place, steps
        return seen

    async def numbered(self, number: int) -> VectorStorage:
        """One set, open, whether it is served or not. It knows no session."""
        return await self._sets.get(number)

    async def _live(self) -> VectorStorage:
        number = await self._pointer.number()
        storage = self._sets.opened.get(number) or await self._sets.get(number)
        if self._noting is not None:
            place, steps = self._noting
            return NotedVectors(storage, f"{place}#{number}", steps)
        return storage if self._session is None else storage.within(self._session)

    async def open(self) -> None:
        await self._sets.get(await self._pointer.number())

    async def flush(self) -> None:
        for storage in list(self._sets.opened.values()):
            await storage.flush()

    async def close(self) -> None:
        while self._sets.opened:
            _, storage = self._sets.opened.popitem()
            await storage.close()

    async def drop(self) -> None:
        await (await self._live()).drop()

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        await (await self._live()).put_many(records)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        return await (await self._live()).search(vector, top_k, filter, ids)

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        return await (await self._live()).vectors(ids)

    async def delete_many(self, ids: Sequence[str]) -> None:
        await (await self._live()).delete_many(ids)

    async def ids(self) -> list[str]:
        return await (await self._live()).ids()

    async def count(self) -> int:
        return await (await self._live()).count()
