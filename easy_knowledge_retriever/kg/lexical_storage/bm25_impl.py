"""BM25 in memory, scored by rank-bm25."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rank_bm25 import BM25Okapi

from easy_knowledge_retriever.kg.files import FileStorage
from easy_knowledge_retriever.kg.lexical_storage.base import FIELD_WEIGHTS, LexicalStorage
from easy_knowledge_retriever.types import Hit, LexicalRecord, SearchFilter

__all__ = ["BM25Storage"]

SMALLEST_K1 = 1e-9
"""Stands for a k1 of 0, with which rank-bm25 divides nothing by nothing for a row without the term."""


@dataclass(frozen=True, slots=True)
class _Row:
    document_id: str
    collection: str
    counts: Mapping[str, Mapping[str, int]]
    """How often each term occurs in each field."""
    lengths: Mapping[str, int]
    """Number of terms in each field."""

    @classmethod
    def of(cls, document_id: str, collection: str, counts: Mapping[str, Mapping[str, int]]) -> _Row:
        return cls(document_id, collection, counts, {name: sum(terms.values()) for name, terms in counts.items()})

    def frequencies(self, terms: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, counts in self.counts.items():
            for term in terms:
                if term in counts:
                    found[term] = found.get(term, 0.0) + weights.get(name, 1.0) * counts[term]
        return found


class _Okapi(BM25Okapi):  # type: ignore[misc]  # rank-bm25 has no types
    """rank-bm25's score of some rows, with the statistics of the whole index and an idf that is never negative.

    The constructor of the package counts a corpus anew; here everything is counted already.
    """

    def __init__(
        self,
        frequencies: Sequence[Mapping[str, float]],
        lengths: Sequence[float],
        average: float,
        idf: Mapping[str, float],
        k1: float,
        b: float,
    ) -> None:
        self.corpus_size = len(lengths)
        self.doc_freqs, self.doc_len, self.avgdl, self.idf = frequencies, lengths, average, idf
        self.k1, self.b = k1, b


class BM25Storage(FileStorage, LexicalStorage):
    """Term counts in memory, kept in one file ``bm25_<namespace>.json`` and changed row by row.

    Only rows that hold a term of the question are scored, by loops in Python: a question of
    frequent words takes milliseconds for every thousand rows. Above some thousand chunks take the SQLite storage.
    """

    kind = "bm25"

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        async with self._writing():
            for record in records:
                self._forget(record.id)
                counts = {name: dict(Counter(terms)) for name, terms in record.fields.items()}
                self._add(record.id, _Row.of(record.document_id, record.collection, counts))

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
        weights = FIELD_WEIGHTS if field_weights is None else field_weights
        asked = tuple(dict.fromkeys(terms))
        return await self._searched(lambda: self._search(asked, top_k, filter, max(k1, SMALLEST_K1), b, weights))

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        self._require_open()
        return {term: len(self._holders[term]) for term in terms if term in self._holders}

    async def delete_many(self, ids: Sequence[str]) -> None:
        async with self._writing():
            for key in ids:
                self._forget(key)

    async def ids(self) -> list[str]:
        self._require_open()
        return sorted(self._rows)

    async def count(self) -> int:
        self._require_open()
        return len(self._rows)

    def _search(
        self,
        terms: Sequence[str],
        top_k: int,
        filter: SearchFilter | None,
        k1: float,
        b: float,
        weights: Mapping[str, float],
    ) -> list[Hit]:
        known = [term for term in terms if term in self._holders]
        average = _weighted(self._totals, weights) / max(len(self._rows), 1)
        held = sorted({key for term in known for key in self._holders[term]})
        rows = {key: self._rows[key] for key in held}
        if filter is not None:
            rows = {key: row for key, row in rows.items() if filter.admits(row.document_id, row.collection)}
        # A row that holds the terms in fields without weight only has length 0, which the scorer would divide by.
        frequencies = {key: row.frequencies(known, weights) for key, row in rows.items()}
        rows = {key: row for key, row in rows.items() if any(frequencies[key].values())}
        if not rows or average <= 0:
            return []
        scorer = _Okapi(
            [frequencies[key] for key in rows],
            [_weighted(row.lengths, weights) for row in rows.values()],
            average,
            {term: self._idf(term) for term in known},
            k1,
            b,
        )
        hits = [Hit(key, float(score)) for key, score in zip(rows, scorer.get_scores(known), strict=True) if score > 0]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: max(top_k, 0)]

    def _idf(self, term: str) -> float:
        holders = len(self._holders[term])
        return math.log(1 + (len(self._rows) - holders + 0.5) / (holders + 0.5))

    def _add(self, key: str, row: _Row) -> None:
        self._rows[key] = row
        for name, terms in row.counts.items():
            self._totals[name] += row.lengths[name]
            for term in terms:
                self._holders[term].add(key)

    def _forget(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        for name, terms in row.counts.items():
            self._totals[name] -= row.lengths[name]
            for term in terms:
                self._holders[term].discard(key)
                if not self._holders[term]:
                    del self._holders[term]

    def _clear(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        self._totals: Counter[str] = Counter()

    def _text(self) -> str:
        rows = {key: [row.document_id, row.collection, row.counts] for key, row in self._rows.items()}
        return json.dumps({"rows": rows}, separators=(",", ":"))

    def _restore(self, members: Any) -> None:
        for key, (document_id, collection, counts) in members["rows"].items():
            self._add(key, _Row.of(document_id, collection, counts))


def _weighted(lengths: Mapping[str, int], weights: Mapping[str, float]) -> float:
    return sum(weights.get(name, 1.0) * length for name, length in lengths.items())
