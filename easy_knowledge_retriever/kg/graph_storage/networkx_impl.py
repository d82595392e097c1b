"""The graph in networkx, kept as node-link JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import networkx as nx
import numpy as np

from easy_knowledge_retriever.kg.codecs import decode_entity, decode_relation, encode_entity, encode_relation
from easy_knowledge_retriever.kg.files import FileStorage
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage, Neighbourhood
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["NetworkXStorage"]

ENTITY, CHUNK = "entity", "chunk"
Node: TypeAlias = tuple[str, str]
"""``(ENTITY, key)`` or ``(CHUNK, id)``."""


class NetworkXStorage(FileStorage, GraphStorage):
    """One undirected graph in memory, kept in one file ``graph_<namespace>.json`` in the node-link layout of networkx.

    A node for each entity and each chunk that mentions one. An edge between entities is a relation, one between an
    entity and a chunk a mention; each carries its value as ``value``. GraphML is no storage: networkx writes texts
    into it that it refuses to read. Every flush after a change writes the whole graph: above some thousand entities
    take the SQLite storage.
    """

    kind = "graph"

    async def put_entities(self, entities: Sequence[Entity]) -> None:
        async with self._writing():
            for entity in entities:
                self._graph.add_node((ENTITY, entity.key), value=entity)

    async def put_relations(self, relations: Sequence[Relation]) -> None:
        async with self._writing():
            for relation in relations:
                self._graph.add_edge((ENTITY, relation.key.first), (ENTITY, relation.key.second), value=relation)

    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        async with self._writing():
            for mention in mentions:
                self._graph.add_edge((ENTITY, mention.entity), (CHUNK, mention.chunk_id), value=mention)

    async def delete_entities(self, keys: Sequence[str]) -> None:
        async with self._writing():
            self._remove((ENTITY, key) for key in keys)

    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        async with self._writing():
            for key in keys:
                if self._relation(key):
                    ends = [(ENTITY, end) for end in key]
                    self._graph.remove_edge(*ends)
                    self._prune(ends)

    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        async with self._writing():
            self._remove((CHUNK, chunk_id) for chunk_id in chunk_ids)

    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        self._require_open()
        return {key: entity for key in keys if (entity := self._entity(key)) and self._sees_entity(key, filter)}

    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        self._require_open()
        return {key: relation for key in keys if (relation := self._relation(key))}

    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        self._require_open()
        return {key: found for key in keys if (found := self._relations_at(key, filter))}

    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        found = await self.relations_of(keys, filter)
        return {key: [relation.key for relation in relations[:limit]] for key, relations in found.items()}

    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        self._require_open()
        return {key: found[:limit] for key in keys if (found := self._mentions_at((ENTITY, key), filter))}

    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        self._require_open()
        found = {chunk_id: list(self._mentions((CHUNK, chunk_id))) for chunk_id in chunk_ids}
        return {chunk_id: sorted(edges, key=lambda edge: edge.entity) for chunk_id, edges in found.items() if edges}

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        self._require_open()
        return {key: self._degree(key) for key in keys if self._entity(key)}

    async def visible(self, filter: SearchFilter) -> set[str]:
        return await self._searched(lambda: {key for key in self._keys() if self._sees_entity(key, filter)})

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
        def walk() -> Subgraph:
            given = [(CHUNK, chunk_id) for chunk_id in chunk_ids]
            given += [(ENTITY, key) for key in entity_keys if self._sees_entity(key, filter)]
            kept = dict.fromkeys(list(dict.fromkeys(given))[:max_nodes])
            frontier = list(kept)
            for hop in range(hops):
                found: dict[Node, None] = {}
                for node in frontier:
                    if len(kept) + len(found) >= max_nodes:
                        break
                    around = self._around(node, filter)
                    if hop == 0 or len(around) <= max_degree:
                        found.update(dict.fromkeys(other for other in around if other not in kept))
                frontier = list(found)[: max_nodes - len(kept)]
                kept.update(dict.fromkeys(frontier))
            return self._induced(list(kept), filter)

        return await self._searched(walk)

    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        def collect() -> Neighbourhood:
            if key == "*":
                reached = sorted(self._keys(), key=lambda key: (-self._degree(key), key))
            else:
                reached = self._reached(key, max_depth)
            kept = dict.fromkeys(reached[:max_nodes])
            relations = {relation.key: relation for near in kept for relation in self._relations_at(near, None)}
            return Neighbourhood(
                entities=tuple(entity for key in kept if (entity := self._entity(key))),
                relations=tuple(relation for relation in relations.values() if kept.keys() >= set(relation.key)),
                truncated=len(kept) < len(reached),
            )

        return await self._searched(collect)

    async def labels(self) -> list[str]:
        self._require_open()
        return sorted(entity.name for key in self._keys() if (entity := self._entity(key)))

    async def keys(self) -> list[str]:
        self._require_open()
        return sorted(self._keys())

    async def relation_keys(self) -> list[RelationKey]:
        self._require_open()
        values = (data["value"] for _, _, data in self._graph.edges(data=True))
        return sorted(value.key for value in values if isinstance(value, Relation))

    async def counts(self) -> GraphCounts:
        self._require_open()
        kinds = Counter(type(data["value"]) for _, _, data in self._graph.edges(data=True))
        return GraphCounts(sum(1 for _ in self._keys()), kinds[Relation], kinds[MentionEdge])

    def _keys(self) -> Iterator[str]:
        return (key for (_, key), data in self._graph.nodes(data=True) if "value" in data)

    def _entity(self, key: str) -> Entity | None:
        entity: Entity | None = self._graph.nodes[ENTITY, key].get("value") if (ENTITY, key) in self._graph else None
        return entity

    def _relation(self, key: RelationKey) -> Relation | None:
        value = self._graph.get_edge_data((ENTITY, key.first), (ENTITY, key.second), {}).get("value")
        return value if isinstance(value, Relation) and value.key == key else None

    def _values(self, node: Node) -> Iterator[Relation | MentionEdge]:
        if node in self._graph:
            yield from (edge["value"] for edge in self._graph.adj[node].values())

    def _mentions(self, node: Node) -> Iterator[MentionEdge]:
        return (value for value in self._values(node) if isinstance(value, MentionEdge))

    def _mentions_at(self, node: Node, filter: SearchFilter | None) -> list[MentionEdge]:
        """The visible mentions at an entity or a chunk, heaviest first."""
        seen = [edge for edge in self._mentions(node) if self._sees_edge(edge, filter) and self._entity(edge.entity)]
        return sorted(seen, key=lambda edge: (-edge.weight, edge.chunk_id, edge.entity))

    def _relations_at(self, key: str, filter: SearchFilter | None) -> list[Relation]:
        """The visible relations at an entity, heaviest first."""
        found = (value for value in self._values((ENTITY, key)) if isinstance(value, Relation))
        seen = [relation for relation in found if self._sees_relation(relation, filter)]
        return sorted(seen, key=lambda relation: (-relation.weight, relation.key))

    def _degree(self, key: str) -> int:
        return sum(isinstance(value, Relation) for value in self._values((ENTITY, key)))

    def _sees_entity(self, key: str, filter: SearchFilter | None) -> bool:
        return self._entity(key) is not None and self._admits((ENTITY, key), filter)

    def _sees_relation(self, relation: Relation, filter: SearchFilter | None) -> bool:
        told = filter is None or any(self._admits((CHUNK, chunk_id), filter) for chunk_id in relation.chunk_ids)
        return told and all(self._sees_entity(end, filter) for end in relation.key)

    def _sees_edge(self, value: Relation | MentionEdge, filter: SearchFilter | None) -> bool:
        if isinstance(value, Relation):
            return self._sees_relation(value, filter)
        return filter is None or filter.admits(value.document_id, value.collection)

    def _admits(self, node: Node, filter: SearchFilter | None) -> bool:
        return filter is None or any(self._sees_edge(edge, filter) for edge in self._mentions(node))

    def _around(self, node: Node, filter: SearchFilter | None) -> list[Node]:
        """The nodes one visible edge away: by mentions, then by relations, the heaviest edge first."""
        kind, key = node
        mentions = self._mentions_at(node, filter)
        if kind == CHUNK:
            return [(ENTITY, edge.entity) for edge in mentions]
        relations = self._relations_at(key, filter)
        ends = [relation.key.second if relation.key.first == key else relation.key.first for relation in relations]
        return [(CHUNK, edge.chunk_id) for edge in mentions] + [(ENTITY, end) for end in ends]

    def _induced(self, kept: Sequence[Node], filter: SearchFilter | None) -> Subgraph:
        """The kept nodes and every visible edge between them."""
        nodes = [node for node in kept if node[0] == CHUNK] + [node for node in kept if node[0] == ENTITY]
        number = {node: place for place, node in enumerate(nodes)}
        edges = [
            (place, number[other], data["value"].weight)
            for node, place in number.items()
            if node in self._graph
            for other, data in self._graph.adj[node].items()
            if place <= number.get(other, -1) and self._sees_edge(data["value"], filter)
        ]
        return Subgraph(
            chunk_ids=tuple(key for kind, key in nodes if kind == CHUNK),
            entity_keys=tuple(key for kind, key in nodes if kind == ENTITY),
            first=np.array([first for first, _, _ in edges], dtype=np.int32),
            second=np.array([second for _, second, _ in edges], dtype=np.int32),
            weight=np.array([weight for _, _, weight in edges], dtype=np.float32),
        )

    def _reached(self, key: str, max_depth: int) -> list[str]:
        reached = dict.fromkeys([key] if self._entity(key) else [])
        frontier = list(reached)
        for _ in range(max_depth):
            around = (end for near in frontier for relation in self._relations_at(near, None) for end in relation.key)
            frontier = [end for end in dict.fromkeys(around) if end not in reached]
            reached.update(dict.fromkeys(frontier))
        return list(reached)

    def _remove(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node in self._graph:
                others = list(self._graph.adj[node])
                self._graph.remove_node(node)
                self._prune(others)

    def _prune(self, nodes: Iterable[Node]) -> None:
        """Removes what is neither an entity nor the end of an edge any more."""
        for node in nodes:
            if node in self._graph and not self._graph.adj[node] and "value" not in self._graph.nodes[node]:
                self._graph.remove_node(node)

    def _clear(self) -> None:
        self._graph: nx.Graph[Node] = nx.Graph()

    def _text(self) -> str:
        return json.dumps({"graph": nx.node_link_data(self._graph, edges="edges")}, separators=(",", ":"), default=_encoded)

    def _restore(self, members: Any) -> None:
        graph = nx.node_link_graph(members["graph"], edges="edges")
        for _, data in graph.nodes(data=True):
            if "value" in data:
                data["value"] = decode_entity(data["value"])
        for one, other, data in graph.edges(data=True):
            value = data["value"]
            data["value"] = MentionEdge(**value) if CHUNK in (one[0], other[0]) else decode_relation(value)
        self._graph = graph


def _encoded(value: Entity | Relation | MentionEdge) -> object:
    match value:
        case Entity():
            return encode_entity(value)
        case Relation():
            return encode_relation(value)
        case _:
            return asdict(value)
