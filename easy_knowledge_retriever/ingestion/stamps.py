"""What a base says of itself: how often it changed, which model made its vectors, and which vectors are still to be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.types import RelationKey

__all__ = ["EmbeddingStamp", "Stamps", "Unembedded", "generation_of", "put_stamps", "stamps_of"]

_GENERATION: Final = "generation"
_EMBEDDING: Final = "embedding"
_UNEMBEDDED: Final = "unembedded"


@dataclass(frozen=True, slots=True)
class EmbeddingStamp:
    """The model that made the vectors."""

    fingerprint: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Unembedded:
    """Entities and relations whose vector is still to be made: no model could be asked when their text changed."""

    entities: tuple[str, ...] = ()
    relations: tuple[RelationKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Stamps:
    """The stamps of a base."""

    generation: int = 0
    """How many changes were committed: a plan holds only for the generation it was made in."""
    embedding: EmbeddingStamp | None = None
    """None while there are no vectors."""
    unembedded: Unembedded = field(default_factory=Unembedded)
    """The next commit makes up for it."""


async def stamps_of(kb: KnowledgeBase) -> Stamps:
    """The stamps as they are."""
    rows: Mapping[str, Any] = await kb.stamps.get_many([_GENERATION, _EMBEDDING, _UNEMBEDDED])
    embedding, waiting = rows.get(_EMBEDDING), rows.get(_UNEMBEDDED, {})
    return Stamps(
        generation=rows.get(_GENERATION, {}).get("value", 0),
        embedding=EmbeddingStamp(embedding["fingerprint"], embedding["dimension"]) if embedding else None,
        unembedded=Unembedded(
            tuple(waiting.get("entities", ())), tuple(RelationKey(*pair) for pair in waiting.get("relations", ()))
        ),
    )


async def generation_of(kb: KnowledgeBase) -> int:
    """How many changes were committed to this base."""
    return (await stamps_of(kb)).generation


async def put_stamps(kb: KnowledgeBase, before: Stamps, after: Stamps) -> None:
    """Writes what changed of the stamps, inside a transaction."""
    rows: dict[str, Any] = {_GENERATION: {"value": after.generation}}
    if after.embedding is not None and after.embedding != before.embedding:
        rows[_EMBEDDING] = {"fingerprint": after.embedding.fingerprint, "dimension": after.embedding.dimension}
    waiting = after.unembedded
    if waiting.entities or waiting.relations:
        rows[_UNEMBEDDED] = {"entities": list(waiting.entities), "relations": [list(pair) for pair in waiting.relations]}
    elif before.unembedded != waiting:
        await kb.stamps.delete_many([_UNEMBEDDED])
    await kb.stamps.put_many(rows)
