"""BM25 in SQLite: a row of term counts a chunk, and an inverted index in memory that follows the commits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.kg.lexical_storage.base import FIELD_WEIGHTS, LexicalStorage
from easy_knowledge_retriever.kg.sqlite import SqliteSession, SqliteStorage
from easy_knowledge_retriever.kg.sqlite.mirror import Mirror, Part, Vocabulary, ranges, runs, visible
from easy_knowledge_retriever.kg.sqlite.session import Row
from easy_knowledge_retriever.types import Hit, LexicalRecord, SearchFilter

__all__ = ["SqliteLexicalStorage"]

Terms = NDArray[np.uint64]
Counts = NDArray[np.uint32]

_TERM = np.dtype("<u8")
_COUNTS: tuple[np.dtype[np.unsignedinteger], ...] = (np.dtype("u1"), np.dtype("<u2"), np.dtype("<u4"))


@dataclass(frozen=True, slots=True)
class _Segment:
    """Postings in order of term, then of row."""

    seqs: NDArray[np.int64]
    ids: list[str]
    documents: NDArray[np.int32]
    collections: NDArray[np.int32]
    fields: tuple[str, ...]
    lengths: NDArray[np.int64]
    """Shape (fields, rows)."""
    terms: Terms
    """Shape (postings,), ascending."""
    rows: NDArray[np.int32]
    """Shape (postings,)."""
    counts: NDArray[np.unsignedinteger]
    """Shape (fields, postings): how often the term stands in each field of the row."""


class _LexicalMirror(Mirror[_Segment]):
    source = "lexical"
    columns = "id, document_id, collection, fields, terms, counts"
    largest = 16384
    batch = 16384

    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> _Segment:
        seqs, ids, documents, collections, named, terms, counts = zip(*rows, strict=True)
        fields = tuple(sorted({name for names in set(named) for name in json.loads(names)}))
        sizes = np.array([len(hashes) // _TERM.itemsize for hashes in terms], np.int64)
        return _segment(
            np.array(seqs, np.int64),
            list(ids),
            vocabulary.documents.numbers(documents),
            vocabulary.collections.numbers(collections),
            fields,
            np.frombuffer(b"".join(terms), _TERM),
            np.repeat(np.arange(len(rows), dtype=np.int32), sizes),
            _counted(named, sizes, counts, fields),
        )

    def merge(self, parts: Sequence[Part[_Segment]], vocabulary: Vocabulary) -> _Segment:
        fields = tuple(sorted({name for part in parts for name in part.segment.fields}))
        kept = [part.live[part.segment.rows] for part in parts]
        # Position of each row among the living ones of all parts.
        starts = np.cumsum([0, *(part.alive for part in parts)])
        places = [(np.cumsum(p.live) - 1 + start).astype(np.int32) for p, start in zip(parts, starts[:-1], strict=True)]
        both = list(zip(parts, kept, places, strict=True))
        return _segment(
            np.concatenate([p.segment.seqs[p.live] for p in parts]),
            [row for p in parts for row, live in zip(p.segment.ids, p.live.tolist(), strict=True) if live],
            np.concatenate([p.segment.documents[p.live] for p in parts]),
            np.concatenate([p.segment.collections[p.live] for p in parts]),
            fields,
            np.concatenate([p.segment.terms[keep] for p, keep, _ in both]),
            np.concatenate([place[p.segment.rows[keep]] for p, keep, place in both]),
            np.concatenate([_arranged(p.segment.counts[:, keep], p.segment.fields, fields) for p, keep, _ in both], axis=1),
        )


_MIRROR = _LexicalMirror()


class SqliteLexicalStorage(SqliteStorage, LexicalStorage):
    """BM25 in one SQLite file.

    A term is kept as 64 bits of its digest, so that deleting a chunk leaves no word of it behind. The first search loads
    the index (about 10 bytes a distinct term of a chunk); later ones load what changed.

    Args:
        working_dir: Folder of the file ``knowledge.db``; created when it is opened.
        durability: ``full`` syncs every commit, ``relaxed`` leaves the last ones to the operating system.
        lock_timeout: Seconds to wait for another process that writes.
    """

    role: ClassVar[str] = "lexical"

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        def write(session: SqliteSession, space: int, rows: list[Row]) -> None:
            latest = {row[0]: row for row in rows}
            session.remove("lexical", space, _seqs(session, space, list(latest)))
            session.write(
                "INSERT INTO lexical (space, id, document_id, collection, fields, terms, counts) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(space, *row) for row in latest.values()],
            )

        await self._put(records, _rows, write)

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
        wanted = _hashed(set(terms))

        def work(session: SqliteSession, space: int) -> list[Hit]:
            parts = session.store.mirrors.generation(session, _MIRROR, space).parts
            vocabulary = session.store.mirrors.vocabulary(space)
            matches = [_Match.of(part, wanted, weights) for part in parts]
            frequencies = np.sum([match.frequencies for match in matches], axis=0)
            rows = sum(part.alive for part in parts)
            idf = np.log1p((rows - frequencies + 0.5) / (frequencies + 0.5))
            average = _average_length(parts, weights, rows)
            scored = [
                np.where(visible(part, vocabulary, filter), match.scores(idf, k1, b, average), 0.0)
                for part, match in zip(parts, matches, strict=True)
            ]
            return _best(parts, scored, top_k)

        return await self._read(work) if top_k > 0 and len(wanted) else []

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        distinct = list(dict.fromkeys(terms))
        wanted = _hashed(distinct)

        def work(session: SqliteSession, space: int) -> dict[str, int]:
            order = np.argsort(wanted)
            parts = session.store.mirrors.generation(session, _MIRROR, space).parts
            counts = np.zeros(len(wanted), np.int64)
            for part in parts:
                counts[order] += _Match.of(part, wanted[order], {}).frequencies
            return {term: count for term, count in zip(distinct, counts.tolist(), strict=True) if count}

        return await self._read(work)

    async def delete_many(self, ids: Sequence[str]) -> None:
        def write(session: SqliteSession, space: int, keys: list[str]) -> None:
            session.remove("lexical", space, _seqs(session, space, keys))

        await self._put(ids, list, write)

    async def ids(self) -> list[str]:
        sql = "SELECT id FROM lexical WHERE space = ? ORDER BY id"
        return await self._read(lambda session, space: [row for (row,) in session.rows(sql, (space,))])

    async def count(self) -> int:
        sql = "SELECT count(*) FROM lexical WHERE space = ?"
        return await self._read(lambda session, space: int(session.rows(sql, (space,))[0][0]))

    def _drop(self, session: SqliteSession, space: int) -> None:
        session.remove_all("lexical", space)


@dataclass(frozen=True, slots=True)
class _Match:
    """The postings of the query terms in one segment."""

    part: Part[_Segment]
    weights: tuple[float, ...]
    """Weight of each field of the segment."""
    term: NDArray[np.intp]
    """Shape (matches,): position of the term in the query."""
    places: NDArray[np.int64]
    """Shape (matches,): positions of the postings."""
    frequencies: NDArray[np.int64]
    """Shape (terms,): rows that hold each term."""

    @classmethod
    def of(cls, part: Part[_Segment], wanted: Terms, weights: Mapping[str, float]) -> _Match:
        segment = part.segment
        term, places = ranges(segment.terms, wanted)
        if part.alive < part.size:
            there = part.live[segment.rows[places]]
            term, places = term[there], places[there]
        by_field = tuple(weights.get(name, 1.0) for name in segment.fields)
        return cls(part, by_field, term, places, np.bincount(term, minlength=len(wanted)))

    def scores(self, idf: NDArray[np.float64], k1: float, b: float, average: float) -> NDArray[np.float64]:
        """The BM25 score of every row; 0 where no term stands. Shape (rows,)."""
        segment = self.part.segment
        rows, term = segment.rows[self.places], self.term
        frequency = _weighted([counts[self.places] for counts in segment.counts], self.weights)
        if not (found := frequency > 0).all():
            rows, term, frequency = rows[found], term[found], frequency[found]
        norms = k1 * (1 - b + b * _weighted(list(segment.lengths), self.weights) / average) if average else segment.seqs
        saturated = frequency * (k1 + 1) / (frequency + norms[rows])
        # Postings are in order of term, so every row sums up its terms in the same order wherever it stands.
        return np.bincount(rows, idf[term] * saturated, minlength=self.part.size).astype(np.float64, copy=False)


def _weighted(columns: Sequence[NDArray[np.integer]], weights: Sequence[float]) -> NDArray[np.float64]:
    # Not a matrix product: its last bits may depend on the place of a row.
    total = np.zeros(len(columns[0]) if len(columns) else 0)
    for column, weight in zip(columns, weights, strict=True):
        total += column * weight
    return total


def _average_length(parts: Sequence[Part[_Segment]], weights: Mapping[str, float], rows: int) -> float:
    totals: Counter[str] = Counter()
    for part in parts:
        whole = part.alive == part.size
        for name, lengths in zip(part.segment.fields, part.segment.lengths, strict=True):
            totals[name] += int(np.sum(lengths if whole else lengths[part.live]))
    return sum(total * weights.get(name, 1.0) for name, total in sorted(totals.items())) / max(rows, 1)


def _best(parts: Sequence[Part[_Segment]], scored: Sequence[NDArray[np.float64]], top_k: int) -> list[Hit]:
    everything = np.concatenate(scored) if scored else np.zeros(0)
    floor = np.partition(everything, -top_k)[-top_k] if top_k < len(everything) else 0.0
    hits: list[Hit] = []
    for part, scores in zip(parts, scored, strict=True):
        places = np.flatnonzero((scores >= floor) & (scores > 0))
        chosen = zip(places.tolist(), scores[places].tolist(), strict=True)
        hits += [Hit(part.segment.ids[place], score) for place, score in chosen]
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return hits[:top_k]


def _seqs(session: SqliteSession, space: int, ids: list[str]) -> list[int]:
    sql = "SELECT seq FROM lexical WHERE space = ? AND id IN (SELECT value FROM json_each(?))"
    return [seq for (seq,) in session.keyed(sql, space, ids)]


def _hash(term: str) -> int:
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashed(terms: Sequence[str] | set[str]) -> Terms:
    hashes = np.fromiter((_hash(term) for term in terms), np.uint64)
    return np.sort(hashes) if isinstance(terms, set) else hashes


def _rows(records: Sequence[LexicalRecord]) -> list[Row]:
    return [_row(record) for record in records]


def _row(record: LexicalRecord) -> Row:
    """Columns of a record: its fields, the hashes of its terms, and how often each stands in each field."""
    fields = sorted(record.fields)
    counted = [Counter(record.fields[name]) for name in fields]
    terms = {_hash(term): term for term in set().union(*counted)}
    hashes = sorted(terms)
    table = [count[terms[hash_]] for hash_ in hashes for count in counted]
    width = _width(max(table, default=0))
    return (
        record.id,
        record.document_id,
        record.collection,
        json.dumps(fields),
        np.array(hashes, _TERM).tobytes(),
        np.array(table, width).tobytes(),
    )


def _width(highest: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds a count."""
    return next(width for width in _COUNTS if highest <= np.iinfo(width).max)


