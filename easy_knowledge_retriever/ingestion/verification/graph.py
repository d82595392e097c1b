"""Entities, relations, mentions and names against the ledger: I5, I6, I8."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace

from easy_knowledge_retriever.ingestion.verification.findings import Finding, differing
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.indexing import mention_edges
from easy_knowledge_retriever.operations.merging import Limits, merged_entity, merged_relation
from easy_knowledge_retriever.operations.name_rows import recounted
from easy_knowledge_retriever.operations.naming import naming_of
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import Extraction, MentionEdge, NameRow, Naming

__all__ = ["check_graph", "check_mentions", "check_merged", "check_names", "counted_names", "expected_mentions", "told_by"]


def check_graph(state: State) -> Iterator[Finding]:
    """I5, as far as keys go, and I6."""
    for extraction in state.ledger:
        chunk = state.chunks.get(extraction.chunk_id)
        if chunk is None or chunk.document_id != extraction.document_id:
            yield Finding("I5", extraction.chunk_id, f"an extraction ({extraction.source}) of it is there, the chunk is not")
    yield from differing("I5", "entity", state.entities, state.evidence.entities)
    related, said = ({key.id for key in keys} for keys in (state.relations, state.evidence.relations))
    yield from differing("I5", "relation", related, said)
    for pair in state.relations:
        for end in pair:
            if end not in state.entities:
                yield Finding("I6", pair.id, f"its end {end!r} does not exist")


def check_merged(state: State, settings: Settings) -> Iterator[Finding]:
    """I8 of entities and relations."""
    of_entities, of_relations = Limits.of_entities(settings), Limits.of_relations(settings)
    for key, mentions in state.evidence.entities.items():
        entity = state.entities.get(key)
        if entity is not None and replace(entity, summary="", pending=False) != merged_entity(key, mentions, of_entities):
            yield Finding("I8", key, "it is not what its mentions make of it")
    for pair, statements in state.evidence.relations.items():
        relation = state.relations.get(pair)
        if relation is not None and replace(relation, summary="", pending=False) != merged_relation(
            pair, statements, of_relations
        ):
            yield Finding("I8", pair.id, "it is not what its mentions make of it")


def check_names(state: State) -> Iterator[Finding]:
    """I8 of names. Documents that were ingested without resolution have no naming, and their names count nowhere."""
    told = told_by(state)
    for document_id, naming in state.naming.items():
        if naming_of(state.chunks_of(document_id), told.get(document_id, [])) != naming:
            yield Finding("I8", document_id, "its naming is not what its chunks say")
    counted = counted_names(state.naming)
    stored = {group: {key: _undecided(row) for key, row in rows.items()} for group, rows in state.names.groups.items()}
    for group in sorted(counted.keys() | stored.keys()):
        if counted.get(group, {}) != stored.get(group, {}):
            yield Finding("I8", group, "its row of names is not what the documents say")


def told_by(state: State) -> dict[str, list[Extraction]]:
    """The extractions of each document."""
    told: dict[str, list[Extraction]] = {}
    for extraction in state.ledger:
        told.setdefault(extraction.document_id, []).append(extraction)
    return told


def counted_names(namings: Mapping[str, Naming]) -> dict[str, Mapping[str, NameRow]]:
    """The rows of names that the documents make, without what a user decided."""
    counted: dict[str, Mapping[str, NameRow]] = {}
    for naming in namings.values():
        counted |= recounted(counted, Naming(), naming)
    return counted


def _undecided(row: NameRow) -> NameRow:
    """The row without what a user decided, which no document says."""
    return replace(row, apart=False, whole=False, into="", merged=())


def expected_mentions(state: State) -> dict[tuple[str, str], MentionEdge]:
    """By entity and chunk, the mentions that the ledger makes."""
    living = [extraction for extraction in state.ledger if extraction.chunk_id in state.chunks]
    edges = mention_edges(list(state.chunks.values()), living, state.identify)
    return {(edge.entity, edge.chunk_id): edge for edge in edges}


async def check_mentions(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I5 of mentions."""
    expected = expected_mentions(state)
    found = {
        (edge.entity, edge.chunk_id): edge
        for edges in (await kb.graph.mentions_of(list(state.entities))).values()
        for edge in edges
    }
    for entity, chunk_id in sorted(expected.keys() ^ found.keys()):
        where = "missing" if (entity, chunk_id) in expected else "of no extraction"
        yield Finding("I5", entity, f"its mention in {chunk_id!r} is {where}")
    for pair in sorted(expected.keys() & found.keys()):
        if found[pair] != expected[pair]:
            yield Finding("I5", pair[0], f"its mention in {pair[1]!r} is another than the extractions say")
    count = (await kb.graph.counts()).mentions
    if count != len(found):
        yield Finding("I5", "mentions", f"there are {count} of them, and {len(found)} of entities that exist")
