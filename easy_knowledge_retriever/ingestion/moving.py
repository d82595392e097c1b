"""What other documents say of entities that lose mentions, and where their mentions go when names come to mean others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.indexing import mention_edges
from easy_knowledge_retriever.operations.ledger import ledger_of
from easy_knowledge_retriever.operations.merging import Evidence, entity_told, evidence_in, relation_told
from easy_knowledge_retriever.operations.name_rows import read_names, uses_in
from easy_knowledge_retriever.operations.resolution import Identifier, Names
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import Extraction, MentionEdge, RelationKey

__all__ = ["Told", "told_elsewhere"]

_AT_ONCE = 500


@dataclass(slots=True)
class Told:
    """The mentions in other documents that a change bears on."""

    kept: Evidence = field(default_factory=lambda: Evidence({}, {}))
    """Every one of an entity or relation that loses some, as names are understood after the change."""
    gained: Evidence = field(default_factory=lambda: Evidence({}, {}))
    """Those that move, by where they go."""
    left_entities: set[str] = field(default_factory=set)
    """Entities that mentions move away from."""
    left_relations: set[RelationKey] = field(default_factory=set)
    moved_chunks: tuple[str, ...] = ()
    mentions: tuple[MentionEdge, ...] = ()
    """All mentions in these chunks."""


async def told_elsewhere(
    kb: KnowledgeBase, entities: Sequence[str], old_chunks: Collection[str], now: Names, then: Names, moved: Collection[str]
) -> Told:
    """What is said of some entities outside of some chunks.

    Args:
        kb: The base.
        entities: Their keys.
        old_chunks: Chunks of the version that goes.
        now: The names as they are understood.
        then: As they will be.
        moved: Folded names that come to mean another entity.
    """
    mentions = await kb.graph.mentions_of(entities)
    chunk_ids = {edge.chunk_id for edges in mentions.values() for edge in edges}
    ledger = (await ledger_of(kb, sorted(chunk_ids.difference(old_chunks)))).values()
    file_paths = await _file_paths(kb, sorted({extraction.document_id for extraction in ledger}))
    before, after = await _understood(kb, ledger, now, then)
    told = Told(kept=evidence_in(((extraction, file_paths[extraction.document_id]) for extraction in ledger), after))
    if moved:
        chunks = _move(told, ledger, file_paths, before, after, moved)
        await _join_again(kb, told, sorted(chunks), ledger, after)
    return told


async def _file_paths(kb: KnowledgeBase, document_ids: Sequence[str]) -> dict[str, str]:
    names = dict.fromkeys(document_ids, "")
    for at in range(0, len(document_ids), _AT_ONCE):
        records = await kb.status.get(document_ids[at : at + _AT_ONCE])
        names |= {document_id: record.name for document_id, record in records.items()}
    return names


async def _understood(
    kb: KnowledgeBase, ledger: Collection[Extraction], now: Names, then: Names
) -> tuple[Identifier, Identifier]:
    """Whom every name in some extractions means, before and after."""
    keys = {entity_key(mention.name) for extraction in ledger for mention in extraction.entities}
    others = await read_names(kb, keys)
    now, then = others.changed(now.groups), others.changed(then.groups)
    uses = await uses_in(kb, ledger, now, then)
    return Identifier(now, uses), Identifier(then, uses)


def _move(
    told: Told,
    ledger: Collection[Extraction],
    file_paths: Mapping[str, str],
    before: Identifier,
    after: Identifier,
    moved: Collection[str],
) -> set[str]:
    """Notes what moves from where to where; gives the chunks in which something does."""
    chunks = set()
    for extraction in ledger:
        names = {mention.name for mention in extraction.entities if entity_key(mention.name) in moved}
        names = {n for n in names if before(extraction.document_id, n) != after(extraction.document_id, n)}
        if not names:
            continue
        chunks.add(extraction.chunk_id)
        path = file_paths[extraction.document_id]
        for mention in extraction.entities:
            if mention.name in names:
                told.left_entities.add(before(extraction.document_id, mention.name).key)
                key, evidence = entity_told(extraction, mention, path, after)
                told.gained.entities.setdefault(key, []).append(evidence)
        for relation in extraction.relations:
            old, _ = relation_told(extraction, relation, path, before)
            pair, stated = relation_told(extraction, relation, path, after)
            if old == pair:
                continue
            if old.first != old.second:
                told.left_relations.add(old)
            if pair.first != pair.second:
                told.gained.relations.setdefault(pair, []).append(stated)
    return chunks


async def _join_again(
    kb: KnowledgeBase, told: Told, chunk_ids: Sequence[str], ledger: Collection[Extraction], after: Identifier
) -> None:
    """Makes the mentions of chunks anew in which some have moved."""
    extractions: dict[str, list[Extraction]] = {chunk_id: [] for chunk_id in chunk_ids}
    for extraction in ledger:
        if extraction.chunk_id in extractions:
            extractions[extraction.chunk_id].append(extraction)
    edges: list[MentionEdge] = []
    for at in range(0, len(chunk_ids), _AT_ONCE):
        part = chunk_ids[at : at + _AT_ONCE]
        chunks = await kb.chunks.get_many(part)
        edges += mention_edges([*chunks.values()], [e for chunk_id in part for e in extractions[chunk_id]], after)
    told.moved_chunks, told.mentions = tuple(chunk_ids), tuple(edges)
