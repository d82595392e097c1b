"""What a base says of itself: how often it changed, which model made its vectors, and which vectors are still to be made."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.types import FloatVectors, RelationKey

__all__ = ["EmbeddingStamp", "Stamps", "Unembedded", "generation_of", "probes_of", "put_stamps", "stamps_of"]

_GENERATION: Final = "generation"
_EMBEDDING: Final = "embedding"
_PROBES: Final = "probes"
_UNEMBEDDED: Final = "unembedded"


@dataclass(frozen=True, slots=True)
class EmbeddingStamp:
    """The model that made the vectors. They have length 1 and are given in single precision, whatever a storage keeps."""

    fingerprint: str
    dimension: int
    prefixes: tuple[str, str] = ("", "")
    """What it puts before a question and before a document."""
    probes: bytes = field(default=b"", compare=False, repr=False)
    """What it makes of the probe texts, as 32-bit floats, the lowest byte first. Empty where it was not asked, or as read with
    the other stamps: see :func:`probes_of`."""


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
        embedding=_stamp(embedding) if embedding else None,
        unembedded=Unembedded(
            tuple(waiting.get("entities", ())), tuple(RelationKey(*pair) for pair in waiting.get("relations", ()))
        ),
    )


def _stamp(row: Mapping[str, Any]) -> EmbeddingStamp:
    query, document = row.get("prefixes", ("", ""))
    return EmbeddingStamp(row["fingerprint"], row["dimension"], (query, document))


async def probes_of(kb: KnowledgeBase) -> FloatVectors | None:
    """What the model of the base made of the probe texts, one a row; None if it was not asked."""
    row: Mapping[str, Any] | None = (await kb.stamps.get_many([_PROBES])).get(_PROBES)
    if row is None:
        return None
    vectors = np.frombuffer(base64.b64decode(row["vectors"]), "<f4").astype(np.float32)
    return vectors.reshape(-1, row["dimension"])


async def generation_of(kb: KnowledgeBase) -> int:
    """How many changes were committed to this base."""
    return (await stamps_of(kb)).generation


async def put_stamps(kb: KnowledgeBase, before: Stamps, after: Stamps) -> None:
    """Writes what changed of the stamps, inside a transaction."""
    rows: dict[str, Any] = {_GENERATION: {"value": after.generation}}
    model = after.embedding
    if model is not None and (model.probes or model != before.embedding):
        rows[_EMBEDDING] = {
            "fingerprint": model.fingerprint,
            "dimension": model.dimension,
            "prefixes": list(model.prefixes),
            "length": 1,
            "dtype": "float32",
        }
        if model.probes:
            rows[_PROBES] = {"vectors": base64.b64encode(model.probes).decode(), "dimension": model.dimension}
        else:
            await kb.stamps.delete_many([_PROBES])
    waiting = after.unembedded
    if waiting.entities or waiting.relations:
        rows[_UNEMBEDDED] = {"entities": list(waiting.entities), "relations": [list(pair) for pair in waiting.relations]}
    elif before.unembedded != waiting:
        await kb.stamps.delete_many([_UNEMBEDDED])
    await kb.stamps.put_many(rows)