def _counted(named: Sequence[str], sizes: NDArray[np.int64], counts: Sequence[bytes], fields: tuple[str, ...]) -> Counts:
    """Counts by field and posting, of rows with the given fields and numbers of terms. Shape (fields, postings)."""
    table = np.zeros((len(fields), int(np.sum(sizes))), np.uint32)
    starts = np.cumsum(sizes) - sizes
    # Nearly always all rows are alike, and read in one piece.
    alike: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row, (names, size, cells) in enumerate(zip(named, sizes.tolist(), counts, strict=True)):
        alike[names, len(cells) // size if size else 0].append(row)
    for (names, width), rows in alike.items():
        if width:
            columns: list[str] = json.loads(names)
            block = np.frombuffer(b"".join([counts[row] for row in rows]), f"<u{width // len(columns)}")
            _, places = runs(starts[rows], sizes[rows])
            table[:, places] = _arranged(block.reshape(-1, len(columns)).T, columns, fields)
    return table


def _arranged(table: NDArray[Any], names: Sequence[str], wanted: Sequence[str]) -> Counts:
    """The table with a row for each wanted field."""
    wide = np.zeros((len(wanted), table.shape[1]), np.uint32)
    for row, name in zip(table, names, strict=True):
        wide[wanted.index(name)] = row
    return wide


def _segment(
    seqs: NDArray[np.int64],
    ids: list[str],
    documents: NDArray[np.int32],
    collections: NDArray[np.int32],
    fields: tuple[str, ...],
    terms: Terms,
    rows: NDArray[np.int32],
    counts: Counts,
) -> _Segment:
    """A segment of postings in any order of term; those of one term are in order of row."""
    lengths = np.zeros((len(fields), len(ids)), np.int64)
    for row, column in enumerate(counts):
        lengths[row] = np.bincount(rows, column, len(ids))
    order = np.argsort(terms, kind="stable")
    narrow = _width(int(counts.max(initial=0)))
    return _Segment(
        seqs, ids, documents, collections, fields, lengths, terms[order], rows[order], counts[:, order].astype(narrow)
    )
