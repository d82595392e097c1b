"""The edges of a graph as arrays in memory, and the breadth-first walk along them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.kg.sqlite.mirror import Generation, Mirror, Part, Segment, Vocabulary, runs, visible
from easy_knowledge_retriever.kg.sqlite.packing import unpack
from easy_knowledge_retriever.kg.sqlite.session import Row, SqliteSession
from easy_knowledge_retriever.types import RelationKey, SearchFilter, Subgraph

__all__ = ["Adjacency"]

Numbers = NDArray[np.int32]
Mask = NDArray[np.bool_]
S = TypeVar("S", bound=Segment)


@dataclass(frozen=True, slots=True)
class _Index:
    """Rows by node: at each node heaviest first, then in order of the name at the other end."""

    nodes: Numbers
    """Shape (nodes,), ascending."""
    starts: NDArray[np.int64]
    """Shape (nodes + 1,): where the rows of each node begin in ``rows``."""
    rows: NDArray[np.intp]
    """Shape (rows,)."""

    @classmethod
    def of(cls, nodes: Numbers, weights: NDArray[np.floating], ranks: Numbers) -> _Index:
        rows = np.lexsort((ranks, -weights, nodes))
        distinct, starts = np.unique(nodes[rows], return_index=True)
        return cls(distinct, np.append(starts, len(rows)), rows)

    def find(self, nodes: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each row at one of the nodes the position of the node in ``nodes``, and the row."""
        found = np.searchsorted(self.nodes, nodes)
        found[found == len(self.nodes)] = 0
        there = np.flatnonzero(self.nodes[found] == nodes)
        starts = self.starts[found[there]]
        counts = self.starts[found[there] + 1] - starts
        which, places = runs(starts, counts)
        return there[which], self.rows[places]


@dataclass(frozen=True, slots=True)
class _Entities:
    seqs: NDArray[np.int64]
    keys: Numbers


@dataclass(frozen=True, slots=True)
class _Mentions:
    seqs: NDArray[np.int64]
    entities: Numbers
    chunks: Numbers
    documents: Numbers
    collections: Numbers
    weights: NDArray[np.float64]
    by_entity: _Index
    by_chunk: _Index


@dataclass(frozen=True, slots=True)
class _Relations:
    seqs: NDArray[np.int64]
    first: Numbers
    second: Numbers
    weights: NDArray[np.float64]
    """Exact, so that the order is that of the rows."""
    chunk_counts: Numbers
    """Shape (rows,): how many of ``chunks`` belong to each row."""
    chunks: Numbers
    by_first: _Index
    by_second: _Index


class _EntityMirror(Mirror[_Entities]):
    source = "entity"
    columns = "key"
    batch = 65536

    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> _Entities:
        seqs, keys = zip(*rows, strict=True)
        return _Entities(np.array(seqs, np.int64), vocabulary.entities.numbers(keys))

    def merge(self, parts: Sequence[Part[_Entities]], vocabulary: Vocabulary) -> _Entities:
        return _Entities(_joined(parts, "seqs"), _joined(parts, "keys"))


class _MentionMirror(Mirror[_Mentions]):
    source = "mention"
    columns = "entity, chunk, document_id, collection, weight"
    batch = 65536

    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> _Mentions:
        seqs, entities, chunks, documents, collections, weights = zip(*rows, strict=True)
        return self._segment(
            np.array(seqs, np.int64),
            vocabulary.entities.numbers(entities),
            vocabulary.chunks.numbers(chunks),
            vocabulary.documents.numbers(documents),
            vocabulary.collections.numbers(collections),
            np.array(weights, np.float64),
            vocabulary,
        )

    def merge(self, parts: Sequence[Part[_Mentions]], vocabulary: Vocabulary) -> _Mentions:
        return self._segment(
            _joined(parts, "seqs"),
            _joined(parts, "entities"),
            _joined(parts, "chunks"),
            _joined(parts, "documents"),
            _joined(parts, "collections"),
            _joined(parts, "weights"),
            vocabulary,
        )

    @staticmethod
    def _segment(
        seqs: NDArray[np.int64],
        entities: Numbers,
        chunks: Numbers,
        documents: Numbers,
        collections: Numbers,
        weights: NDArray[np.float64],
        vocabulary: Vocabulary,
    ) -> _Mentions:
        by_entity = _Index.of(entities, weights, vocabulary.chunks.ranks()[chunks])
        by_chunk = _Index.of(chunks, weights, vocabulary.entities.ranks()[entities])
        return _Mentions(seqs, entities, chunks, documents, collections, weights, by_entity, by_chunk)


