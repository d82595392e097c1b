"""What one document's change means for the graph: read, merged, and not yet written.

A document is taken in, replaced or deleted by the same arithmetic: the mentions of its old version go, those of its new
version come. What only gains mentions absorbs them; what loses some is merged again from the ledger. So the graph is always
what it would be had the old version never been seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from easy_knowledge_retriever.ingestion.stamps import Stamps, Unembedded, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.operations.indexing import has_vector
from easy_knowledge_retriever.operations.merging import (
    Evidence,
    Limits,
    absorb_entity,
    absorb_relation,
    evidence_in,
    merged_entity,
    merged_relation,
    with_summary_of,
)
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import Entity, Extraction, ExtractionSource, FactKey, Relation, RelationKey

__all__ = ["GraphChange", "ledger_of", "plan_change"]

_SOURCES: Final[tuple[str, ...]] = get_args(ExtractionSource)
_READ_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What a commit writes of the graph, planned in one generation of the base."""

    stamps: Stamps
    """Those of the base when the change was planned."""
    old_chunks: tuple[str, ...] = ()
    """Chunks of the version that goes."""
    old_extractions: tuple[str, ...] = ()
    """Keys of its extractions."""
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    gone_entities: tuple[str, ...] = ()
    gone_relations: tuple[RelationKey, ...] = ()
    entity_texts: dict[str, str] = field(default_factory=dict)
    """Entity key → text, where the vector in the base is that of another text or missing."""
    relation_texts: dict[RelationKey, str] = field(default_factory=dict)
    summarized: frozenset[FactKey] = frozenset()
    """What had a summary, or was to have one, before the change."""

    @property
    def facts(self) -> tuple[Entity | Relation, ...]:
        """Entities and relations as they will be."""
        return (*self.entities, *self.relations)

    @property
    def texts(self) -> list[str]:
        """Everything that must be embedded before the commit, each text once."""
        return list(dict.fromkeys((*self.entity_texts.values(), *self.relation_texts.values())))


async def ledger_of(kb: KnowledgeBase, chunk_ids: Sequence[str]) -> dict[str, Extraction]:
    """The extractions of some chunks, by their keys."""
    found: dict[str, Extraction] = {}
    for at in range(0, len(chunk_ids), _READ_AT_ONCE):
        keys = [extraction_key(chunk_id, source) for chunk_id in chunk_ids[at : at + _READ_AT_ONCE] for source in _SOURCES]
        found |= await kb.extractions.get_many(keys)
    return found


async def plan_change(
    kb: KnowledgeBase,
    document_id: str,
    name: str,
    extractions: Sequence[Extraction],
    settings: Settings,
) -> GraphChange:
    """The change that puts ``extractions`` in the place of what the document says now.

    It is read without a snapshot: if the base changes meanwhile, so does its generation, and the plan is void.

    Args:
        kb: The base.
        document_id: The document.
        name: Its name, as entities show it.
        extractions: What its new version says; none if it is deleted.
        settings: Hold the caps of what is shown.
    """
    stamps = await stamps_of(kb)
    old_chunks = (await kb.manifests.get_many([document_id])).get(document_id, ())
    old = await ledger_of(kb, old_chunks)
    before = evidence_in((extraction, "") for extraction in old.values())
    after = evidence_in((extraction, name) for extraction in extractions)
    planner = _Planner(kb, settings, before, after)
    await planner.read(frozenset(old_chunks), stamps.unembedded)
    return replace(planner.change(stamps), old_chunks=old_chunks, old_extractions=tuple(old))


