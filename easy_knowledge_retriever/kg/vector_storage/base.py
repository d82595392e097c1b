"""Port of vector search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["VectorStorage"]


class VectorStorage(Storage):
    """Vectors under string ids, searched by cosine similarity."""

    @abstractmethod
    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        """Writes or overwrites, all or none.

        Raises:
            StorageError: A vector has another dimension than those stored, is zero, or is not finite; nothing was written.
        """

    @abstractmethod
    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        """The nearest rows, best first, ties in order of id; scores are cosines in [-1, 1].

        Args:
            vector: Shape (dim,), finite and not zero.
            top_k: How many at most; all that match if there are fewer.
            filter: Only rows whose document it admits (its ``metadata`` is resolved before and not looked at here).
            ids: Only these rows.
        """

    @abstractmethod
    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        """The stored vectors that exist, normalised to length 1 (to within 1e-3)."""

    @abstractmethod
    async def delete_many(self, ids: Sequence[str]) -> None:
        """Deletes what exists of them."""

    @abstractmethod
    async def ids(self) -> list[str]:
        """Every id, in order."""

    @abstractmethod
    async def count(self) -> int:
        """Number of rows."""