class _RelationMirror(Mirror[_Relations]):
    source = "relation"
    columns = "first, second, weight, chunks"
    batch = 65536

    def build(self, rows: Sequence[Row], vocabulary: Vocabulary) -> _Relations:
        seqs, first, second, weights, chunk_ids = zip(*rows, strict=True)
        chunks: list[list[str]] = json.loads(f"[{','.join(map(unpack, chunk_ids))}]")
        return self._segment(
            np.array(seqs, np.int64),
            vocabulary.entities.numbers(first),
            vocabulary.entities.numbers(second),
            np.array(weights, np.float64),
            np.array([len(ids) for ids in chunks], np.int32),
            vocabulary.chunks.numbers(list(chain.from_iterable(chunks))),
            vocabulary,
        )

    def merge(self, parts: Sequence[Part[_Relations]], vocabulary: Vocabulary) -> _Relations:
        return self._segment(
            _joined(parts, "seqs"),
            _joined(parts, "first"),
            _joined(parts, "second"),
            _joined(parts, "weights"),
            _joined(parts, "chunk_counts"),
            np.concatenate([p.segment.chunks[np.repeat(p.live, p.segment.chunk_counts)] for p in parts]),
            vocabulary,
        )

    @staticmethod
    def _segment(
        seqs: NDArray[np.int64],
        first: Numbers,
        second: Numbers,
        weights: NDArray[np.float64],
        chunk_counts: Numbers,
        chunks: Numbers,
        vocabulary: Vocabulary,
    ) -> _Relations:
        ranks = vocabulary.entities.ranks()
        by_first, by_second = _Index.of(first, weights, ranks[second]), _Index.of(second, weights, ranks[first])
        return _Relations(seqs, first, second, weights, chunk_counts, chunks, by_first, by_second)


def _joined(
    parts: Sequence[Part[_Entities]] | Sequence[Part[_Mentions]] | Sequence[Part[_Relations]], column: str
) -> NDArray[Any]:
    return np.concatenate([getattr(part.segment, column)[part.live] for part in parts])


