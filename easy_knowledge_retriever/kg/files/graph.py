"""A table of entities, relations and mentions that is a graph of networkx, and the graph a view shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

import networkx as nx

from easy_knowledge_retriever.kg.codecs import decode_entity, decode_relation, encode_entity, encode_relation
from easy_knowledge_retriever.kg.files.table import Changes, Json, Key, Table, View
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey

__all__ = ["CHUNK", "ENTITY", "MENTION", "RELATION", "Edge", "GraphTable", "GraphView", "Node", "Value", "key_of"]

ENTITY, CHUNK = "entity", "chunk"
RELATION, MENTION = "relation", "mention"
Node: TypeAlias = tuple[str, str]
"""``(ENTITY, key)`` or ``(CHUNK, id)``."""
Edge: TypeAlias = Relation | MentionEdge
Value: TypeAlias = Entity | Relation | MentionEdge


def key_of(value: Value) -> Key:
    """The key of a row: its kind and what it is about."""
    match value:
        case Entity():
            return ENTITY, value.key
        case Relation():
            return RELATION, value.key.first, value.key.second
        case MentionEdge():
            return MENTION, value.entity, value.chunk_id


class GraphTable(Table[Value]):
    """A node for each entity and each chunk that mentions one; an edge is a relation or a mention. Each carries its ``value``."""

    kind = "graph"

    def __init__(self) -> None:
        super().__init__()
        self._graph: nx.Graph[Node] = nx.Graph()
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def count(self, kind: str) -> int:
        """Number of rows of a kind."""
        return self._counts[kind]

    def keys(self) -> Iterator[Key]:
        return (key_of(value) for value in self._values())

    def get(self, key: Key) -> Value | None:
        kind, first = key[0], (ENTITY, key[1])
        if kind == ENTITY:
            entity: Value | None = self._graph.nodes[first].get("value") if first in self._graph else None
            return entity
        value: Value | None = self._graph.get_edge_data(first, _other_end(key), {}).get("value")
        return value if value is not None and key_of(value) == key else None

    def apply(self, changes: Changes[Value]) -> None:
        for key, value in changes.items():
            kind, first = key[0], (ENTITY, key[1])
            self._counts[kind] += (value is not None) - (self.get(key) is not None)
            if kind == ENTITY and value is not None:
                self._graph.add_node(first, value=value)
            elif kind == ENTITY:
                if first in self._graph:
                    self._graph.nodes[first].pop("value", None)
                self._prune([first])
            elif value is not None:
                self._graph.add_edge(first, _other_end(key), value=value)
            elif self.get(key) is not None:
                self._graph.remove_edge(first, _other_end(key))
                self._prune([first, _other_end(key)])

    def encode(self, row: Value) -> str:
        return json.dumps(_encoded(row), separators=(",", ":"))

    def decode(self, key: Key, data: Json) -> Value:
        return _decoded(key[0], data)

    def places(self, key: Key) -> tuple[Node, ...]:
        return () if key[0] == ENTITY else ((ENTITY, key[1]), _other_end(key))

    def edges_at(self, node: Node) -> list[Edge]:
        """The values of the edges at a node."""
        return [data["value"] for data in self._graph.adj[node].values()] if node in self._graph else []

    def members(self) -> Iterator[str]:
        # The node-link layout of networkx, a row at a time.
        yield '"graph":{"directed":false,"multigraph":false,"graph":{},"nodes":['
        for number, node in enumerate(self._graph):
            data = self._graph.nodes[node]
            value = {"value": _encoded(data["value"])} if "value" in data else {}
            yield ("," if number else "") + json.dumps({**value, "id": node}, separators=(",", ":"))
        yield '],"edges":['
        for number, (source, target) in enumerate(self._graph.edges):
            edge = {"value": _encoded(self._graph.edges[source, target]["value"]), "source": source, "target": target}
            yield ("," if number else "") + json.dumps(edge, separators=(",", ":"))
        yield "]}"

    def restore(self, body: bytes) -> Json:
        members = json.loads(body)
        graph = nx.node_link_graph(members.pop("graph"), edges="edges")
        for _, data in graph.nodes(data=True):
            if "value" in data:
                data["value"] = decode_entity(data["value"])
        for one, other, data in graph.edges(data=True):
            data["value"] = _decoded(MENTION if CHUNK in (one[0], other[0]) else RELATION, data["value"])
        self._graph = graph
        self._counts = Counter(key_of(value)[0] for value in self._values())
        return members

    def _values(self) -> Iterator[Value]:
        yield from (data["value"] for _, data in self._graph.nodes(data=True) if "value" in data)
        yield from (data["value"] for _, _, data in self._graph.edges(data=True))

    def _prune(self, nodes: Iterable[Node]) -> None:
        """Removes what is neither an entity nor the end of an edge any more."""
        for node in nodes:
            if node in self._graph and not self._graph.adj[node] and "value" not in self._graph.nodes[node]:
                self._graph.remove_node(node)


class GraphView:
    """The graph as a view has it.

    Args:
        view: Of a :class:`GraphTable`.
    """

    def __init__(self, view: View[Value]) -> None:
        self._view = view

    def entity(self, key: str) -> Entity | None:
        """The entity, if there is one."""
        value = self._view.get((ENTITY, key))
        return value if isinstance(value, Entity) else None

    def relation(self, key: RelationKey) -> Relation | None:
        """The relation, if there is one."""
        value = self._view.get((RELATION, key.first, key.second))
        return value if isinstance(value, Relation) else None

    def edges_at(self, node: Node) -> list[Edge]:
        """The edges at an entity or a chunk."""
        table, changes = self._view.table, self._view.changes
        found = table.edges_at(node) if isinstance(table, GraphTable) else []
        if changes:
            found = [edge for edge in found if key_of(edge) not in changes]
            fresh = (changes[key] for key in self._view.changed_at(node))
            found += [value for value in fresh if isinstance(value, Relation | MentionEdge)]
        return found

    def keys(self, kind: str) -> Iterator[Key]:
        """The keys of all rows of a kind."""
        return (key for key in self._view.keys() if key[0] == kind)

    def count(self, kind: str) -> int:
        """Number of rows of a kind."""
        table, changes = self._view.table, self._view.changes
        known = table.count(kind) if isinstance(table, GraphTable) else 0
        return known + sum((row is not None) - (table.get(key) is not None) for key, row in changes.items() if key[0] == kind)


def _other_end(key: Key) -> Node:
    return CHUNK if key[0] == MENTION else ENTITY, key[2]


def _encoded(value: Value) -> Any:
    match value:
        case Entity():
            return encode_entity(value)
        case Relation():
            return encode_relation(value)
        case MentionEdge():
            return asdict(value)


def _decoded(kind: str, data: Json) -> Value:
    if kind == MENTION:
        return MentionEdge(**data)
    return decode_entity(data) if kind == ENTITY else decode_relation(data)
