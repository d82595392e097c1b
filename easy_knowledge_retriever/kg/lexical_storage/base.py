"""Port of BM25 search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.types import Hit, LexicalRecord, SearchFilter

__all__ = ["FIELD_WEIGHTS", "LexicalStorage"]

FIELD_WEIGHTS: Mapping[str, float] = MappingProxyType({"heading": 1.0, "text": 1.0})
"""How much an occurrence in each field counts, unless a search says otherwise."""


class LexicalStorage(Storage):
    """Analysed terms of chunks, searched by Okapi BM25.

    A chunk scores, over the distinct query terms t in it,
    ``sum(idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average)))`` with
    ``idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))``, which is never negative. ``tf`` and ``length`` are the sums over the
    fields, each multiplied by its weight. N, n and the average are those of the whole index, whatever the filter admits.

    References:
        Robertson, Zaragoza: The Probabilistic Relevance Framework: BM25 and Beyond. 2009.
    """

    @abstractmethod
    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        """Writes or overwrites."""

    @abstractmethod
    async def search(
        self,
        terms: Sequence[str],
        top_k: int,
        filter: SearchFilter | None = None,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        field_weights: Mapping[str, float] | None = None,
    ) -> list[Hit]:
        """The best rows with a score above 0, best first, ties in order of id.

        Args:
            terms: Analysed like the records; a repeated term counts once.
            top_k: How many at most.
            filter: Only rows whose document it admits (its ``metadata`` is resolved before and not looked at here).
            k1: Saturation of the term frequency, at least 0.
            b: Strength of the length normalisation, 0 to 1.
            field_weights: Weight by field; :data:`FIELD_WEIGHTS` if None, and 1 for a field it does not name.
        """

    @abstractmethod
    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Number of rows that hold each term, for the terms that occur."""

    @abstractmethod
    async def delete_many(self, ids: Sequence[str]) -> None:
        """Deletes what exists of them."""

    @abstractmethod
    async def ids(self) -> list[str]:
        """Every id, in order."""

    @abstractmethod
    async def count(self) -> int:
        """Number of rows."""
