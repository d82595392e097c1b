"""The rows of names: read with all that bears on a decision, counted up and down, changed by a user."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.resolution import Groups, Identifier, Names
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.variants import group_key
from easy_knowledge_retriever.types import Extraction, NameRow, NameUse, Naming

__all__ = ["changed_groups", "identifier_of", "names_touched", "read_names", "recounted", "uses_in", "with_rows"]

_READ_AT_ONCE: Final = 500


async def read_names(kb: KnowledgeBase, keys: Iterable[str], *, pointing: bool = False) -> Names:
    """The rows that decide whom some names mean.

    Args:
        kb: The base.
        keys: Folded names.
        pointing: Also reads the names that are folded into these, so that they can be decided about anew.
    """
    groups: dict[str, Mapping[str, NameRow]] = {}
    asked = {group_key(key) for key in keys}
    back = set(asked) if pointing else set()
    new, new_back = asked, back
    while new or new_back:
        groups |= await _groups(kb, sorted(new - groups.keys()))
        rows = [row for group in new for row in groups[group].values()]
        following = {group_key(key) for row in rows for key in (*row.expansions, *((row.into,) if row.into else ()))}
        rows = [row for group in new_back for row in groups[group].values()]
        new_back = {group_key(key) for row in rows for key in (*row.acronyms, *row.merged)} - back
        back |= new_back
        new = (following | new_back) - groups.keys()
    return Names(groups)


async def _groups(kb: KnowledgeBase, keys: Sequence[str]) -> dict[str, Mapping[str, NameRow]]:
    found: dict[str, Mapping[str, NameRow]] = {key: {} for key in keys}
    for at in range(0, len(keys), _READ_AT_ONCE):
        found |= await kb.names.get_many(keys[at : at + _READ_AT_ONCE])
    return found


async def uses_in(kb: KnowledgeBase, extractions: Collection[Extraction], *names: Names) -> Mapping[str, Mapping[str, NameUse]]:
    """How the documents of some extractions use their names, where that tells whom they mean.

    Args:
        kb: The base.
        extractions: The extractions.
        names: Decisions about every name in them; several, if they are to be compared.
    """
    keys = {name: entity_key(name) for extraction in extractions for name in (m.name for m in extraction.entities)}
    several = {name for name, key in keys.items() if any(decisions.senses(key) for decisions in names)}
    documents = (
        {e.document_id for e in extractions if any(mention.name in several for mention in e.entities)} if several else set()
    )
    found: dict[str, Mapping[str, NameUse]] = {}
    ids = sorted(documents)
    for at in range(0, len(ids), _READ_AT_ONCE):
        namings = await kb.naming.get_many(ids[at : at + _READ_AT_ONCE])
        found |= {document_id: naming.uses for document_id, naming in namings.items()}
    return found


async def identifier_of(kb: KnowledgeBase, extractions: Collection[Extraction]) -> Identifier:
    """Tells whom the names in some extractions mean."""
    names = await read_names(kb, {entity_key(mention.name) for extraction in extractions for mention in extraction.entities})
    return Identifier(names, await uses_in(kb, extractions, names))


def names_touched(*namings: Naming) -> set[str]:
    """The names whose rows these bear on."""
    keys = {key for naming in namings for key in naming.uses}
    return keys | {key for naming in namings for expansion in naming.expansions for key in expansion[:2]}


def recounted(groups: Groups, before: Naming, after: Naming) -> Groups:
    """The groups once a document uses its names in another way: those that change, whole.

    A row that nothing is left of goes. With the last document that uses a name goes what a user decided of it.

    Args:
        groups: Every group that either naming bears on.
        before: How the document used its names until now.
        after: How it does from now on.
    """
    changed = {key: dict(groups.get(key, {})) for key in sorted(map(group_key, names_touched(before, after)))}
    for naming, step in ((before, -1), (after, 1)):
        for key, use in naming.uses.items():
            rows = changed[group_key(key)]
            rows[key] = _counted(rows.get(key, NameRow()), use, step)
        for acronym, name, _ in naming.expansions:
            rows = changed[group_key(acronym)]
            row = rows.get(acronym, NameRow())
            rows[acronym] = replace(row, expansions=_stepped(row.expansions, name, step))
            rows = changed[group_key(name)]
            row = rows.get(name, NameRow())
            rows[name] = replace(row, acronyms=_stepped(row.acronyms, acronym, step))
    for key in sorted({*before.uses}.difference(after.uses)):
        if not changed[group_key(key)][key].documents:
            _forget(groups, changed, key)
    return {group: {key: row for key, row in sorted(rows.items()) if row != NameRow()} for group, rows in changed.items()}


def with_rows(groups: Groups, rows: Mapping[str, NameRow]) -> Groups:
    """The groups in which some rows are others: those that change, whole."""
    changed = {group_key(key): dict(groups.get(group_key(key), {})) for key in rows}
    for key, row in rows.items():
        changed[group_key(key)][key] = row
    return {group: dict(sorted(members.items())) for group, members in changed.items()}


def changed_groups(before: Groups, after: Groups) -> Groups:
    """Those of ``after`` that differ; one without rows is empty."""
    return {group: rows for group, rows in after.items() if before.get(group, {}) != rows}


def _counted(row: NameRow, use: NameUse, step: int) -> NameRow:
    return replace(
        row,
        documents=row.documents + step,
        kinds=_stepped(row.kinds, use.kind, step),
        looks=_stepped(row.looks, use.look, step),
        lives=_stepped(row.lives, use.life, step),
    )


def _stepped(counts: Mapping[str, int], value: str, step: int) -> Mapping[str, int]:
    if not value:
        return counts
    stepped = {**counts, value: counts.get(value, 0) + step}
    return {key: stepped[key] for key in sorted(stepped) if stepped[key] > 0}


def _forget(groups: Groups, changed: dict[str, dict[str, NameRow]], key: str) -> None:
    """Takes back what a user decided of a name that nobody uses any more."""
    row = changed[group_key(key)][key]
    changed[group_key(key)][key] = replace(row, apart=False, whole=False, into="", merged=())
    for name in (*row.merged, *((row.into,) if row.into else ())):
        rows = changed.setdefault(group_key(name), dict(groups.get(group_key(name), {})))
        if name in rows:
            other = rows[name]
            into = "" if other.into == key else other.into
            rows[name] = replace(other, into=into, merged=tuple(member for member in other.merged if member != key))
