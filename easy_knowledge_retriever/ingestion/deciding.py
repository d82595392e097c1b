"""What a user decides of names: that a variant is another thing, that two names are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from easy_knowledge_retriever.errors import ConfigError, NotFound
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.name_rows import read_names, with_rows
from easy_knowledge_retriever.operations.resolution import Names
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import NameRow

__all__ = ["Decision", "decided_apart", "decided_one"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Rows of names that a user wants to be others."""

    now: Names
    """The rows as they are, with all that point at them."""
    rows: Mapping[str, NameRow]
    """Folded name → row from now on."""


async def decided_apart(kb: KnowledgeBase, variant: str) -> Decision:
    """Takes a name out of the entity that it is folded into, or splits again what was joined.

    Args:
        kb: The base.
        variant: The name, as documents write it.

    Raises:
        NotFound: It is not folded into another name.
    """
    key = entity_key(variant)
    now = await _around(kb, [key])
    joined = _joined_sense(now, key)
    if joined:
        return Decision(now, {joined: replace(now.row(joined), whole=False)})
    row, into = now.row(key), now.fold(key).key
    if not row.documents or into == key:
        raise NotFound(f"{variant!r} is not merged into another name", hint="get_merges() lists what is merged")
    rows = {key: replace(row, apart=True, into="")}
    if row.into:
        target = now.row(row.into)
        rows[row.into] = replace(target, merged=tuple(name for name in target.merged if name != key))
    return Decision(now, rows)


async def decided_one(kb: KnowledgeBase, sources: Sequence[str], target: str) -> Decision:
    """Folds names into another one, whatever the documents say.

    Args:
        kb: The base.
        sources: Names as documents write them, or with the label of a sense of the target: ``Mercury (Person)``.
        target: The name they are folded into.

    Raises:
        NotFound: No document uses one of the names.
        ConfigError: The target is folded into one of the sources.
    """
    into = entity_key(target)
    now = await _around(kb, [into, *(entity_key(source) for source in sources)])
    then = now
    for source in sources:
        then = then.changed(with_rows(then.groups, _joining(then, entity_key(source), into)))
    return Decision(now, {key: then.row(key) for key in then.keys() if then.row(key) != now.row(key)})


async def _around(kb: KnowledgeBase, keys: Sequence[str]) -> Names:
    """The rows of some names, of what they are folded into and of what is folded into that; of the bare name, too."""
    bare = [_bare(key) for key in keys]
    first = await read_names(kb, [*keys, *bare])
    heads = [first.fold(key).key for key in (*keys, *bare)]
    return await read_names(kb, {*keys, *bare, *heads}, pointing=True)


def _bare(key: str) -> str:
    """The name without the label of a sense."""
    return key.rpartition(" (")[0] if key.endswith(")") and " (" in key else key


def _joined_sense(now: Names, key: str) -> str:
    """The name of which this is a sense that was joined with the others; empty if it is none."""
    bare = _bare(key)
    row = now.row(bare)
    if bare == key or not row.whole:
        return ""
    split = Names(with_rows({}, {bare: replace(row, whole=False)}))
    return bare if key in split.entities(bare) else ""


def _joining(now: Names, key: str, into: str) -> dict[str, NameRow]:
    """The rows once a name is folded into another one."""
    if not now.row(into).documents:
        raise NotFound(f"no document uses the name {into!r}", hint="get_graph_labels() lists the names of entities")
    bare = _bare(key)
    if bare != key and key in now.entities(bare) and now.fold(bare).key == now.fold(into).key:
        return {bare: replace(now.row(bare), whole=True)}
    row = now.row(key)
    if not row.documents:
        raise NotFound(f"no document uses the name {key!r}", hint="get_graph_labels() lists the names of entities")
    free = now.changed(with_rows(now.groups, {key: replace(row, apart=False)}))
    if key == into or free.fold(key).key == free.fold(into).key:
        return {key: free.row(key)}
    rows = {key: replace(row, apart=False, into=into)}
    target = now.row(into)
    rows[into] = replace(target, merged=tuple(sorted({*target.merged, key})))
    if row.into:
        before = rows.get(row.into, now.row(row.into))
        rows[row.into] = replace(before, merged=tuple(name for name in before.merged if name != key))
    joined = now.changed(with_rows(now.groups, rows))
    if joined.fold(key).key != joined.fold(into).key:
        raise ConfigError(f"{into!r} is merged into {key!r} already", hint="merge them the other way round")
    return rows
