"""BM25 in PostgreSQL: postings of our own, scored by the server."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from easy_knowledge_retriever.kg.lexical_storage.base import FIELD_WEIGHTS, LexicalStorage
from easy_knowledge_retriever.kg.postgres import PGSession, PGStorage
from easy_knowledge_retriever.kg.postgres.filters import Conditions
from easy_knowledge_retriever.types import Hit, LexicalRecord, SearchFilter

__all__ = ["PGLexicalStorage"]


class PGLexicalStorage(PGStorage, LexicalStorage):
    """BM25 in PostgreSQL.

    A term is kept as 64 bits of its digest, so that deleting a chunk leaves no word of it behind. Scores are those of the
    other storages to the last bit: the same operations in the same order.

    Args:
        workspace: Separates bases in one database. One given here is kept whatever ``bind`` is told.
        options: How the database is reached, see ``PGOptions``.
    """

    role: ClassVar[str] = "lexical"

    async def put_many(self, records: Sequence[LexicalRecord]) -> None:
        async def write(session: PGSession, space: int) -> None:
            index = await _Index.of(session, space)
            await index.delete(list(latest))
            await index.insert(list(latest.values()), self._space.workspace)
            await index.save(self._space.workspace)

        latest = {record.id: record for record in records}
        if latest:
            await self._change(write)

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
        wanted = sorted({_hash(term) for term in terms})

        async def work(session: PGSession, space: int) -> list[Hit]:
            index = await _Index.of(session, space)
            average = index.average_length(weights)
            holders = dict(await session.rows(_HOLDERS, space, wanted))
            if not average or not holders:
                return []
            found = np.array([holders.get(term, 0) for term in wanted], np.int64)
            idf = np.log1p((index.rows - found + 0.5) / (found + 0.5)).tolist()
            seen = Conditions.of(filter, 8)
            sql = _scoring(index, weights, seen.on("l"))
            given = (space, wanted, idf, k1, b, average, top_k, *seen.values)
            # The server cannot know how many rows hold the words, and would look up each row by itself.
            many = int(found.sum()) > index.rows * _MANY
            async with session.having({"enable_nestloop": "off"} if many else {}):
                rows = await session.rows(sql, *given)
            return [Hit(row, score) for row, score in rows]

        return await self._read(work) if top_k > 0 and wanted else []

    async def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        wanted = {term: _hash(term) for term in terms}

        async def work(session: PGSession, space: int) -> dict[str, int]:
            holders = dict(await session.rows(_HOLDERS, space, sorted(set(wanted.values()))))
            return {term: holders[number] for term, number in wanted.items() if holders.get(number)}

        return await self._read(work) if wanted else {}

    async def delete_many(self, ids: Sequence[str]) -> None:
        async def write(session: PGSession, space: int) -> None:
            index = await _Index.of(session, space)
            await index.delete(list(ids))
            await index.save(self._space.workspace)

        if ids:
            await self._change(write)

    async def ids(self) -> list[str]:
        sql = "SELECT id FROM ekr.lexical WHERE space = $1 ORDER BY id"
        return [key for (key,) in await self._read(lambda session, space: session.rows(sql, space))]

    async def count(self) -> int:
        async def work(session: PGSession, space: int) -> int:
            return (await _Index.of(session, space)).rows

        return await self._read(work)

    async def _drop(self, session: PGSession, space: int) -> None:
        for table in ("posting", "lexical", "lexical_field", "lexical_size"):
            await session.write(f"DELETE FROM ekr.{table} WHERE space = $1", space)


_MANY = 0.1
"""Postings of the words of a query, as a share of all rows, from which reading all rows once is quicker."""
_HOLDERS = """
    SELECT term, (SELECT count(*) FROM (SELECT DISTINCT row FROM ekr.posting WHERE space = $1 AND term = wanted.term) AS held)
    FROM unnest($2::bigint[]) AS wanted (term)
"""
_DELETE = """
    WITH gone AS (DELETE FROM ekr.lexical WHERE space = $1 AND id = ANY($2::text[]) RETURNING row, lengths, terms),
    cut AS (
        DELETE FROM ekr.posting USING gone, unnest(gone.terms) AS held (term)
        WHERE posting.space = $1 AND posting.term = held.term AND posting.row = gone.row
    )
    SELECT lengths FROM gone