_ENTITIES, _MENTIONS, _RELATIONS = _EntityMirror(), _MentionMirror(), _RelationMirror()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a graph at one moment."""

    entities: Generation[_Entities]
    mentions: Generation[_Mentions]
    relations: Generation[_Relations]

    def same(self, other: _Rows) -> bool:
        """Whether these are the very same rows."""
        return self.entities is other.entities and self.mentions is other.mentions and self.relations is other.relations


def _heaviest(
    found: tuple[NDArray[np.intp], NDArray[np.intp]], mask: Mask, limit: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of what an index found the first rows of each node that can be seen."""
    which, rows = found
    seen = mask[rows]
    which, rows = which[seen], rows[seen]
    if limit is not None and len(which):
        _, starts, node = np.unique(which, return_index=True, return_inverse=True)
        first = np.arange(len(which)) - starts[node] < limit
        which, rows = which[first], rows[first]
    return which, rows


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges away from some nodes, as parallel arrays."""

    origin: NDArray[np.intp]
    """Position of the node in the list asked for."""
    ends: NDArray[np.int64]
    """The node at the other end."""
    weights: NDArray[np.float32]
    kinds: NDArray[np.int64]
    """0 for a mention, 1 for a relation."""

    @classmethod
    def none(cls) -> _Edges:
        """No edges."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros(0, np.float32), np.zeros(0, np.int64))

    @classmethod
    def at(
        cls,
        asked: NDArray[np.intp],
        found: tuple[NDArray[np.intp], NDArray[np.intp]],
        mask: Mask,
        ends: Numbers,
        weights: NDArray[np.floating],
        *,
        base: int = 0,
        kind: int = 0,
    ) -> _Edges:
        """Edges that an index found.

        Args:
            asked: Positions of the nodes the index was asked for.
            found: Its answer.
            mask: Which rows can be seen.
            ends: The other end of each row.
            weights: The weight of each row.
            base: To be added to the ends.
            kind: See ``kinds``.
        """
        which, rows = found
        seen = mask[rows]
        which, rows = which[seen], rows[seen]
        weights = weights[rows].astype(np.float32, copy=False)
        return cls(asked[which], ends[rows].astype(np.int64) + base, weights, np.full(len(rows), kind))

    @classmethod
    def joined(cls, several: Sequence[_Edges]) -> _Edges:
        return cls(
            np.concatenate([edges.origin for edges in several]),
            np.concatenate([edges.ends for edges in several]),
            np.concatenate([edges.weights for edges in several]),
            np.concatenate([edges.kinds for edges in several]),
        )

    def where(self, mask: Mask) -> _Edges:
        return _Edges(self.origin[mask], self.ends[mask], self.weights[mask], self.kinds[mask])


