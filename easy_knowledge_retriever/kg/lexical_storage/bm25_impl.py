"""BM25 in memory, scored by rank-bm25."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass

from rank_bm25 import BM25Okapi

from easy_knowledge_retriever.kg.files.storage import FileStorage
from easy_knowledge_retriever.kg.files.table import Changes, Json, Key, Table, View
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

    def holds(self, term: str) -> bool:
        return any(term in counts for counts in self.counts.values())

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


class _Terms(Table[_Row]):
    """Term counts of every row, and which rows hold a term."""

    kind = "bm25"

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, _Row] = {}
        self.holders: defaultdict[str, set[str]] = defaultdict(set)
        self.totals: Counter[str] = Counter()
        """Number of terms in each field of all rows."""

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[str]:
        return self._rows.keys()

    def get(self, key: Key) -> _Row | None:
        return self._rows.get(str(key))

    def apply(self, changes: Changes[_Row]) -> None:
        for key, row in changes.items():
            self._forget(str(key))
            if row is not None:
                self._add(str(key), row)

    def encode(self, row: _Row) -> str:
        return json.dumps([row.document_id, row.collection, row.counts], separators=(",", ":"))

    def decode(self, key: Key, data: Json) -> _Row:
        document_id, collection, counts = data
        return _Row.of(document_id, collection, counts)

    def members(self) -> Iterator[str]:
        yield '"rows":{'
        rows = enumerate(self._rows.items())
        yield from (f"{',' if number else ''}{json.dumps(key)}:{self.encode(row)}" for number, (key, row) in rows)
        yield "}"

    def restore(self, body: bytes) -> Json:
        members = json.loads(body)
        self.apply({key: self.decode(key, data) for key, data in members.pop("rows").items()})
        return members

    def _add(self, key: str, row: _Row) -> None:
        self._rows[key] = row
        for name, terms in row.counts.items():
            self.totals[name] += row.lengths[name]
            for term in terms:
                self.holders[term].add(key)

    def _forget(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        for name, terms in row.counts.items():
            self.totals[name] -= row.lengths[name]
            for term in terms:
                self.holders[term].discard(key)
                if not self.holders[term]:
                    del self.holders[term]


class _Index:
    """The statistics of a view: those of its table, put right by what was changed."""

    def __init__(self, view: View[_Row], terms: Sequence[str]) -> None:
        self.view = view
        self.size = len(view)
        table = view.table
        holders = table.holders if isinstance(table, _Terms) else {}
        self.totals = Counter(table.totals if isinstance(table, _Terms) else {})
        changed = dict(view.changed())
        for row in (table.get(key) for key in view.changes):
            self.totals.subtract(row.lengths if row else {})
        for row in changed.values():
            self.totals.update(row.lengths)
        self.holders: dict[str, set[str]] = {}
        for term in terms:
            held = holders.get(term, set())
            if view.changes:
                held = {key for key in held if key not in view.changes}
                held |= {str(key) for key, row in changed.items() if row.holds(term)}
            if held:
                self.holders[term] = held

    def idf(self, term: str) -> float:
        found = len(self.holders[term])
        return math.log(1 + (self.size - found + 0.5) / (found + 0.5))

    def rows(self, filter: SearchFilter | None) -> dict[str, _Row]:
        """What holds a term and is admitted."""
        held = sorted(set().union(*self.holders.values()))
        rows = {key: row for key in held if (row := self.view.get(key)) is not None}
        if filter is None:
            return rows
        return {key: row for key, row in rows.items() if filter.admits(row.document_id, row.collection)}


class BM25Storage(FileStorage[_Row], LexicalStorage):
    """Term counts in memory, changed row by row; on disk in the journal of the folder and in ``bm25_<namespace>.<number>.json``.

    Only rows that hold a term of the question are scored, by loops in Python: a question of
    frequent words takes milliseconds for every thousand rows. Above some thousand chunks take the SQLite storage.
    """

    rows = _Terms

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        fresh: dict[Key, _Row | None] = {
            record.id: _Row.of(
                record.document_id, record.collection, {name: dict(Counter(terms)) for name, terms in record.fields.items()}
            )
            for record in records
        }
        await self._change(lambda _: fresh)

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
        return await self._search(lambda view: _best(_Index(view, asked), top_k, filter, max(k1, SMALLEST_K1), b, weights))

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        def counted(view: View[_Row]) -> dict[str, int]:
            return {term: len(held) for term, held in _Index(view, tuple(dict.fromkeys(terms))).holders.items()}

        return await self._search(counted)

    async def delete_many(self, ids: Sequence[str]) -> None:
        await self._change(lambda view: {key: None for key in ids if view.get(key) is not None})

    async def ids(self) -> list[str]:
        return await self._search(lambda view: sorted(map(str, view.keys())))

    async def count(self) -> int:
        return await self._search(len)


def _best(index: _Index, top_k: int, filter: SearchFilter | None, k1: float, b: float, weights: Mapping[str, float]) -> list[Hit]:
    average = _weighted(index.totals, weights) / max(index.size, 1)
    rows = index.rows(filter)
    known = list(index.holders)
    # A row that holds the terms in fields without weight only has length 0, which the scorer would divide by.
    frequencies = {key: row.frequencies(known, weights) for key, row in rows.items()}
    rows = {key: row for key, row in rows.items() if any(frequencies[key].values())}
    if not rows or average <= 0:
        return []
    scorer = _Okapi(
        [frequencies[key] for key in rows],
        [_weighted(row.lengths, weights) for row in rows.values()],
        average,
        {term: index.idf(term) for term in known},
        k1,
        b,
    )
    hits = [Hit(key, float(score)) for key, score in zip(rows, scorer.get_scores(known), strict=True) if score > 0]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: max(top_k, 0)]


def _weighted(lengths: Mapping[str, int], weights: Mapping[str, float]) -> float:
    return sum(weights.get(name, 1.0) * length for name, length in lengths.items())