class _Planner:
    """Merges what a change touches."""

    def __init__(self, kb: KnowledgeBase, settings: Settings, before: Evidence, after: Evidence) -> None:
        self._kb = kb
        self._settings = settings
        self._before = before
        self._after = after
        self._entities: dict[str, Entity] = {}
        self._relations: dict[RelationKey, Relation] = {}
        self._waiting_entities: dict[str, Entity] = {}
        self._waiting_relations: dict[RelationKey, Relation] = {}
        self._others = Evidence({}, {})
        """Mentions in other documents of what loses some in this one."""

    async def read(self, old_chunks: Collection[str], unembedded: Unembedded) -> None:
        """Reads what is touched or waits for its vector, and the ledger of what loses mentions but stays."""
        graph, before = self._kb.graph, self._before
        if unembedded.entities or unembedded.relations:
            self._waiting_entities = await graph.entities(unembedded.entities)
            self._waiting_relations = await graph.relations(unembedded.relations)
        self._entities = await graph.entities([*before.entities.keys() | self._after.entities.keys()])
        self._relations = await graph.relations([*before.relations.keys() | self._after.relations.keys()])
        shared = [key for key, mentions in before.entities.items() if self._count(key) > len(mentions)]
        if shared:
            mentions = await graph.mentions_of(shared)
            chunk_ids = {edge.chunk_id for edges in mentions.values() for edge in edges}
            self._others = await self._evidence_in(sorted(chunk_ids.difference(old_chunks)))

    def _count(self, key: str) -> int:
        entity = self._entities.get(key)
        return entity.mention_count if entity else 0

    async def _evidence_in(self, chunk_ids: Sequence[str]) -> Evidence:
        extractions = (await ledger_of(self._kb, chunk_ids)).values()
        records = await self._kb.status.get(sorted({extraction.document_id for extraction in extractions}))
        names = {document_id: record.name for document_id, record in records.items()}
        return evidence_in((extraction, names.get(extraction.document_id, "")) for extraction in extractions)

    def change(self, stamps: Stamps) -> GraphChange:
        """Everything touched, merged."""
        entities, relations = self._merged_entities(), self._merged_relations()
        gone_entities = self._before.entities.keys() - {entity.key for entity in entities}
        gone_relations = self._before.relations.keys() - {relation.key for relation in relations}
        return GraphChange(
            stamps=stamps,
            entities=tuple(entities),
            relations=tuple(relations),
            gone_entities=tuple(sorted(gone_entities)),
            gone_relations=tuple(sorted(gone_relations)),
            entity_texts=self._entity_texts(entities, gone_entities),
            relation_texts=self._relation_texts(relations, gone_relations),
            summarized=frozenset(self._summarized()),
        )

    def _summarized(self) -> Iterator[FactKey]:
        yield from (key for key, entity in self._entities.items() if entity.summary or entity.pending)
        yield from (key for key, relation in self._relations.items() if relation.summary or relation.pending)

    def _entity_texts(self, merged: Sequence[Entity], gone: Collection[str]) -> dict[str, str]:
        known = {
            key: entity.indexed_text
            for key, entity in self._entities.items()
            if key not in self._waiting_entities and has_vector(entity)
        }
        wanted = {key: entity.indexed_text for key, entity in self._waiting_entities.items() if key not in gone}
        wanted |= {entity.key: entity.indexed_text if has_vector(entity) else "" for entity in merged}
        return {key: text for key, text in wanted.items() if text and known.get(key) != text}

    def _relation_texts(self, merged: Sequence[Relation], gone: Collection[RelationKey]) -> dict[RelationKey, str]:
        known = {
            key: relation.indexed_text
            for key, relation in self._relations.items()
            if key not in self._waiting_relations and has_vector(relation)
        }
        wanted = {key: relation.indexed_text for key, relation in self._waiting_relations.items() if key not in gone}
        wanted |= {relation.key: relation.indexed_text if has_vector(relation) else "" for relation in merged}
        return {key: text for key, text in wanted.items() if text and known.get(key) != text}

    def _merged_entities(self) -> list[Entity]:
        limits, merged = Limits.of_entities(self._settings), []
        for key in sorted(self._before.entities.keys() | self._after.entities.keys()):
            gained = self._after.entities.get(key, [])
            if key not in self._before.entities:
                merged.append(absorb_entity(self._entities.get(key, Entity(key)), gained, limits))
            elif evidence := [*self._others.entities.get(key, []), *gained]:
                merged.append(with_summary_of(self._entities.get(key), merged_entity(key, evidence, limits)))
        return merged

    def _merged_relations(self) -> list[Relation]:
        limits, merged = Limits.of_relations(self._settings), []
        for key in sorted(self._before.relations.keys() | self._after.relations.keys()):
            gained = self._after.relations.get(key, [])
            if key not in self._before.relations:
                merged.append(absorb_relation(self._relations.get(key, Relation(key)), gained, limits))
            elif evidence := [*self._others.relations.get(key, []), *gained]:
                merged.append(with_summary_of(self._relations.get(key), merged_relation(key, evidence, limits)))
        return merged