class Adjacency:
    """The part of a graph that a filter lets see, as a session sees it.

    Nodes are numbers: entities first, then chunks, then chunks that the graph does not know.

    Args:
        rows: The rows as the session sees them.
        names: What their numbers stand for.
        filter: What may be seen; None for all.
    """

    def __init__(self, rows: _Rows, names: Vocabulary, filter: SearchFilter | None) -> None:
        self.rows = rows
        self._mentions, self._relations = rows.mentions.parts, rows.relations.parts
        self._names = names
        self._chunk_base = len(names.entities)
        self._known = self._chunk_base + len(names.chunks)
        self._seen = np.zeros(self._chunk_base, np.bool_)
        for part in rows.entities.parts:
            self._seen[part.segment.keys[part.live]] = True
        self._mention_masks = [visible(part, names, filter) for part in self._mentions]
        chunks = self._look_through() if filter is not None else None
        self._mention_masks = [
            mask & self._seen[part.segment.entities] for part, mask in zip(self._mentions, self._mention_masks, strict=True)
        ]
        self._relation_masks = [self._walkable(part, chunks) for part in self._relations]

    @classmethod
    def of(cls, session: SqliteSession, space: int, filter: SearchFilter | None) -> Adjacency:
        """The graph of a space as a session sees it. What has no filter is made once for all sessions that see the same rows.

        Args:
            session: The session.
            space: The space of the graph.
            filter: What may be seen; None for all.
        """
        mirrors = session.store.mirrors
        rows = _Rows(
            mirrors.generation(session, _ENTITIES, space),
            mirrors.generation(session, _MENTIONS, space),
            mirrors.generation(session, _RELATIONS, space),
        )
        if filter is not None or session.writable:
            return cls(rows, mirrors.vocabulary(space), filter)
        known = mirrors.derived.get(space)
        if isinstance(known, cls) and known.rows.same(rows):
            return known
        mirrors.derived[space] = made = cls(rows, mirrors.vocabulary(space), None)
        return made

    def visible_entities(self) -> set[str]:
        """Keys of the entities that can be seen."""
        texts = self._names.entities.texts
        return {texts[number] for number in np.flatnonzero(self._seen).tolist()}

    def relation_keys(self, entity_keys: Sequence[str], limit: int | None) -> dict[str, list[RelationKey]]:
        """See ``GraphStorage.relation_keys_of``."""
        numbers = self._there(entity_keys)
        nodes, text = np.array(list(numbers.values()), np.int32), self._names.entities.texts.__getitem__
        found: dict[int, list[tuple[float, str, str]]] = {}
        for part, mask in zip(self._relations, self._relation_masks, strict=True):
            segment = part.segment
            for index in (segment.by_first, segment.by_second):
                which, rows = _heaviest(index.find(nodes), mask, limit)
                columns = (segment.weights[rows], segment.first[rows], segment.second[rows])
                for node, weight, first, second in zip(which.tolist(), *(c.tolist() for c in columns), strict=True):
                    found.setdefault(node, []).append((-weight, text(first), text(second)))
        return {
            key: [RelationKey(first, second) for _, first, second in sorted(set(found[node]))[:limit]]
            for node, key in enumerate(numbers)
            if node in found
        }

    def visible(self, entity_keys: Iterable[str]) -> list[str]:
        """Those of some entities that can be seen."""
        return list(self._there(entity_keys))

    def mention_rows(self, entity_keys: Iterable[str]) -> list[int]:
        """Rows of all mentions of entities, whether or not there is such an entity."""
        nodes = np.array([self._names.entities.find(key) for key in dict.fromkeys(entity_keys)], np.int32)
        found: list[int] = []
        for part in self._mentions:
            _, rows = part.segment.by_entity.find(nodes)
            found += part.segment.seqs[rows[part.live[rows]]].tolist()
        return found

    def mentions(self, entity_keys: Sequence[str], limit: int | None) -> dict[str, list[int]]:
        """Rows of the heaviest visible mentions of each entity, those of one weight in order of chunk."""
        numbers, texts = self._there(entity_keys), self._names.chunks.texts
        nodes = np.array(list(numbers.values()), np.int32)
        found: dict[int, list[tuple[float, str, int]]] = {}
        for part, mask in zip(self._mentions, self._mention_masks, strict=True):
            segment = part.segment
            which, rows = _heaviest(segment.by_entity.find(nodes), mask, limit)
            columns = (segment.weights[rows], segment.chunks[rows], segment.seqs[rows])
            for node, weight, chunk, seq in zip(which.tolist(), *(column.tolist() for column in columns), strict=True):
                found.setdefault(node, []).append((-weight, texts[chunk], seq))
        return {key: [seq for *_, seq in sorted(found[node])[:limit]] for node, key in enumerate(numbers) if node in found}

    def walk(
        self, chunk_ids: Sequence[str], entity_keys: Sequence[str], *, hops: int, max_nodes: int, max_degree: int
    ) -> Subgraph:
        """See ``GraphStorage.subgraph``."""
        # A chunk of a later moment has a number too, but not here.
        known = range(self._known - self._chunk_base)
        strangers = [chunk for chunk in dict.fromkeys(chunk_ids) if self._names.chunks.find(chunk) not in known]
        given = self._given(chunk_ids, entity_keys, strangers)[:max_nodes]
        place = np.full(self._known + len(strangers), -1, np.int64)
        place[given] = np.arange(len(given))
        kept = [given]
        frontier = given
        for hop in range(hops):
            room = max_nodes - sum(map(len, kept))
            if not room or not len(frontier):
                break
            edges = self._edges(frontier)
            if hop:
                degrees = np.bincount(edges.origin, minlength=len(frontier))
                edges = edges.where(degrees[edges.origin] <= max_degree)
            frontier = self._discovered(edges.where(place[edges.ends] < 0))[:room]
            place[frontier] = max_nodes  # found; which place it has does not matter yet
            kept.append(frontier)
        return self._subgraph(np.concatenate(kept), place, strangers)

    def _look_through(self) -> Mask:
        """Narrows what can be seen to what has a visible mention; gives the chunks that have one."""
        mentioned, chunks = np.zeros_like(self._seen), np.zeros(len(self._names.chunks), np.bool_)
        for part, mask in zip(self._mentions, self._mention_masks, strict=True):
            mentioned[part.segment.entities[mask]] = True
            chunks[part.segment.chunks[mask]] = True
        self._seen &= mentioned
        return chunks

    def _walkable(self, part: Part[_Relations], chunks: Mask | None) -> Mask:
        segment = part.segment
        mask = part.live & self._seen[segment.first] & self._seen[segment.second]
        if chunks is not None:
            rows = np.repeat(np.arange(part.size), segment.chunk_counts)
            mask &= np.bincount(rows, chunks[segment.chunks], part.size) > 0
        return mask

    def _given(self, chunk_ids: Sequence[str], entity_keys: Sequence[str], strangers: Sequence[str]) -> NDArray[np.int64]:
        unknown = {chunk: self._known + number for number, chunk in enumerate(strangers)}
        nodes = [unknown.get(chunk, self._chunk_base + self._names.chunks.find(chunk)) for chunk in dict.fromkeys(chunk_ids)]
        return np.array([*nodes, *self._there(entity_keys).values()], np.int64)

    def _there(self, entity_keys: Iterable[str]) -> dict[str, int]:
        """The numbers of the entities that can be seen, in the order given."""
        numbers = {key: self._names.entities.find(key) for key in entity_keys}
        return {key: number for key, number in numbers.items() if 0 <= number < self._chunk_base and self._seen[number]}

    def _edges(self, nodes: NDArray[np.int64], *, once: bool = False) -> _Edges:
        """The visible edges away from nodes; with ``once``, only mentions from their chunk and relations from their first end."""
        base = self._chunk_base
        entities, chunks = np.flatnonzero(nodes < base), np.flatnonzero((nodes >= base) & (nodes < self._known))
        keys, ids = nodes[entities].astype(np.int32), (nodes[chunks] - base).astype(np.int32)
        found = [_Edges.none()]
        for part, mask in zip(self._mentions, self._mention_masks, strict=True):
            s = part.segment
            found.append(_Edges.at(chunks, s.by_chunk.find(ids), mask, s.entities, s.weights))
            if not once:
                found.append(_Edges.at(entities, s.by_entity.find(keys), mask, s.chunks, s.weights, base=base))
        for relation_part, mask in zip(self._relations, self._relation_masks, strict=True):
            r = relation_part.segment
            found.append(_Edges.at(entities, r.by_first.find(keys), mask, r.second, r.weights, kind=1))
            if not once:
                found.append(_Edges.at(entities, r.by_second.find(keys), mask, r.first, r.weights, kind=1))
        return _Edges.joined(found)

    def _discovered(self, edges: _Edges) -> NDArray[np.int64]:
        """The ends of edges, each once, in order of discovery."""
        ranks = np.concatenate((self._names.entities.ranks()[: self._chunk_base], self._names.chunks.ranks()))
        order = np.lexsort((ranks[edges.ends], -edges.weights, 2 * edges.origin + edges.kinds))
        ends = edges.ends[order]
        _, first = np.unique(ends, return_index=True)
        return ends[np.sort(first)]

    def _subgraph(self, kept: NDArray[np.int64], place: NDArray[np.int64], strangers: Sequence[str]) -> Subgraph:
        base, chunk_texts = self._chunk_base, self._names.chunks.texts
        chunks, entities = kept[kept >= base], kept[kept < base]
        place[chunks], place[entities] = np.arange(len(chunks)), np.arange(len(entities)) + len(chunks)
        edges = self._edges(np.concatenate((chunks, entities)), once=True)
        edges = edges.where(place[edges.ends] >= 0)
        ends = place[edges.ends]
        order = np.argsort(edges.origin * len(kept) + ends)
        known = chunks[chunks < self._known] - base
        names = dict(zip(known.tolist(), map(chunk_texts.__getitem__, known.tolist()), strict=True))
        names |= dict(enumerate(strangers, self._known - base))
        return Subgraph(
            chunk_ids=tuple(names[number] for number in (chunks - base).tolist()),
            entity_keys=tuple(map(self._names.entities.texts.__getitem__, entities.tolist())),
            first=edges.origin[order].astype(np.int32),
            second=ends[order].astype(np.int32),
            weight=edges.weights[order],
        )
