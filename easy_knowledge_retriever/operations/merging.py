"""Entities and relations from their mentions: pure functions whose result knows no order.

An entity is a function of the *set* of its mentions. Taking mentions in one by one, in any order and any grouping, gives
what merging all of them at once gives, and costs what the new ones and the caps cost, however many came before. What is
taken away cannot be subtracted from a capped row, so a deletion merges again from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import (
    Entity,
    EntityMention,
    Extraction,
    ExtractionSource,
    Fragment,
    Relation,
    RelationKey,
    RelationMention,
    Tally,
)

__all__ = [
    "MAX_FRAGMENTS",
    "EntityEvidence",
    "Evidence",
    "Identify",
    "Identity",
    "Limits",
    "RelationEvidence",
    "absorb_entity",
    "absorb_relation",
    "by_name",
    "counted",
    "entity_told",
    "evidence_in",
    "merged_entity",
    "merged_relation",
    "relation_told",
    "with_ends",
    "with_summary_of",
]

F = TypeVar("F", Entity, Relation)

MAX_FRAGMENTS: Final = 32
"""Distinct descriptions shown of one entity or relation; every one is kept in the ledger."""


class Identity(NamedTuple):
    """The entity that a document speaks of by a name."""

    key: str
    label: str = ""
    """Written after the name, in parentheses, where the name alone would be another entity's."""

    def shown(self, name: str) -> str:
        """The name with its label."""
        return f"{name} ({self.label})" if self.label else name


Identify = Callable[[str, str], Identity]
"""Document id and name → the entity."""


def by_name(_: str, name: str) -> Identity:
    """The entity of a name as it is written, nothing resolved."""
    return Identity(entity_key(name))


class EntityEvidence(NamedTuple):
    """A mention with the chunk and the document that make it."""

    mention: EntityMention
    chunk_id: str
    file_path: str
    source: ExtractionSource


