"""The graph in networkx, kept as node-link JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from easy_knowledge_retriever.kg.files.graph import (
    CHUNK,
    ENTITY,
    MENTION,
    RELATION,
    Edge,
    GraphTable,
    GraphView,
    Node,
    Value,
    key_of,
)
from easy_knowledge_retriever.kg.files.storage import FileStorage
from easy_knowledge_retriever.kg.files.table import Key, View
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["NetworkXStorage"]

T = TypeVar("T")


class NetworkXStorage(FileStorage[Value], GraphStorage):
    """One undirected graph in memory; on disk in the journal and, in node-link layout, in ``graph_<namespace>.<number>.json``.

    A node for each entity and each chunk that mentions one. An edge between entities is a relation, one between an
    entity and a chunk a mention; each carries its value as ``value``. GraphML is no storage: networkx writes texts
    into it that it refuses to read.
    """

    rows = GraphTable

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        await self._put(entities)

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        await self._put(relations)

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        await self._put(mentions)

    async def delete_entities(self, keys: Sequence[str]) -> None:
        def gone(view: View[Value]) -> dict[Key, Value | None]:
            graph = GraphView(view)
            known = [key for key in keys if graph.entity(key)]
            edges = (key_of(edge) for key in keys for edge in graph.edges_at((ENTITY, key)))
            return dict.fromkeys([*((ENTITY, key) for key in known), *edges])

        await self._change(gone)

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        await self._change(lambda view: {(RELATION, *key): None for key in keys if GraphView(view).relation(key)})

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        def gone(view: View[Value]) -> dict[Key, Value | None]:
            graph = GraphView(view)
            return {key_of(edge): None for chunk_id in chunk_ids for edge in graph.edges_at((CHUNK, chunk_id))}

        await self._change(gone)

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        return await self._seen(
            filter, lambda seen: {key: entity for key in keys if seen.sees_entity(key) and (entity := seen.graph.entity(key))}
        )

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        return await self._seen(None, lambda seen: {key: relation for key in keys if (relation := seen.graph.relation(key))})

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        return await self._seen(filter, lambda seen: {key: found for key in keys if (found := seen.relations_at(key))})

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        found = await self.relations_of(keys, filter)
        return {key: [relation.key for relation in relations[:limit]] for key, relations in found.items()}

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        return await self._seen(
            filter, lambda seen: {key: found[:limit] for key in keys if (found := seen.mentions_at((ENTITY, key)))}
        )

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        def found(seen: _Seen) -> dict[str, list[MentionEdge]]:
            edges = {chunk_id: _mentions(seen.graph, (CHUNK, chunk_id)) for chunk_id in chunk_ids}
            return {chunk_id: sorted(at, key=lambda edge: edge.entity) for chunk_id, at in edges.items() if at}

        return await self._seen(None, found)

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        return await self._seen(None, lambda seen: {key: seen.degree(key) for key in keys if seen.graph.entity(key)})

    async def visible(self, filter: SearchFilter) -> set[str]:
        return await self._seen(filter, lambda seen: {key for key in seen.keys() if seen.sees_entity(key)})

    async def subgraph(
        self,
        chunk_ids: Sequence[str],
        entity_keys: Sequence[str],
        *,
        hops: int,
        max_nodes: int,
        max_degree: int,
        filter: SearchFilter | None = None,
    ) -> Subgraph:
        def walk(seen: _Seen) -> Subgraph:
            given = [(CHUNK, chunk_id) for chunk_id in chunk_ids]
            given += [(ENTITY, key) for key in entity_keys if seen.sees_entity(key)]
            kept = dict.fromkeys(list(dict.fromkeys(given))[:max_nodes])
            frontier = list(kept)
            for hop in range(hops):
                found: dict[Node, None] = {}
                for node in frontier:
                    if len(kept) + len(found) >= max_nodes:
                        break
                    around = seen.around(node)
                    if hop == 0 or len(around) <= max_degree:
                        found.update(dict.fromkeys(other for other in around if other not in kept))
                frontier = list(found)[: max_nodes - len(kept)]
                kept.update(dict.fromkeys(frontier))
            return seen.induced(list(kept))

        return await self._seen(filter, walk)

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        def collect(seen: _Seen) -> Neighbourhood:
            if key == "*":
                reached = sorted(seen.keys(), key=lambda key: (-seen.degree(key), key))
            else:
                reached = seen.reached(key, max_depth)
            kept = dict.fromkeys(reached[:max_nodes])
            relations = {relation.key: relation for near in kept for relation in seen.relations_at(near)}
            return Neighbourhood(
                entities=tuple(entity for key in kept if (entity := seen.graph.entity(key))),
                relations=tuple(relation for relation in relations.values() if kept.keys() >= set(relation.key)),
                truncated=len(kept) < len(reached),
            )

        return await self._seen(None, collect)

    async def labels(self) -> list[str]:
        return await self._seen(
            None, lambda seen: sorted(entity.name for key in seen.keys() if (entity := seen.graph.entity(key)))
        )

    async def keys(self) -> list[str]:
        return await self._seen(None, lambda seen: sorted(seen.keys()))

    async def relation_keys(self) -> list[RelationKey]:
        return await self._seen(None, lambda seen: sorted(RelationKey(*key[1:]) for key in seen.graph.keys(RELATION)))

    async def counts(self) -> GraphCounts:
        return await self._seen(None, lambda seen: GraphCounts(*(seen.graph.count(kind) for kind in (ENTITY, RELATION, MENTION))))

    async def _put(self, values: Iterable[Value]) -> None:
        fresh: dict[Key, Value | None] = {key_of(value): value for value in values}
        await self._change(lambda _: fresh)

    async def _seen(self, filter: SearchFilter | None, work: Callable[[_Seen], T]) -> T:
        return await self._search(lambda view: work(_Seen(GraphView(view), filter)))


class _Seen:
    """The part of a graph that a filter lets see.

    Args:
        graph: All of it.
        filter: Which documents may be seen; all if None.
    """

    def __init__(self, graph: GraphView, filter: SearchFilter | None) -> None:
        self.graph = graph
        self._filter = filter

    def keys(self) -> list[str]:
        """Of all entities, seen or not."""
        return [key[1] for key in self.graph.keys(ENTITY)]

    def sees_entity(self, key: str) -> bool:
        return self.graph.entity(key) is not None and self._admits((ENTITY, key))

    def degree(self, key: str) -> int:
        """Number of relations at an entity, seen or not."""
        return sum(isinstance(edge, Relation) for edge in self.graph.edges_at((ENTITY, key)))

    def mentions_at(self, node: Node) -> list[MentionEdge]:
        """At an entity or a chunk, heaviest first."""
        seen = [edge for edge in _mentions(self.graph, node) if self._sees_edge(edge) and self.graph.entity(edge.entity)]
        return sorted(seen, key=lambda edge: (-edge.weight, edge.chunk_id, edge.entity))

    def relations_at(self, key: str) -> list[Relation]:
        """At an entity, heaviest first."""
        found = (edge for edge in self.graph.edges_at((ENTITY, key)) if isinstance(edge, Relation))
        seen = [relation for relation in found if self._sees_relation(relation)]
        return sorted(seen, key=lambda relation: (-relation.weight, relation.key))

    def around(self, node: Node) -> list[Node]:
        """The nodes one edge away: by mentions, then by relations, the heaviest edge first."""
        kind, key = node
        mentions = self.mentions_at(node)
        if kind == CHUNK:
            return [(ENTITY, edge.entity) for edge in mentions]
        relations = self.relations_at(key)
        ends = [relation.key.second if relation.key.first == key else relation.key.first for relation in relations]
        return [(CHUNK, edge.chunk_id) for edge in mentions] + [(ENTITY, end) for end in ends]

    def induced(self, kept: Sequence[Node]) -> Subgraph:
        """The kept nodes and every edge between them."""
        nodes = [node for node in kept if node[0] == CHUNK] + [node for node in kept if node[0] == ENTITY]
        number = {node: place for place, node in enumerate(nodes)}
        edges = sorted(
            (place, number[other], edge.weight)
            for node, place in number.items()
            for edge in self.graph.edges_at(node)
            if place <= number.get(other := _beyond(edge, node), -1) and self._sees_edge(edge)
        )
        return Subgraph(
            chunk_ids=tuple(key for kind, key in nodes if kind == CHUNK),
            entity_keys=tuple(key for kind, key in nodes if kind == ENTITY),
            first=np.array([first for first, _, _ in edges], dtype=np.int32),
            second=np.array([second for _, second, _ in edges], dtype=np.int32),
            weight=np.array([weight for _, _, weight in edges], dtype=np.float32),
        )

    def reached(self, key: str, max_depth: int) -> list[str]:
        """The entities within so many relations of one, breadth first."""
        reached = dict.fromkeys([key] if self.graph.entity(key) else [])
        frontier = list(reached)
        for _ in range(max_depth):
            around = (end for near in frontier for relation in self.relations_at(near) for end in relation.key)
            frontier = [end for end in dict.fromkeys(around) if end not in reached]
            reached.update(dict.fromkeys(frontier))
        return list(reached)

    def _sees_relation(self, relation: Relation) -> bool:
        told = self._filter is None or any(self._admits((CHUNK, chunk_id)) for chunk_id in relation.chunk_ids)
        return told and all(self.sees_entity(end) for end in relation.key)

    def _sees_edge(self, edge: Edge) -> bool:
        if isinstance(edge, Relation):
            return self._sees_relation(edge)
        return self._filter is None or self._filter.admits(edge.document_id, edge.collection)

    def _admits(self, node: Node) -> bool:
        return self._filter is None or any(self._sees_edge(edge) for edge in _mentions(self.graph, node))


def _mentions(graph: GraphView, node: Node) -> list[MentionEdge]:
    return [edge for edge in graph.edges_at(node) if isinstance(edge, MentionEdge)]


def _beyond(edge: Edge, node: Node) -> Node:
    """The other end of an edge."""
    if isinstance(edge, MentionEdge):
        return (CHUNK, edge.chunk_id) if node[0] == ENTITY else (ENTITY, edge.entity)
    return ENTITY, edge.key.second if edge.key.first == node[1] else edge.key.first
