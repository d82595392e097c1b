"""What of a graph may be seen, and the breadth-first walk through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from easy_knowledge_retriever.kg.postgres.filters import Conditions
from easy_knowledge_retriever.kg.postgres.session import PGSession, Row
from easy_knowledge_retriever.types import SearchFilter, Subgraph

__all__ = ["Seen", "Walk"]


@dataclass(frozen=True, slots=True)
class Seen:
    """Conditions of a query on what a filter lets see. ``$1`` is the space; the filter's parameters follow it."""

    filtered: bool
    conditions: Conditions

    @classmethod
    def by(cls, filter: SearchFilter | None) -> Self:
        """What a filter lets see; None for all."""
        return cls(filter is not None, Conditions.of(filter, 2))

    @property
    def values(self) -> tuple[Sequence[str], ...]:
        """The parameters."""
        return self.conditions.values

    @property
    def after(self) -> int:
        """Number of the first parameter that is free."""
        return self.conditions.after

    def mention(self, table: str) -> str:
        """`` AND …``: this mention is one that may be seen."""
        return self.conditions.on(table)

    def mentioned(self, key: str) -> str:
        """`` AND …``: somebody who may be seen mentions this entity, given as an expression."""
        if not self.filtered:
            return ""
        return f" AND EXISTS (SELECT 1 FROM ekr.mention AS s WHERE s.space = $1 AND s.entity = {key}{self.mention('s')})"

    def entity(self, key: str) -> str:
        """There is this entity, given as an expression, and it may be seen."""
        return f"EXISTS (SELECT 1 FROM ekr.entity AS x WHERE x.space = $1 AND x.key = {key}){self.mentioned(key)}"

    def relation(self, table: str) -> str:
        """This relation and both of its ends may be seen."""
        both = f"{self.entity(f'{table}.first')} AND {self.entity(f'{table}.second')}"
        if not self.filtered:
            return both
        said = f"s.chunk = ANY({table}.chunks){self.mention('s')}"
        return f"{both} AND EXISTS (SELECT 1 FROM ekr.mention AS s WHERE s.space = $1 AND {said})"


Node = tuple[bool, str]
"""Whether it is an entity, and its key or the id of the chunk."""


@dataclass(frozen=True, slots=True)
class _Edge:
    origin: int
    """Position of the node it leads away from in the list asked for."""
    kind: int
    """0 for a mention, 1 for a relation."""
    end: Node
    weight: np.float32

    @property
    def rank(self) -> tuple[int, int, float, str]:
        """In this order edges are walked along."""
        return (self.origin, self.kind, -float(self.weight), self.end[1])