class RelationEvidence(NamedTuple):
    """A mention of a relation with the chunk and the document that make it."""

    mention: RelationMention
    chunk_id: str
    file_path: str
    source: ExtractionSource
    names: tuple[str, str]
    """Of the two ends as they are written, in the order of the key."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The mentions of some extractions, sorted by what they mention."""

    entities: dict[str, list[EntityEvidence]]
    relations: dict[RelationKey, list[RelationEvidence]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an entity or relation shows of its mentions at most."""

    chunk_ids: int
    file_paths: int
    keep_first: bool
    """Whether the first in order are shown, or the last."""
    more: str
    """Stands after the file paths for those left out."""

    @classmethod
    def of_entities(cls, settings: Settings) -> Limits:
        """The limits of entities in these settings."""
        return cls._of(settings, settings.max_source_ids_per_entity)

    @classmethod
    def of_relations(cls, settings: Settings) -> Limits:
        """The limits of relations in these settings."""
        return cls._of(settings, settings.max_source_ids_per_relation)

    @classmethod
    def _of(cls, settings: Settings, chunk_ids: int) -> Limits:
        keep_first = settings.source_ids_limit_method == "KEEP"
        return cls(chunk_ids, settings.max_file_paths, keep_first, settings.file_path_more_placeholder)


def with_ends(extraction: Extraction) -> Extraction | None:
    """The extraction with an entity mention for each end of its relations, and without names that fold to nothing.

    So each relation's chunks are found among those of its ends. None if nothing is left.
    """
    entities = [mention for mention in extraction.entities if entity_key(mention.name)]
    keys = {entity_key(mention.name) for mention in entities}
    relations = []
    for relation in extraction.relations:
        ends = {entity_key(relation.source): relation.source, entity_key(relation.target): relation.target}
        if len(ends) < 2 or "" in ends:
            continue
        relations.append(relation)
        for key, name in ends.items():
            if key not in keys:
                keys.add(key)
                entities.append(EntityMention(name))
    if not entities:
        return None
    return Extraction(
        chunk_id=extraction.chunk_id,
        document_id=extraction.document_id,
        source=extraction.source,
        entities=tuple(entities),
        relations=tuple(relations),
    )


def evidence_in(extractions: Iterable[tuple[Extraction, str]], identify: Identify = by_name) -> Evidence:
    """The mentions in extractions, each given with the name of its document. A relation of an entity with itself is none.

    Args:
        extractions: With the names of their documents.
        identify: Whom each name means.
    """
    evidence = Evidence({}, {})
    for extraction, file_path in extractions:
        for entity in extraction.entities:
            key, told = entity_told(extraction, entity, file_path, identify)
            evidence.entities.setdefault(key, []).append(told)
        for relation in extraction.relations:
            pair, stated = relation_told(extraction, relation, file_path, identify)
            if pair.first != pair.second:
                evidence.relations.setdefault(pair, []).append(stated)
    return evidence


def entity_told(extraction: Extraction, mention: EntityMention, file_path: str, identify: Identify) -> tuple[str, EntityEvidence]:
    """One mention with the key of its entity."""
    whom = identify(extraction.document_id, mention.name)
    if whom.label:
        mention = replace(mention, name=whom.shown(mention.name))
    return whom.key, EntityEvidence(mention, extraction.chunk_id, file_path, extraction.source)


def relation_told(
    extraction: Extraction, mention: RelationMention, file_path: str, identify: Identify
) -> tuple[RelationKey, RelationEvidence]:
    """One mention of a relation with its key."""
    source, target = mention.source, mention.target
    one, other = identify(extraction.document_id, source), identify(extraction.document_id, target)
    names = (one.shown(source), other.shown(target))
    if one.key > other.key:
        one, other, names = other, one, names[::-1]
    evidence = RelationEvidence(mention, extraction.chunk_id, file_path, extraction.source, names)
    return RelationKey(one.key, other.key), evidence


def counted(extractions: Iterable[Extraction]) -> tuple[int, int]:
    """How many entities and how many relations these speak of."""
    entities: set[str] = set()
    relations: set[RelationKey] = set()
    for extraction in extractions:
        entities.update(entity_key(mention.name) for mention in extraction.entities)
        relations.update(RelationKey.of(entity_key(r.source), entity_key(r.target)) for r in extraction.relations)
    return len(entities), len(relations)


def merged_entity(key: str, evidence: Sequence[EntityEvidence], limits: Limits) -> Entity:
    """The entity that these are all the mentions of."""
    return absorb_entity(Entity(key=key), evidence, limits)


def merged_relation(key: RelationKey, evidence: Sequence[RelationEvidence], limits: Limits) -> Relation:
    """The relation that these are all the mentions of."""
    return absorb_relation(Relation(key=key), evidence, limits)


def absorb_entity(entity: Entity, evidence: Sequence[EntityEvidence], limits: Limits) -> Entity:
    """The entity with further mentions of it. A summary is dropped if it no longer covers what is said.

    Args:
        entity: Merged under the same limits.
        evidence: Mentions it does not hold yet.
        limits: What it may show.
    """
    fragments = _fragments(entity.fragments, ((e.chunk_id, e.mention.description) for e in evidence), limits)
    return Entity(
        key=entity.key,
        names=_tally(entity.names, (e.mention.name for e in evidence)),
        types=_tally(entity.types, (e.mention.type for e in evidence)),
        fragments=fragments,
        chunk_ids=_capped({*entity.chunk_ids, *(e.chunk_id for e in evidence)}, limits.chunk_ids, limits),
        file_paths=_file_paths(entity.file_paths, {e.file_path for e in evidence}, limits),
        mention_count=entity.mention_count + len(evidence),
        sources=_sources(entity.sources, {e.source for e in evidence}),
        summary=_summary_of(entity, fragments),
    )


def absorb_relation(relation: Relation, evidence: Sequence[RelationEvidence], limits: Limits) -> Relation:
    """The relation with further mentions of it. A summary is dropped if it no longer covers what is said.

    Args:
        relation: Merged under the same limits.
        evidence: Mentions it does not hold yet.
        limits: What it may show.
    """
    fragments = _fragments(relation.fragments, ((e.chunk_id, e.mention.description) for e in evidence), limits)
    return Relation(
        key=relation.key,
        first_name=_spelling({relation.first_name, *(e.names[0] for e in evidence)}),
        second_name=_spelling({relation.second_name, *(e.names[1] for e in evidence)}),
        keywords=_tally(relation.keywords, (word for e in evidence for word in e.mention.keywords)),
        fragments=fragments,
        weight=_sum([relation.weight, *(e.mention.weight for e in evidence)]),
        chunk_ids=_capped({*relation.chunk_ids, *(e.chunk_id for e in evidence)}, limits.chunk_ids, limits),
        file_paths=_file_paths(relation.file_paths, {e.file_path for e in evidence}, limits),
        mention_count=relation.mention_count + len(evidence),
        sources=_sources(relation.sources, {e.source for e in evidence}),
        summary=_summary_of(relation, fragments),
    )


def with_summary_of(old: F | None, merged: F) -> F:
    """What was merged anew, with the summary it had before if that is one of what it says now."""
    return merged if old is None else replace(merged, summary=_summary_of(old, merged.fragments))


def _summary_of(old: Entity | Relation, fragments: Sequence[Fragment]) -> str:
    """The summary, if these say the same as what it was made of; who says it is of no account."""
    if not old.summary:
        return ""
    same = {fragment.text for fragment in old.fragments} == {fragment.text for fragment in fragments}
    return old.summary if same else ""


def _tally(tally: Tally, values: Iterable[str]) -> Tally:
    counts = dict(tally)
    for value in values:
        if value:
            counts[value] = counts.get(value, 0) + 1
    return tuple(sorted(counts.items(), key=lambda row: (-row[1], row[0])))


def _fragments(old: tuple[Fragment, ...], new: Iterable[tuple[str, str]], limits: Limits) -> tuple[Fragment, ...]:
    """The descriptions, each under one chunk: the first that says it (the last, if the last are shown).

    A description that fell out before has a chunk beyond those that stayed, so it falls out again: no memory is needed.
    """
    chunk_of = {fragment.text: fragment.chunk_id for fragment in old}
    choose = min if limits.keep_first else max
    for chunk_id, text in new:
        if text:
            chunk_of[text] = choose(chunk_of.get(text, chunk_id), chunk_id)
    rows = sorted(Fragment(chunk_id, text) for text, chunk_id in chunk_of.items())
    return tuple(rows[:MAX_FRAGMENTS] if limits.keep_first else rows[-MAX_FRAGMENTS:])


def _capped(values: set[str], cap: int, limits: Limits) -> tuple[str, ...]:
    rows = sorted(values)
    return tuple(rows[:cap] if limits.keep_first else rows[-cap:])


def _file_paths(old: tuple[str, ...], new: set[str], limits: Limits) -> tuple[str, ...]:
    """The names of the documents; one more than the cap stands for all that were left out."""
    was_cut = len(old) > limits.file_paths
    names = {*old[: limits.file_paths], *new} - {""}
    shown = _capped(names, limits.file_paths, limits)
    return (*shown, limits.more) if was_cut or len(names) > limits.file_paths else shown


def _sources(old: tuple[ExtractionSource, ...], new: set[ExtractionSource]) -> tuple[ExtractionSource, ...]:
    return tuple(sorted({*old, *new}))


def _spelling(names: set[str]) -> str:
    """One spelling of several, whatever their order: rather one with capitals, and not all of them."""
    return min(names - {""}, key=lambda name: (name.islower(), name.isupper(), name), default="")


def _sum(weights: Iterable[float]) -> float:
    """The sum in whole thousandths, which knows no order."""
    return sum(round(weight * 1000) for weight in weights) / 1000
