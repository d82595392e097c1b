"""Rows of the database as arrays in memory, generation by generation.

A generation shows the rows of one table and space at one commit. It never changes: the next one is made of it by adding
the rows that came (their ``seq`` is above all earlier ones) and hiding those that went (they stand in ``removed``), whoever
wrote them. It consists of segments, which two neighbouring generations share. A small segment is merged with its neighbour
once the neighbour is not much larger, so that a row is copied a logarithmic number of times and there are few segments.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.kg.sqlite.packing import PackingError
from easy_knowledge_retriever.kg.sqlite.session import Row, SqliteSession
from easy_knowledge_retriever.types import SearchFilter

__all__ = [
    "Generation",
    "Mirror",
    "Mirrors",
    "Names",
    "Owned",
    "Part",
    "Segment",
    "Values",
    "Vocabulary",
    "ranges",
    "runs",
    "visible",
]

COLUMNS: Final = {"entity": "value", "relation": "chunks, value"}
"""Columns of a row that make its value."""
_REMEMBERED: Final = 4096
"""Values kept in memory, some 10 MB."""
_GROWTH = 4  # a segment is merged with the one before unless that has more than so many times its rows
_SPARSE = 0.75  # a segment of which fewer rows are alive is written anew


class Names:
    """Texts and the small numbers that stand for them in arrays. Only grows, so that all generations can share it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._guard = threading.Lock()
        self._order = np.zeros(0, np.int32)
        self._ranks = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.texts)

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of texts, given now to those that have none."""
        known = self._numbers
        for text in dict.fromkeys(texts):
            if text not in known:
                known[text] = len(self.texts)
                self.texts.append(text)
        return np.fromiter(map(known.__getitem__, texts), np.int32, len(texts))

    def find(self, text: str) -> int:
        """The number of a text; -1 if it has none."""
        return self._numbers.get(text, -1)

    def ranks(self) -> NDArray[np.int32]:
        """The place of each text in the order of texts, by its number."""
        with self._guard:
            known, total = len(self._order), len(self.texts)
            if known < total:
                self._order = self._ordered(known, total)
                self._ranks = np.empty(total, np.int32)
                self._ranks[self._order] = np.arange(total, dtype=np.int32)
            return self._ranks

    def _ordered(self, known: int, total: int) -> NDArray[np.int32]:
        text = self.texts.__getitem__
        if total > 2 * known:
            return np.array(sorted(range(total), key=text), np.int32)
        fresh = sorted(range(known, total), key=text)
        places = [bisect_left(cast("Sequence[int]", self._order), text(number), key=text) for number in fresh]
        return np.insert(self._order, places, fresh)

    def mask(self, texts: Iterable[str]) -> NDArray[np.bool_]:
        """An array that is true at the numbers of the given texts."""
        mask = np.zeros(len(self.texts) + 1, np.bool_)
        mask[[self.find(text) for text in texts]] = True
        mask[-1] = False
        return mask


class Vocabulary:
    """The names one mirror of one space uses."""

    def __init__(self) -> None:
        self.documents = Names()
        self.collections = Names()
        self.entities = Names()
        self.chunks = Names()


class Segment(Protocol):
    """Some rows as arrays, in order of ``seq``."""

    @property
    def seqs(self) -> NDArray[np.int64]:
        """Shape (rows,), ascending."""
        ...


S = TypeVar("S", bound=Segment)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[S]):
    """A segment and which of its rows are there."""

    segment: S
    live: NDArray[np.bool_]
    """Shape (rows,)."""
    alive: int

    @property
    def size(self) -> int:
        """Number of rows, gone ones included."""
        return len(self.live)

    def places(self, seqs: NDArray[np.int64]) -> NDArray[np.intp]:
        """Positions of the rows of these numbers that are there."""
        known = self.segment.seqs
        found = np.searchsorted(known, seqs)
        there = found < self.size
        found, wanted = found[there], seqs[there]
        found = found[known[found] == wanted]
        places: NDArray[np.intp] = found[self.live[found]]
        return places

    def without(self, seqs: NDArray[np.int64], up_to: int) -> Part[S]:
        """The part less the rows of these numbers and of all numbers up to a bound."""
        gone = self.places(seqs)
        below = int(np.searchsorted(self.segment.seqs, up_to, side="right"))
        if not len(gone) and not below:
            return self
        live = self.live.copy()
        live[gone] = False
        live[:below] = False
        return Part(self.segment, live, int(np.count_nonzero(live)))


@dataclass(frozen=True, slots=True)
class Generation(Generic[S]):
    """The rows of one table and space at one moment."""

    seq: int = 0
    """The last row number given out then, in any space."""
    removed: int = 0
    """The last removal noted then."""
    parts: tuple[Part[S], ...] = ()

    @property
    def alive(self) -> int:
        """Number of rows."""
        return sum(part.alive for part in self.parts)


class Mirror(ABC, Generic[S]):
    """How the rows of one table become segments."""

    source: ClassVar[str]
    """The table."""
    columns: ClassVar[str]
    """What is read of it after ``seq``, as SQL."""
    largest: ClassVar[int] = 1 << 62
    """Segments are not merged beyond so many rows."""
    batch: ClassVar[int] = 8192
    """So many rows are read from the database and made into a segment at a time."""

    @abstractmethod
    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> S:
        """A segment of rows ``(seq, *columns)`` in order of ``seq``; at least one."""

    @abstractmethod
    def merge(self, parts: Sequence[Part[S]], vocabulary: Vocabulary) -> S:
        """One segment of the living rows of several, in their order; at least one."""


class Values:
    """Values that were read from rows, by table and row: a row never changes, for an overwritten one has another number."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], object] = {}

    def read(self, session: SqliteSession, source: str, seqs: Sequence[int], decode: Callable[..., T]) -> list[T]:
        """The values of rows, in order.

        Args:
            session: The session that found the rows.
            source: The table.
            seqs: The rows.
            decode: Makes a value of what :data:`COLUMNS` says of the table.
        """
        # What a transaction wrote may be undone, and the number of a row then be given to another one.
        known = {} if session.writable else self._known
        found = {seq: known.get((source, seq)) for seq in seqs}
        missing = [seq for seq, value in found.items() if value is None]
        if len(known) + len(missing) > _REMEMBERED:
            known.clear()
        sql = f"SELECT seq, {COLUMNS[source]} FROM {source} WHERE seq IN (SELECT value FROM json_each(?))"
        for seq, *row in session.rows(sql, (json.dumps(missing),)) if missing else ():
            found[seq] = known[source, seq] = decode(*row)
        return [cast("T", found[seq]) for seq in seqs]

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()


