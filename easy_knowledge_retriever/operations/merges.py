"""What was merged and why, and what might be: read from a base, for a user to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from easy_knowledge_retriever.errors import NotFound
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.name_rows import read_names
from easy_knowledge_retriever.operations.naming import kind_of
from easy_knowledge_retriever.operations.resolution import Names
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import Entity, Expansion, FloatVector, Merge, MergeSuggestion

__all__ = ["entity_of", "merges_in", "suggested_merges"]

_SHORTEST_SHARED: Final = 3
"""Letters of a word that makes two names kin."""
_CROWD: Final = 60
"""Names that share a word at most; a word of more tells nothing."""


async def entity_of(kb: KnowledgeBase, name: str) -> str:
    """The key of the entity that a name stands for first, whether it exists or not."""
    key = entity_key(name)
    return (await read_names(kb, [key])).fold(key).key


async def merges_in(kb: KnowledgeBase, name: str | None = None) -> tuple[Merge, ...]:
    """The names that are folded into another one, in order of the entity.

    Args:
        kb: The base; give a snapshot.
        name: One of the names of an entity; every entity if None.

    Raises:
        NotFound: No document uses the name.
    """
    if name is None:
        names = Names(dict([row async for row in kb.names.scan()]))
    else:
        names = await _names_around(kb, name)
    folded = {key: names.fold(key) for key in sorted(names.keys()) if names.row(key).documents}
    wanted = None if name is None else names.fold(entity_key(name)).key
    found = {key: fold for key, fold in folded.items() if fold.kind and fold.key != key and wanted in (None, fold.key)}
    entities = await kb.graph.entities(sorted({fold.key for fold in found.values()}))
    stated = await _stated(kb, sorted({fold.key for fold in found.values() if fold.kind == "acronym"}), names)
    merges = []
    for key, fold in found.items():
        entity = entities[fold.key]
        expansion = stated.get((names.head(key), fold.key)) if fold.kind == "acronym" else None
        chunk_id = expansion.chunk_id if expansion else ""
        merges.append(Merge(_written(entity, key), entity.name, fold.kind or "", chunk_id))
    files = await _file_paths(kb, [merge.chunk_id for merge in merges if merge.chunk_id])
    told = [Merge(m.variant, m.entity, m.kind, m.chunk_id, files.get(m.chunk_id, "")) for m in merges]
    return tuple(sorted(told, key=lambda merge: (merge.entity, merge.variant)))


async def _names_around(kb: KnowledgeBase, name: str) -> Names:
    key = entity_key(name)
    names = await read_names(kb, [key])
    head = names.fold(key).key
    if not names.row(key).documents and not names.row(head).documents:
        raise NotFound(f"no document uses the name {name!r}", hint="get_graph_labels() lists the names of entities")
    return await read_names(kb, [key, head], pointing=True)


async def _stated(kb: KnowledgeBase, entities: Sequence[str], names: Names) -> Mapping[tuple[str, str], Expansion]:
    """For each acronym and entity the first chunk that says that the one stands for the other."""
    mentions = await kb.graph.mentions_of(entities)
    documents = sorted({edge.document_id for edges in mentions.values() for edge in edges})
    found: dict[tuple[str, str], Expansion] = {}
    for naming in (await kb.naming.get_many(documents)).values():
        for expansion in naming.expansions:
            place = names.head(expansion.acronym), names.fold(expansion.name).key
            found[place] = min(found.get(place, expansion), expansion, key=lambda e: e.chunk_id)
    return found


def _written(entity: Entity, key: str) -> str:
    """A name as the documents write it most often."""
    return next((name for name, _ in entity.names if entity_key(name) == key), key)


async def _file_paths(kb: KnowledgeBase, chunk_ids: Sequence[str]) -> dict[str, str]:
    return {key: chunk.document_name for key, chunk in (await kb.chunks.get_many(chunk_ids)).items()}


async def suggested_merges(kb: KnowledgeBase, threshold: float, limit: int) -> tuple[MergeSuggestion, ...]:
    """Entities that may be one: of like meaning and kin by a word of their names, most alike first.

    Args:
        kb: The base; give a snapshot.
        threshold: Cosine similarity from which two entities are alike.
        limit: Pairs at most.
    """
    entities = await kb.graph.entities(await kb.graph.keys())
    vectors = await kb.entity_vectors.vectors(sorted(entities))
    pairs: set[tuple[str, str]] = set()
    for keys in _kin(sorted(vectors)).values():
        if 1 < len(keys) <= _CROWD:
            pairs |= {pair for pair in combinations(keys, 2) if _may_be_one(*(entities[key] for key in pair))}
    likeness = {pair: _cosine(vectors[pair[0]], vectors[pair[1]]) for pair in pairs}
    best = sorted((pair for pair, cosine in likeness.items() if cosine >= threshold), key=lambda pair: (-likeness[pair], pair))
    return tuple(
        MergeSuggestion(entities[one].name, entities[other].name, round(likeness[one, other], 3), _shared(one, other))
        for one, other in best[:limit]
    )


def _kin(keys: Iterable[str]) -> dict[str, list[str]]:
    """Names by the words in them."""
    found: dict[str, list[str]] = {}
    for key in keys:
        for word in _words(key):
            found.setdefault(word, []).append(key)
    return found


def _words(key: str) -> set[str]:
    return {word for word in key.replace("-", " ").split() if len(word) >= _SHORTEST_SHARED and word.isalpha()}


def _may_be_one(one: Entity, other: Entity) -> bool:
    """Whether neither their kinds nor the figures in their names speak against it."""
    kinds = {kind_of(one.type), kind_of(other.type)} - {"", "Concept"}
    return len(kinds) < 2 and _figures(one.key) == _figures(other.key)


def _figures(key: str) -> str:
    return "".join(character for character in key if character.isdigit())


def _shared(one: str, other: str) -> str:
    return max(_words(one) & _words(other), key=lambda word: (len(word), word))


def _cosine(one: FloatVector, other: FloatVector) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