"""


@dataclass(slots=True)
class _Index:
    """The sizes of an index: what every score depends on, kept up to date with the rows."""

    session: PGSession
    space: int
    positions: dict[str, int]
    """Field → position of its length in a row, from 1 on, as PostgreSQL counts."""
    totals: dict[str, int]
    """Field → terms in it, over all rows."""
    rows: int
    last: int
    """The highest number a row was ever given."""

    @classmethod
    async def of(cls, session: PGSession, space: int) -> _Index:
        fields = await session.rows("SELECT name, position, total FROM ekr.lexical_field WHERE space = $1", space)
        sizes = await session.rows("SELECT rows, last FROM ekr.lexical_size WHERE space = $1", space)
        rows, last = sizes[0] if sizes else (0, 0)
        positions = {name: position for name, position, _ in fields}
        return cls(session, space, positions, {name: total for name, _, total in fields}, rows, last)

    def average_length(self, weights: Mapping[str, float]) -> float:
        """The mean of the weighted lengths of all rows."""
        total = sum(count * weights.get(name, 1.0) for name, count in sorted(self.totals.items()))
        return total / max(self.rows, 1)

    async def delete(self, ids: list[str]) -> None:
        """Deletes what exists of some rows."""
        for (lengths,) in await self.session.rows(_DELETE, self.space, ids):
            self.rows -= 1
            for name, position in self.positions.items():
                self.totals[name] -= lengths[position - 1] if position <= len(lengths) else 0

    async def insert(self, records: Sequence[LexicalRecord], workspace: str) -> None:
        """Writes rows that are not there."""
        for name in sorted({name for record in records for name in record.fields} - self.positions.keys()):
            self.positions[name] = len(self.positions) + 1
            self.totals[name] = 0
        rows, postings = [], []
        for record in records:
            self.rows, self.last = self.rows + 1, self.last + 1
            counts = {self.positions[name]: Counter(map(_hash, terms)) for name, terms in record.fields.items()}
            lengths = [counts[place].total() if place in counts else 0 for place in range(1, len(self.positions) + 1)]
            for name, place in self.positions.items():
                self.totals[name] += lengths[place - 1]
            terms = sorted(set().union(*counts.values()))
            rows.append((self.space, workspace, self.last, record.id, record.document_id, record.collection, lengths, terms))
            postings += [(term, self.last, place, n) for place, count in counts.items() for term, n in count.items()]
        await self.session.write_many(
            "INSERT INTO ekr.lexical (space, workspace, row, id, document_id, collection, lengths, terms)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            rows,
        )
        if postings:
            await self.session.write(
                "INSERT INTO ekr.posting (space, workspace, term, row, field, count)"
                " SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::integer[])",
                self.space,
                workspace,
                *map(list, zip(*sorted(postings), strict=True)),
            )

    async def save(self, workspace: str) -> None:
        """Writes the sizes."""
        await self.session.write_many(
            "INSERT INTO ekr.lexical_field (space, workspace, position, name, total) VALUES ($1, $2, $3, $4, $5)"
            " ON CONFLICT (space, position) DO UPDATE SET total = excluded.total",
            [(self.space, workspace, place, name, self.totals[name]) for name, place in self.positions.items()],
        )
        await self.session.write(
            "INSERT INTO ekr.lexical_size (space, workspace, rows, last) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (space) DO UPDATE SET rows = excluded.rows, last = excluded.last",
            self.space,
            workspace,
            self.rows,
            self.last,
        )


def _scoring(index: _Index, weights: Mapping[str, float], seen: str) -> str:
    """The query for the best rows: $1 space, $2 terms, $3 their idf, $4 k1, $5 b, $6 average length, $7 how many."""
    # Sums run over fields in order of name, then over terms in order: so they have the same last bits everywhere.
    fields = [(place, float(weights.get(name, 1.0))) for name, place in sorted(index.positions.items())]
    frequency = " + ".join(
        f"coalesce(max(p.count) FILTER (WHERE p.field = {place}), 0) * {weight!r}::float8" for place, weight in fields
    )
    length = " + ".join(f"coalesce(l.lengths[{place}], 0) * {weight!r}::float8" for place, weight in fields)
    norm = f"$4::float8 * (1 - $5::float8 + $5::float8 * ({length}) / $6::float8)"
    return f"""
        WITH match AS (
            SELECT p.row, p.term, ($3::float8[])[array_position($2::bigint[], p.term)] AS idf, {frequency} AS frequency
            FROM ekr.posting AS p WHERE p.space = $1 AND p.term = ANY($2::bigint[])
            GROUP BY p.row, p.term
        )
        SELECT l.id, sum(m.idf * (m.frequency * ($4::float8 + 1) / (m.frequency + {norm})) ORDER BY m.term) AS score
        FROM match AS m JOIN ekr.lexical AS l ON l.space = $1 AND l.row = m.row
        WHERE m.frequency > 0{seen}
        GROUP BY m.row, l.id ORDER BY score DESC, l.id LIMIT $7
    """


def _hash(term: str) -> int:
    """64 bits of a digest, as a signed number that sorts as the digest does."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") - (1 << 63)