class Mirrors:
    """The latest generation of each mirror of a store."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int], Generation[Any]] = {}
        self._guard = threading.Lock()
        self._loading: dict[int, threading.Lock] = {}
        self._vocabularies: dict[int, Vocabulary] = {}
        self.derived: dict[int, object] = {}
        """What was made of the latest generations of a space, by space."""
        self.values = Values()

    def latest(self) -> Mapping[tuple[str, int], Generation[Any]]:
        """The generations that are there, by table and space."""
        with self._guard:
            return dict(self._latest)

    def clear(self) -> None:
        """Forgets all."""
        with self._guard:
            self._latest.clear()
            self._vocabularies.clear()
            self.derived.clear()
        self.values.clear()

    def vocabulary(self, space: int) -> Vocabulary:
        """The names in the segments of a space."""
        with self._guard:
            return self._vocabularies.setdefault(space, Vocabulary())

    def generation(self, session: SqliteSession, mirror: Mirror[S], space: int) -> Generation[S]:
        """The generation a session sees, made from the nearest one before it.

        Args:
            session: The session.
            mirror: The kind of mirror.
            space: The space.
        """
        key = (mirror.source, space)
        earlier = cast("Generation[S] | None", session.mirrors.get(key))
        sql = "SELECT name, seq FROM sqlite_sequence WHERE name IN (?, 'removed')"
        counters: dict[str, int] = dict(session.rows(sql, (mirror.source,)))
        seq, removed = counters.get(mirror.source, 0), counters.get("removed", 0)
        with self._guard:
            known = self._latest.get(key)
            loading = self._loading.setdefault(space, threading.Lock())
        if known is not None and (known.seq, known.removed) == (seq, removed) and not session.writable:
            return cast("Generation[S]", known)
        with loading:  # others who want the same wait for it instead of doing it too
            with self._guard:
                known = self._latest.get(key)
            # A session that began before the latest commit goes on from what there was then.
            base = known if known is not None and known.seq <= seq and known.removed <= removed else earlier
            made = _refreshed(base or Generation(), _Source(session, mirror, space, self.vocabulary(space)), (seq, removed))
            failpoint("index-swap")
            if not session.writable and (known is None or base is known):
                with self._guard:
                    self._latest[key] = made
            return made


@dataclass(frozen=True, slots=True)
class _Source(Generic[S]):
    """Where the rows of a generation come from."""

    session: SqliteSession
    mirror: Mirror[S]
    space: int
    vocabulary: Vocabulary

    def added(self, after: int) -> Iterator[list[Row]]:
        """Rows that came after a row number. One batch is in memory at a time."""
        table = self.mirror.source
        sql = f"SELECT seq, {self.mirror.columns} FROM {table} NOT INDEXED WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?"
        while rows := self.session.rows(sql, (self.space, after, self.mirror.batch)):
            yield rows
            after = rows[-1][0]

    def built(self, rows: list[Row]) -> S:
        """A segment of rows."""
        try:
            return self.mirror.build(rows, self.vocabulary)
        except (ValueError, TypeError, AttributeError, PackingError) as error:
            raise StoreCorruptError(
                f"rows of {str(self.session.store.path)!r} cannot be read: {error}", hint="restore a backup, or ingest anew"
            ) from error

    def removed(self, after: int, now: int) -> list[int] | None:
        """Numbers of the rows that went after a removal; None if that is not known any more."""
        if now == after:
            return []
        if self.session.rows("SELECT min(number) FROM removed WHERE number > ?", (after,))[0][0] != after + 1:
            return None
        sql = "SELECT seq FROM removed WHERE number > ? AND source = ? AND space = ?"
        return [seq for (seq,) in self.session.rows(sql, (after, self.mirror.source, self.space))]


def _refreshed(base: Generation[S], source: _Source[S], counters: tuple[int, int]) -> Generation[S]:
    seq, removed = counters
    if (base.seq, base.removed) == counters:
        return base
    gone = source.removed(base.removed, removed) if base.parts else []
    if gone is None:
        base, gone = Generation(), []
    parts = _without(base.parts, gone)
    for rows in source.added(base.seq if base.parts else 0):
        segment = source.built(rows)
        parts = _settle([*parts, Part(segment, np.ones(len(rows), np.bool_), len(rows))], source.mirror, source.vocabulary)
    return Generation(seq, removed, tuple(_settle(parts, source.mirror, source.vocabulary)))


def _without(parts: Sequence[Part[S]], gone: Sequence[int]) -> list[Part[S]]:
    if not gone:
        return list(parts)
    numbers = np.sort(np.array(gone, np.int64))
    up_to = -min(int(numbers[0]), 0)
    left = (part.without(numbers, up_to) for part in parts)
    return [part for part in left if part.alive]


def _settle(parts: list[Part[S]], mirror: Mirror[S], vocabulary: Vocabulary) -> list[Part[S]]:
    """Merges what is small with what stands before it, and writes anew what is mostly gone."""
    settled: list[Part[S]] = []
    for part in parts:
        group = [part]
        while settled and settled[-1].alive <= _GROWTH * (alive := sum(p.alive for p in group)):
            if settled[-1].alive + alive > mirror.largest:
                break
            group.insert(0, settled.pop())
        if len(group) > 1 or part.alive < _SPARSE * part.size:
            segment = mirror.merge(group, vocabulary)
            count = len(segment.seqs)
            settled.append(Part(segment, np.ones(count, np.bool_), count))
        else:
            settled.append(part)
    return settled


class Owned(Segment, Protocol):
    """A segment whose rows belong to documents."""

    @property
    def documents(self) -> NDArray[np.int32]:
        """Shape (rows,): numbers of the documents."""
        ...

    @property
    def collections(self) -> NDArray[np.int32]:
        """Shape (rows,): numbers of the collections."""
        ...


Belonging = TypeVar("Belonging", bound=Owned)


def visible(part: Part[Belonging], vocabulary: Vocabulary, filter: SearchFilter | None) -> NDArray[np.bool_]:
    """Which rows of a part are there and may be seen.

    Args:
        part: The part.
        vocabulary: The names in it.
        filter: What may be seen; its metadata is not looked at.
    """
    mask = part.live
    if filter is not None and filter.collections is not None:
        mask = mask & vocabulary.collections.mask(filter.collections)[part.segment.collections]
    if filter is not None and filter.document_ids is not None:
        mask = mask & vocabulary.documents.mask(filter.document_ids)[part.segment.documents]
    return mask


def ranges(column: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Where some values stand in an ascending column.

    Args:
        column: Ascending.
        wanted: The values.

    Returns:
        For every place found the position of its value in ``wanted``, and the place; in order of ``wanted``, then of place.
    """
    wanted = wanted.astype(column.dtype, copy=False)  # else the column would be converted, and it is the longer one
    starts = np.searchsorted(column, wanted, side="left")
    return runs(starts, np.searchsorted(column, wanted, side="right") - starts)


def runs(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The places of several runs, one after the other.

    Args:
        starts: Where each run begins.
        counts: How long it is.

    Returns:
        For every place the position of its run, and the place.
    """
    which = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) - np.repeat(before - starts, counts)
