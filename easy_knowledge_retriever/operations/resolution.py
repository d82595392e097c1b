"""Which names stand for one entity, and which name for several: decided from how the living documents use them.

A decision is a function of the rows of the names it is about, and the rows are counts over documents: whatever the order
documents come and go in, the decision is the one that the documents that are left ask for. It can be undone by a user, and
what a user decides is a part of the rows.

Names that differ by blanks, an article, a title or number are folded together where nothing speaks against it; an acronym
is folded into its expansion where a document states it and none states another. One name is split where documents use it of
a person and of something else, or of people with different life dates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from easy_knowledge_retriever.operations.merging import Identity
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.variants import SpellingKind, bare_words, group_key, spelling_kind
from easy_knowledge_retriever.types import NameRow, NameUse

__all__ = ["Fold", "Groups", "Identifier", "MergeKind", "Names", "Sense", "senses_of"]

Groups = Mapping[str, Mapping[str, NameRow]]
"""Group key → folded name → row."""
MergeKind = Literal["spacing", "acronym", "article", "honorific", "plural", "manual"]

_SHORT_NAME: Final = 3
"""Letters up to which two spellings are one name only if both are acronyms: ``U.S.`` and ``US``, not ``M.O.`` and ``Mo``."""
_MINORITY: Final = 3
"""A kind of thing that is more than so many times rarer than the other one is a slip of the reader, no second sense."""
_SAME_YEAR: Final = 2
"""Years that two birth dates of one person may differ by."""
_COUNTABLE: Final = frozenset(("Concept", "Thing", ""))
"""Kinds whose plural is no other thing."""


@dataclass(frozen=True, slots=True)
class Sense:
    """One of several things a name stands for."""

    label: str
    """What is written after the name, in parentheses; empty for the sense that keeps the bare name."""
    person: bool = False
    other: bool = False
    """Whether uses as a person's name are of this sense, and uses as the name of something else."""
    lives: frozenset[str] = frozenset()


class Fold(NamedTuple):
    """The entity that a name is folded into, and why."""

    key: str
    kind: MergeKind | None
    """None: it stands for itself."""


