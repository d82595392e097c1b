"""What one document's change means for the graph: read, merged, and not yet written.

A document is taken in, replaced or deleted by the same arithmetic: the mentions of its old version go, those of its new
version come. What only gains mentions absorbs them; what loses some is merged again from the ledger. So the graph is always
what it would be had the old version never been seen. Where the change makes names stand for other entities than before, or
a user decides that they do, the mentions of other documents move with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from easy_knowledge_retriever.ingestion.moving import Told, told_elsewhere
from easy_knowledge_retriever.ingestion.stamps import Stamps, Unembedded, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.indexing import has_vector, mention_edges
from easy_knowledge_retriever.operations.ledger import ledger_of
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
from easy_knowledge_retriever.operations.name_rows import changed_groups, names_touched, read_names, recounted, with_rows
from easy_knowledge_retriever.operations.resolution import Groups, Identifier, Names
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import (
    Chunk,
    Entity,
    Extraction,
    FactKey,
    MentionEdge,
    NameRow,
    Naming,
    Relation,
    RelationKey,
)

__all__ = ["GraphChange", "Said", "plan_change", "plan_decision"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a version of a document says; empty for a document that is deleted."""

    name: str = ""
    """Of the document, as entities show it."""
    chunks: tuple[Chunk, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    """Each with an entity for every end of its relations."""
    naming: Naming = field(default_factory=Naming)


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
    mentions: tuple[MentionEdge, ...] = ()
    moved_chunks: tuple[str, ...] = ()
    """Chunks of other documents with all their mentions among ``mentions``."""
    names: Groups = field(default_factory=dict)
    """Groups of names that change, whole; one without rows goes."""
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


async def plan_change(kb: KnowledgeBase, document_id: str, said: Said, settings: Settings) -> GraphChange:
    """The change that puts what a document says in the place of what it says now.

    It is read without a snapshot: if the base changes meanwhile, so does its generation, and the plan is void.

    Args:
        kb: The base.
        document_id: The document.
        said: What its new version says; nothing if it is deleted.
        settings: Hold the caps of what is shown.
    """
    stamps = await stamps_of(kb)
    old_chunks = (await kb.manifests.get_many([document_id])).get(document_id, ())
    naming = (await kb.naming.get_many([document_id])).get(document_id, Naming()) if old_chunks else Naming()
    old = await ledger_of(kb, old_chunks)
    keys = {*_names_in(old.values()), *_names_in(said.extractions), *names_touched(naming, said.naming)}
    now = await read_names(kb, keys, pointing=True)
    then = now.changed(recounted(now.groups, naming, said.naming))
    before = Identifier(now, {document_id: naming.uses})
    after = Identifier(then, {document_id: said.naming.uses})
    planner = _Planner(
        kb,
        settings,
        evidence_in(((extraction, "") for extraction in old.values()), before),
        evidence_in(((extraction, said.name) for extraction in said.extractions), after),
    )
    await planner.read(now, then, frozenset(old_chunks), stamps.unembedded)
    return replace(
        planner.change(stamps, mention_edges(said.chunks, said.extractions, after)),
        old_chunks=old_chunks,
        old_extractions=tuple(old),
        names=changed_groups(now.groups, then.groups),
    )


async def plan_decision(
    kb: KnowledgeBase, stamps: Stamps, now: Names, rows: Mapping[str, NameRow], settings: Settings
) -> GraphChange:
    """The change that gives some names other rows, as a user decides.

    Args:
        kb: The base.
        stamps: Those of the base before the rows were read.
        now: The rows as they are, with the names that point at these.
        rows: Folded name → row from now on.
        settings: Hold the caps of what is shown.
    """
    then = now.changed(with_rows(now.groups, rows))
    planner = _Planner(kb, settings, Evidence({}, {}), Evidence({}, {}))
    await planner.read(now, then, frozenset(), stamps.unembedded)
    return replace(planner.change(stamps, ()), names=changed_groups(now.groups, then.groups))


def _names_in(extractions: Iterable[Extraction]) -> set[str]:
    return {entity_key(mention.name) for extraction in extractions for mention in extraction.entities}


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
        self._others = Told()
        """What other documents say of what loses mentions."""

    async def read(self, now: Names, then: Names, old_chunks: Collection[str], unembedded: Unembedded) -> None:
        """Reads what is touched or waits for its vector, and the ledger of what loses mentions but stays."""
        graph, before, after = self._kb.graph, self._before, self._after
        if unembedded.entities or unembedded.relations:
            self._waiting_entities = await graph.entities(unembedded.entities)
            self._waiting_relations = await graph.relations(unembedded.relations)
        moved = then.differing(now)
        left = {entity for name in moved for entity in now.entities(name)}
        reached = {entity for name in moved for entity in then.entities(name)}
        self._entities = await graph.entities([*before.entities.keys() | after.entities.keys() | left | reached])
        shared = [key for key in sorted(before.entities.keys() | left) if self._count(key) > len(before.entities.get(key, ()))]
        if shared:
            self._others = await told_elsewhere(self._kb, shared, old_chunks, now, then, moved)
        pairs = (
            before.relations.keys() | after.relations.keys() | self._others.gained.relations.keys() | self._others.left_relations
        )
        self._relations = await graph.relations([*pairs])

    def _count(self, key: str) -> int:
        entity = self._entities.get(key)
        return entity.mention_count if entity else 0

    def change(self, stamps: Stamps, mentions: Sequence[MentionEdge]) -> GraphChange:
        """Everything touched, merged.

        Args:
            stamps: Of the base.
            mentions: Those of the new version.
        """
        lost_entities = self._before.entities.keys() | self._others.left_entities
        lost_relations = self._before.relations.keys() | self._others.left_relations
        entities, relations = self._merged_entities(lost_entities), self._merged_relations(lost_relations)
        gone_entities = lost_entities - {entity.key for entity in entities}
        gone_relations = lost_relations - {relation.key for relation in relations}
        return GraphChange(
            stamps=stamps,
            entities=tuple(entities),
            relations=tuple(relations),
            gone_entities=tuple(sorted(gone_entities)),
            gone_relations=tuple(sorted(gone_relations)),
            mentions=(*mentions, *self._others.mentions),
            moved_chunks=self._others.moved_chunks,
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

    def _merged_entities(self, lost: Collection[str]) -> list[Entity]:
        limits, merged = Limits.of_entities(self._settings), []
        others, moved = self._others.kept.entities, self._others.gained.entities
        for key in sorted({*lost, *self._after.entities, *moved}):
            gained = self._after.entities.get(key, [])
            if key not in lost:
                merged.append(absorb_entity(self._entities.get(key, Entity(key)), [*moved.get(key, []), *gained], limits))
            elif evidence := [*others.get(key, []), *gained]:
                merged.append(with_summary_of(self._entities.get(key), merged_entity(key, evidence, limits)))
        return merged

    def _merged_relations(self, lost: Collection[RelationKey]) -> list[Relation]:
        limits, merged = Limits.of_relations(self._settings), []
        others, moved = self._others.kept.relations, self._others.gained.relations
        for key in sorted({*lost, *self._after.relations, *moved}):
            gained = self._after.relations.get(key, [])
            if key not in lost:
                merged.append(absorb_relation(self._relations.get(key, Relation(key)), [*moved.get(key, []), *gained], limits))
            elif evidence := [*others.get(key, []), *gained]:
                merged.append(with_summary_of(self._relations.get(key), merged_relation(key, evidence, limits)))
        return merged