class Walk:
    """A walk through the part of a graph that a filter lets see.

    Args:
        session: The session.
        space: The space of the graph.
        filter: What may be seen; None for all.
        max_nodes: Nodes at most.
        max_degree: A node with more edges than this is not left again, unless it was given.
    """

    def __init__(self, session: PGSession, space: int, filter: SearchFilter | None, max_nodes: int, max_degree: int) -> None:
        self._session = session
        self._space = space
        self._seen = Seen.by(filter)
        self._max_nodes = max_nodes
        self._max_degree = max_degree
        self._kept: dict[Node, None] = {}

    async def begin(self, chunk_ids: Sequence[str], entity_keys: Sequence[str]) -> None:
        """Takes the given nodes that exist, in order."""
        wanted = list(dict.fromkeys(entity_keys))
        sql = (
            f"SELECT e.key FROM ekr.entity AS e WHERE e.space = $1 AND e.key = ANY(${self._seen.after}::text[])"
            f"{self._seen.mentioned('e.key')}"
        )
        rows = await self._rows(sql, wanted) if wanted else []
        there = {key for (key,) in rows}
        self._keep([*((False, chunk) for chunk in chunk_ids), *((True, key) for key in wanted if key in there)])

    async def go(self, hops: int) -> None:
        """Walks on, some hops from the given nodes."""
        frontier = list(self._kept)
        for hop in range(hops):
            if not frontier or len(self._kept) >= self._max_nodes:
                return
            edges = await self._edges(frontier, self._max_degree if hop else None)
            frontier = self._keep(edge.end for edge in sorted(edges, key=lambda edge: edge.rank))

    async def subgraph(self) -> Subgraph:
        """The nodes kept, chunks first, and all edges between them."""
        nodes = sorted(self._kept, key=lambda node: node[0])
        place = {node: number for number, node in enumerate(nodes)}
        chunks, entities = [name for entity, name in nodes if not entity], [name for entity, name in nodes if entity]
        pair = (self._seen.after, self._seen.after + 1)
        mentions = await self._rows(
            f"SELECT m.chunk, m.entity, m.weight FROM ekr.mention AS m WHERE m.space = $1 AND m.chunk = ANY(${pair[0]}::text[])"
            f" AND m.entity = ANY(${pair[1]}::text[]){self._seen.mention('m')}",
            chunks,
            entities,
        )
        relations = await self._rows(
            f"SELECT r.first, r.second, r.weight FROM ekr.relation AS r WHERE r.space = $1 AND r.first = ANY(${pair[0]}::text[])"
            f" AND r.second = ANY(${pair[1]}::text[]) AND {self._seen.relation('r')}",
            entities,
            entities,
        )
        edges = [(place[False, chunk], place[True, entity], weight) for chunk, entity, weight in mentions]
        edges += [(place[True, first], place[True, second], weight) for first, second, weight in relations]
        edges.sort()
        return Subgraph(
            chunk_ids=tuple(chunks),
            entity_keys=tuple(entities),
            first=np.array([first for first, _, _ in edges], np.int32),
            second=np.array([second for _, second, _ in edges], np.int32),
            weight=np.array([weight for _, _, weight in edges], np.float32),
        )

    def _keep(self, nodes: Iterable[Node]) -> list[Node]:
        """Takes the new ones among nodes as far as there is room."""
        room = max(self._max_nodes - len(self._kept), 0)
        fresh = [node for node in dict.fromkeys(nodes) if node not in self._kept][:room]
        self._kept.update(dict.fromkeys(fresh))
        return fresh

    async def _edges(self, nodes: Sequence[Node], most: int | None) -> list[_Edge]:
        """The visible edges away from nodes; none from a node that has more than ``most`` of them."""
        found: list[_Edge] = []
        counts = [0] * len(nodes)
        limit = None if most is None else most + 1
        for sql, kind, from_entity, to_entity in self._directions():
            asked = [place for place, (entity, _) in enumerate(nodes) if entity is from_entity]
            if not asked:
                continue
            rows = await self._rows(sql, asked, [nodes[place][1] for place in asked], limit)
            for place, end, weight in rows:
                counts[place] += 1
                found.append(_Edge(place, kind, (to_entity, end), np.float32(weight)))
        return [edge for edge in found if most is None or counts[edge.origin] <= most]

    def _directions(self) -> list[tuple[str, int, bool, bool]]:
        """Query, kind of edge, and whether it leads from and to an entity. No query gives much more than the limit a node."""
        seen = self._seen
        mention, relation = seen.mention("m"), seen.relation("r")
        return [
            (
                self._each(
                    "m.entity",
                    f"ekr.mention AS m WHERE m.space = $1 AND m.chunk = asked.name AND {seen.entity('m.entity')}{mention}",
                    "m",
                ),
                0,
                False,
                True,
            ),
            (
                self._each("m.chunk", f"ekr.mention AS m WHERE m.space = $1 AND m.entity = asked.name{mention}", "m"),
                0,
                True,
                False,
            ),
            (
                self._each("r.second", f"ekr.relation AS r WHERE r.space = $1 AND r.first = asked.name AND {relation}", "r"),
                1,
                True,
                True,
            ),
            (
                self._each("r.first", f"ekr.relation AS r WHERE r.space = $1 AND r.second = asked.name AND {relation}", "r"),
                1,
                True,
                True,
            ),
        ]

    def _each(self, end: str, rest: str, table: str) -> str:
        first = self._seen.after
        return (
            f"SELECT asked.place, near.name, near.weight FROM unnest(${first}::integer[], ${first + 1}::text[])"
            f" AS asked (place, name), LATERAL (SELECT {end} AS name, {table}.weight FROM {rest} LIMIT ${first + 2}::bigint)"
            " AS near"
        )

    async def _rows(self, sql: str, *values: object) -> list[Row]:
        return await self._session.rows(sql, self._space, *self._seen.values, *values)