class Names:
    """The decisions about some names.

    Args:
        groups: Their groups, whole, and those of the names they point at.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._rows = {key: row for rows in groups.values() for key, row in rows.items()}
        self._heads: dict[str, dict[str, Fold]] = {}
        self._folded: dict[str, Fold] = {}
        self._senses: dict[str, tuple[Sense, ...]] = {}

    def row(self, key: str) -> NameRow:
        """How the documents use a name."""
        return self._rows.get(key, _UNUSED)

    def fold(self, key: str) -> Fold:
        """The name whose entity a name belongs to. It may be a name that no document uses, asked for in a question."""
        found = self._folded.get(key)
        if found is None:
            found = self._folded[key] = self._fold(key, frozenset())
        return found

    def head(self, key: str) -> str:
        """The name that a name is a variant of by its letters; acronyms and a user aside."""
        return key if self.row(key).apart else self._head(key).key

    def senses(self, key: str) -> tuple[Sense, ...]:
        """The things a name stands for; empty if it is one."""
        found = self._senses.get(key)
        if found is None:
            found = self._senses[key] = senses_of(self.row(key))
        return found

    def entity(self, key: str, use: NameUse | None = None) -> Identity:
        """The key of the entity that a document speaks of by a name, and the label to write after the name.

        Args:
            key: The folded name.
            use: How the document uses it; None if it is not known.
        """
        label = _label(self.senses(key), use) if key in self._rows else ""
        return Identity(f"{key} ({label.lower()})", label) if label else Identity(self.fold(key).key, "")

    def entities(self, key: str) -> tuple[str, ...]:
        """The keys of all entities a name may stand for, the one with the bare name first."""
        labels = [sense.label for sense in self.senses(key) if sense.label]
        return (self.fold(key).key, *(f"{key} ({label.lower()})" for label in labels))

    def changed(self, groups: Groups) -> Names:
        """The decisions where some groups are others."""
        return Names({**self.groups, **groups})

    def differing(self, before: Names) -> set[str]:
        """The names of which some use means another entity than it did before."""
        changed = [group for group, rows in self.groups.items() if before.groups.get(group) != rows]
        keys = {key for group in changed for key in (*self.groups[group], *before.groups.get(group, ()))}
        keys |= {key for key, row in self._rows.items() if row.expansions or row.into}
        return {key for key in keys if self._meanings(key, before) != before._meanings(key, before)}

    def keys(self) -> set[str]:
        """The names that have rows here."""
        return {*self._rows}

    def _meanings(self, key: str, before: Names) -> tuple[str, ...]:
        """What a name means in every way that documents used it before."""
        senses = self.senses(key)
        if not senses and not before.senses(key):
            return (self.fold(key).key,)
        uses = [NameUse("Person"), NameUse("Thing"), *(NameUse(life=life) for life in sorted(before.row(key).lives))]
        return (self.fold(key).key, *(_label(senses, use) for use in uses))

    def _fold(self, key: str, seen: frozenset[str]) -> Fold:
        row = self.row(key)
        if row.apart:
            return Fold(key, None)
        if row.into and row.into not in seen and self.row(row.into).documents:
            return Fold(self._fold(row.into, seen | {key}).key, "manual")
        head = self._head(key)
        if head.key != key and self.row(head.key).into and head.key not in seen:
            return Fold(self._fold(head.key, seen | {key}).key, head.kind)
        expansion = self._expansion(key, head.key)
        return Fold(self._fold(expansion, seen | {key}).key, "acronym") if expansion and expansion not in seen else head

    def _head(self, key: str) -> Fold:
        """The first name of its group that a name is a variant of."""
        group = group_key(key)
        heads = self._heads.get(group)
        if heads is None:
            heads = self._heads[group] = _heads(self.groups.get(group, {}))
        found = heads.get(key)
        if found is None:
            firsts = [head for head, seen in heads.items() if seen.kind is None]
            found = next((Fold(head, kind) for head in firsts if (kind := self._variant(key, head))), None)
        return found or Fold(key, None)

    def _variant(self, key: str, head: str) -> MergeKind | None:
        return _variant(key, self.row(key), head, self.row(head))

    def _expansion(self, key: str, head: str) -> str:
        """The one name that the living documents say an acronym stands for; empty if there is none, or more than one."""
        members = [name for name in self.groups.get(group_key(head), {}) if name in (key, head) or self._head(name).key == head]
        stated = {name for member in members for name in self.row(member).expansions if self.row(name).documents}
        if not stated or any(self.row(name).apart for name in stated):
            return ""
        found = {self._head(name).key for name in stated}
        expansion = found.pop()
        if found or expansion == head or self.row(expansion).expansions:
            return ""
        return "" if _conflict(self.row(head), self.row(expansion)) else expansion


_UNUSED: Final = NameRow()


class Identifier:
    """Tells whom a document means by a name.

    Args:
        names: The decisions about every name that is asked for.
        uses: Document id → how it uses its names; needed for names of several senses only.
    """

    def __init__(self, names: Names, uses: Mapping[str, Mapping[str, NameUse]]) -> None:
        self._names = names
        self._uses = uses
        self._known: dict[str, Identity] = {}

    def __call__(self, document_id: str, name: str) -> Identity:
        """The entity that a document speaks of by a name."""
        known = self._known.get(name)
        if known is not None:
            return known
        key = entity_key(name)
        if self._names.senses(key):
            return self._names.entity(key, self._uses.get(document_id, {}).get(key))
        known = self._known[name] = Identity(self._names.fold(key).key)
        return known


def _heads(rows: Mapping[str, NameRow]) -> dict[str, Fold]:
    """For each name of a group that is in use, the first one it is a variant of: the shortest, then the first in order."""
    living = [key for key, row in rows.items() if row.documents and not row.apart]
    if len(living) == 1:
        return {living[0]: Fold(living[0], None)}
    found: dict[str, Fold] = {}
    heads: list[str] = []
    for key in sorted(living, key=lambda key: (len(key), key)):
        for head in heads:
            kind = _variant(key, rows[key], head, rows[head])
            if kind is not None:
                found[key] = Fold(head, kind)
                break
        else:
            heads.append(key)
            found[key] = Fold(key, None)
    return found


def _variant(key: str, row: NameRow, head: str, head_row: NameRow) -> SpellingKind | None:
    """How a name is a variant of another one; None if it is not, or the documents speak against it."""
    kind = spelling_kind(key, head)
    if kind is None or _conflict(row, head_row):
        return None
    guard = _GUARDS.get(kind)
    return kind if guard is None or guard(key, row, head, head_row) else None


def _short(key: str, row: NameRow, head: str, head_row: NameRow) -> bool:
    if len(group_key(key)) > _SHORT_NAME:
        return True
    return _look(row) in ("acronym", "") and _look(head_row) in ("acronym", "")


def _same_after_article(key: str, row: NameRow, head: str, head_row: NameRow) -> bool:
    """One word may be another thing without its article, so something must speak for it: ``The Office``, ``La Victoria``."""
    if bare_words(head) > 1:
        return True
    kinds, looks = (_kind(row), _kind(head_row)), (_look(row), _look(head_row))
    if kinds[0] == kinds[1] and kinds[0] not in ("", "Concept"):
        return True
    return looks == ("proper", "proper") and "" in kinds and key.startswith(("the ", "l'"))


def _of_people(_: str, row: NameRow, __: str, head_row: NameRow) -> bool:
    """Only people have titles: ``General Motors Company`` is no general."""
    return {_kind(row), _kind(head_row)} <= {"Person", ""}


def _countable(_: str, row: NameRow, head: str, head_row: NameRow) -> bool:
    """Common nouns have a plural; what has a capital inside a sentence is a name, and its plural another one."""
    kinds, looks = (_kind(row), _kind(head_row)), (_look(row), _look(head_row))
    if not _COUNTABLE.issuperset(kinds):
        return False
    if set(looks) == {"acronym", "acronyms"} or kinds == ("Concept", "Concept") or looks == ("common", "common"):
        return True
    told = all(kind or look == "common" for kind, look in zip(kinds, looks, strict=True))
    return told and "proper" not in looks and bare_words(head) > 1


_GUARDS: Final = {"spacing": _short, "article": _same_after_article, "honorific": _of_people, "plural": _countable}


def _conflict(one: NameRow, other: NameRow) -> bool:
    """Whether two names stand for a person and for something else, or for people with different lives."""
    if {_side(one), _side(other)} == {"person", "other"}:
        return True
    if not one.lives or not other.lives:
        return False
    return not any(_same_life(a, b) for a in _first_lives(one) for b in _first_lives(other))


def _first_lives(row: NameRow) -> frozenset[str]:
    senses = senses_of(row)
    return senses[0].lives if senses and senses[0].lives else frozenset(row.lives)


def _sides(row: NameRow) -> tuple[int, int]:
    """In how many documents it stands for a person, and for something else that is no concept."""
    person = row.kinds.get("Person", 0)
    return person, sum(row.kinds.values()) - person - row.kinds.get("Concept", 0)


def _side(row: NameRow) -> str:
    person, other = _sides(row)
    if person > other:
        return "person"
    return "other" if other else ""


def _kind(row: NameRow) -> str:
    return _most(row.kinds)


def _look(row: NameRow) -> str:
    return _most(row.looks)


def _most(counts: Mapping[str, int]) -> str:
    return max(counts, key=lambda value: (counts[value], value), default="")


def senses_of(row: NameRow) -> tuple[Sense, ...]:
    """The things a name stands for, the most frequent first; empty if it is one, or a user said so."""
    person, other = _sides(row)
    if row.whole or not ((person and other) or len(row.lives) > 1):
        return ()
    split = person > 0 and other > 0 and _MINORITY * min(person, other) >= max(person, other)
    lives = _people(row.lives) if split or person >= other else []
    people = [Sense(str(_born(min(life))), person=True, lives=frozenset(life)) for life in lives]
    if not split:
        return (_bare(people[0], other=True), *people[1:]) if len(people) > 1 else ()
    if len(people) < 2:
        people = [Sense("Person", person=True, lives=frozenset(row.lives))]
    things = {kind: count for kind, count in row.kinds.items() if kind not in ("Person", "Concept")}
    thing = Sense(_most(things), other=True)
    return (_bare(people[0]), *people[1:], thing) if person > other else (_bare(thing), *people)


def _bare(sense: Sense, *, other: bool = False) -> Sense:
    return Sense("", sense.person, sense.other or other, sense.lives)


def _label(senses: Iterable[Sense], use: NameUse | None) -> str:
    """The label of the sense a document uses a name in: the first that fits; the bare name if nothing tells."""
    if use is None or not (use.kind or use.life):
        return ""
    fitting = [sense for sense in senses if _fits(sense, use)]
    by_life = [sense for sense in fitting if use.life in sense.lives]
    return next((sense.label for sense in (*by_life, *fitting)), "")


def _fits(sense: Sense, use: NameUse) -> bool:
    if use.kind == "Person" or use.life:
        return sense.person
    return sense.other and use.kind != "Concept"


def _people(lives: Mapping[str, int]) -> list[list[str]]:
    """Life dates that may be of one person together, those of most documents first, then the earliest."""
    people: list[list[str]] = []
    for life in sorted(lives):
        same = [person for person in people if any(_same_life(life, other) for other in person)]
        people = [person for person in people if person not in same]
        people.append(sorted({life, *(other for person in same for other in person)}))
    return sorted(people, key=lambda person: (-sum(lives[life] for life in person), person))


def _same_life(one: str, other: str) -> bool:
    death, other_death = one[5:], other[5:]
    return abs(_born(one) - _born(other)) <= _SAME_YEAR or (bool(death) and death == other_death)


def _born(life: str) -> int:
    return int(life[:4])
