"""Port of the knowledge graph: entities, relations, and the edges between entities and the chunks that mention them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["GraphCounts", "GraphStorage", "Neighbourhood"]


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Size of a graph."""

    entities: int
    relations: int
    mentions: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Entities around some others and the relations between them; ``truncated`` if a cap cut it."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    truncated: bool = False


class GraphStorage(Storage):
    """A graph of two kinds of nodes, entities (by key) and chunks (by id), and two kinds of edges, relations and mentions.

    A storage keeps what it is given: merging entities from mentions is not its affair. Where a method takes a filter,
    an entity or relation is visible if at least one of its mentions is in a document the filter admits, and only such
    mentions are returned or walked along.
    """

    @abstractmethod
    async def put_entities(self, entities: Sequence[Entity]) -> None:
        """Writes or overwrites, by key."""

    @abstractmethod
    async def put_relations(self, relations: Sequence[Relation]) -> None:
        """Writes or overwrites, by key. Both ends must exist when the transaction ends; no check is made before."""

    @abstractmethod
    async def put_mentions(self, mentions: Sequence[MentionEdge]) -> None:
        """Writes or overwrites, by entity and chunk."""

    @abstractmethod
    async def delete_entities(self, keys: Sequence[str]) -> None:
        """Deletes what exists of them, with their relations and mentions."""

    @abstractmethod
    async def delete_relations(self, keys: Sequence[RelationKey]) -> None:
        """Deletes what exists of them."""

    @abstractmethod
    async def delete_mentions(self, chunk_ids: Sequence[str]) -> None:
        """Deletes every mention in these chunks."""

    @abstractmethod
    async def entities(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, Entity]:
        """The visible entities that exist, by key, as they were put."""

    @abstractmethod
    async def relations(self, keys: Sequence[RelationKey]) -> dict[RelationKey, Relation]:
        """The relations that exist, by key, as they were put."""

    @abstractmethod
    async def relations_of(self, keys: Sequence[str], filter: SearchFilter | None = None) -> dict[str, list[Relation]]:
        """The relations at each entity, heaviest first, then by key. With a filter, those with a visible chunk."""

    @abstractmethod
    async def relation_keys_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[RelationKey]]:
        """The keys of the relations that :meth:`relations_of` gives, at most ``limit`` an entity."""

    @abstractmethod
    async def mentions_of(
        self, keys: Sequence[str], filter: SearchFilter | None = None, limit: int | None = None
    ) -> dict[str, list[MentionEdge]]:
        """The mentions of each entity, heaviest first, then by chunk id, at most ``limit`` an entity."""

    @abstractmethod
    async def mentions_in(self, chunk_ids: Sequence[str]) -> dict[str, list[MentionEdge]]:
        """The mentions in each chunk, by entity key."""

    @abstractmethod
    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        """Number of relations at each entity that exists."""

    @abstractmethod
    async def visible(self, filter: SearchFilter) -> set[str]:
        """Keys of all entities that the filter lets see."""

    @abstractmethod
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
        """The nodes within ``hops`` edges of the given ones, for a walk. The given nodes that exist come first, in order.

        Breadth first. A node with more than ``max_degree`` visible edges (a name that is everywhere) is kept but not
        expanded, unless it was given. Edges are mentions and relations between kept nodes, each once; a relation's
        weight is that of the relation, a mention's that of the mention.

        Args:
            chunk_ids: Chunks to start from; a chunk without mentions is kept.
            entity_keys: Entities to start from.
            hops: How far, at least 0.
            max_nodes: Nodes at most, the given ones included; the last hop is cut in order of discovery.
            max_degree: See above.
            filter: What may be walked.
        """

    @abstractmethod
    async def neighbourhood(self, key: str, max_depth: int, max_nodes: int) -> Neighbourhood:
        """Entities within ``max_depth`` relations of one, breadth first, or, for ``"*"``, those of highest degree."""

    @abstractmethod
    async def labels(self) -> list[str]:
        """Name of every entity, in order."""

    @abstractmethod
    async def keys(self) -> list[str]:
        """Key of every entity, in order."""

    @abstractmethod
    async def relation_keys(self) -> list[RelationKey]:
        """Key of every relation, in order."""

    @abstractmethod
    async def counts(self) -> GraphCounts:
        """Size of the graph."""
