"""How a document uses its names: what kind of thing each stands for, how it is written, whose life dates, which acronyms.

It is a function of the chunks and extractions of one document, so that what the documents of a base say together can be
counted up and down, whatever the order they come and go in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from easy_knowledge_retriever.operations.references import is_numbered
from easy_knowledge_retriever.text.folding import entity_key, fold
from easy_knowledge_retriever.text.variants import bare_words, is_acronym_of
from easy_knowledge_retriever.types import Chunk, EntityMention, Expansion, Extraction, NameUse, Naming

__all__ = ["LONGEST_NAME", "kind_of", "naming_of"]

LONGEST_NAME: Final = 100
"""Characters; a longer name is a sentence, and nobody writes a variant of it."""

_KINDS: Final = {
    "person": "Person", "people": "Person", "human": "Person", "personne": "Person",
    "organization": "Organization", "organisation": "Organization", "company": "Organization", "institution": "Organization",
    "location": "Location", "place": "Location", "city": "Location", "country": "Location", "geo": "Location", "lieu": "Location",
    "event": "Event", "événement": "Event", "content": "Content", "work": "Content", "œuvre": "Content",
    "artifact": "Thing", "naturalobject": "Thing", "product": "Thing", "creature": "Thing", "object": "Thing",
    "concept": "Concept", "method": "Concept", "data": "Concept", "action": "Concept", "technology": "Concept",
}  # fmt: skip
_SHORT: Final = re.compile(r"[A-Z](?:\.?[A-Z0-9&]){1,7}\.?")
_SHORTS: Final = re.compile(r"[A-Z][A-Z0-9]{1,7}s")
_STATED: Final = re.compile(r"[A-Z](?:[A-Za-z0-9&]|\.(?=[A-Z]))*[A-Z0-9](?:s|\.)?")
_LONGEST_ACRONYM: Final = 10
_IN_PARENTHESES: Final = re.compile(r"\(([^()\n]{2,100})\)")
_WORD_BEFORE: Final = re.compile(r"([^\s(]+)\s*$")
_BORN: Final = re.compile(r",?\s(?:(?:was|is|est)\s)?(?:born|née?)\s[^.;()\n]{0,40}?\b(1\d{3}|20\d\d)\b")
_BORN_INSIDE: Final = re.compile(r"\s*(?:born|b\.|née?|\*)\s[^;]{0,40}?\b(1\d{3}|20\d\d)\b")
_YEAR: Final = re.compile(r"\b(?:1\d{3}|20\d\d)\b")
_DASH: Final = re.compile(r"\s*[-–—]\s*")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_DATE_WORDS: Final = frozenset(
    "january february march april may june july august september october november december janvier fevrier mars avril mai juin "
    "juillet aout septembre octobre novembre decembre c ca circa vers born died b d ne nee mort morte le en on in "
    "st nd rd th er".split()
)
_LIFE_YEARS: Final = range(25, 111)
"""Years between two dates in parentheses that are taken for birth and death; a reign is mostly shorter."""
_BEFORE: Final = 110
"""Characters before a parenthesis in which the name it belongs to is looked for."""
_SENTENCE_ENDS: Final = frozenset(".!?:;\n•*#|-–—")


@dataclass(slots=True)
class _Votes:
    """What the mentions of one name in one document say of it."""

    kinds: Counter[str] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    lives: set[str] = field(default_factory=set)

    def use(self) -> NameUse:
        """The use they agree on; what they do not agree on is left open."""
        kind = self._kind()
        life = _one_life(self.lives) if kind in ("", "Person") else ""
        look = "common" if self.looks["common"] else max(self.looks, key=lambda look: (self.looks[look], look), default="")
        return NameUse(kind, look, life)

    def _kind(self) -> str:
        strong = {kind: count for kind, count in self.kinds.items() if kind != "Concept"} or dict(self.kinds)
        if "Person" in strong and len(strong) > 1:
            return ""
        return max(strong, key=lambda kind: (strong[kind], kind), default="")


def kind_of(type: str) -> str:
    """The kind of thing an entity type stands for; empty for UNKNOWN, Other and whatever else says little."""
    return _KINDS.get(type.lower(), "")


def naming_of(chunks: Sequence[Chunk], extractions: Iterable[Extraction]) -> Naming:
    """How a document uses the names in it.

    Args:
        chunks: All its chunks.
        extractions: What they say, from every source.
    """
    texts = {chunk.id: chunk.text for chunk in chunks}
    mentions: dict[str, dict[str, list[EntityMention]]] = {}
    for extraction in extractions:
        by_key = mentions.setdefault(extraction.chunk_id, {})
        for mention in extraction.entities:
            if len(mention.name) <= LONGEST_NAME and not is_numbered(mention.name):
                by_key.setdefault(entity_key(mention.name), []).append(mention)
    votes: dict[str, _Votes] = {}
    expansions: dict[tuple[str, str], str] = {}
    for chunk_id, text in texts.items():
        by_key = mentions.get(chunk_id, {})
        for key, found in by_key.items():
            _count(votes.setdefault(key, _Votes()), found, text)
        for key, life in _lives(text, by_key):
            votes[key].lives.add(life)
        for acronym, name in _expansions(text, by_key):
            expansions.setdefault((acronym, name), chunk_id)
    return Naming(
        uses={key: votes[key].use() for key in sorted(votes)},
        expansions=tuple(Expansion(*pair, chunk_id) for pair, chunk_id in sorted(expansions.items())),
    )


def _count(votes: _Votes, mentions: Sequence[EntityMention], text: str) -> None:
    for mention in mentions:
        kind = kind_of(mention.type)
        if kind:
            votes.kinds[kind] += 1
        if mention.description:
            life = _life_in_description(mention)
            if life and bare_words(entity_key(mention.name)) > 1:
                votes.lives.add(life)
    for name in {mention.name for mention in mentions}:
        look = _look(name, text)
        if look:
            votes.looks[look] += 1


def _look(name: str, text: str) -> str:
    """``acronym``, ``acronyms`` (``LLMs``), ``common`` (written small), ``proper`` (a capital inside a sentence), or unknown."""
    if _SHORT.fullmatch(name):
        return "acronym"
    if _SHORTS.fullmatch(name):
        return "acronyms"
    if any(word[0].islower() for word in name.split()[-1:]):
        return "common"
    small = name.lower()
    if _stands(small, text) or (" " in small and _stands(small.capitalize(), text)):
        return "common"
    at = text.find(name)
    while at >= 0:
        before = text[max(at - 4, 0) : at].rstrip(" \"'“‘«(")
        if before and before[-1] not in _SENTENCE_ENDS:
            return "proper"
        at = text.find(name, at + 1)
    return ""


def _stands(word: str, text: str) -> bool:
    """Whether a text holds a word as a whole, at its first place."""
    at = text.find(word)
    end = at + len(word)
    return at >= 0 and not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum()


def _lives(text: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Names of several words with the life dates that directly follow them.

    Before the dates of ``Jean Foy, 3rd Baronet (1810-1877)`` stands one word, and no whole name.
    """
    for match in _IN_PARENTHESES.finditer(text):
        life = _life(match.group(1))
        key = _name_before(text, match.start(), names) if life else ""
        if bare_words(key) > 1:
            yield key, life
    for match in _BORN.finditer(text) if "born " in text or " né" in text else ():
        key = _name_before(text, match.start(), names)
        if bare_words(key) > 1:
            yield key, match.group(1)


def _life(inside: str) -> str:
    """The dates in a parenthesis: ``1938-1994`` or ``1938``; empty if it is something else."""
    if born := _BORN_INSIDE.match(inside):
        return born.group(1)
    dates = inside.rsplit(";", 1)[-1]
    years, halves = _YEAR.findall(dates), _DASH.split(dates)
    words = {fold(word) for word in _LETTERS.findall(dates)}
    if len(years) != 2 or len(halves) != 2 or years[0] not in halves[0] or words - _DATE_WORDS:
        return ""
    return f"{years[0]}-{years[1]}" if int(years[1]) - int(years[0]) in _LIFE_YEARS else ""


def _life_in_description(mention: EntityMention) -> str:
    """The life dates a description gives before it speaks of anybody else."""
    text = f" {mention.description}"
    born = _BORN.search(text)
    found = [(born.start(), born.group(1))] if born else []
    found += [(match.start(), life) for match in _IN_PARENTHESES.finditer(text) if (life := _life(match.group(1)))]
    if not found:
        return ""
    at, life = min(found)
    own = set(fold(mention.name).split())
    words = _LETTERS.findall(text[:at])[1:]
    return "" if any(word[0].isupper() and fold(word) not in own for word in words) else life


def _one_life(lives: set[str]) -> str:
    """The life that all these dates are of, the most telling dates first; empty if they are of several."""
    if len({life[:4] for life in lives}) != 1:
        return ""
    return min(lives, key=lambda life: (-len(life), life))


def _expansions(text: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Acronyms with the names of the chunk they stand for: ``European Union (EU)`` and ``EU (European Union)``."""
    for match in _IN_PARENTHESES.finditer(text):
        inside = match.group(1).strip()
        if len(inside) <= _LONGEST_ACRONYM:
            if _STATED.fullmatch(inside):
                acronym = _short_form(inside)
                key = _name_before(text, match.start(), names, acronym)
                if key:
                    yield entity_key(acronym), key
        elif entity_key(inside) in names:
            before = _WORD_BEFORE.search(text, max(match.start() - 20, 0), match.start())
            if before and _STATED.fullmatch(before.group(1)) and is_acronym_of(_short_form(before.group(1)), inside):
                yield entity_key(_short_form(before.group(1))), entity_key(inside)


def _short_form(acronym: str) -> str:
    """``LLM`` for ``LLMs``."""
    return acronym[:-1] if acronym.endswith("s") and acronym[-2].isupper() else acronym


def _name_before(text: str, at: int, names: Collection[str], acronym: str = "") -> str:
    """The longest name, of one chunk, that ends right before a place; with an acronym, only one it may stand for."""
    before = fold(text[max(at - _BEFORE, 0) : at]).rstrip()
    found = [key for key in names if before.endswith(key) or (acronym and before.endswith(f"{key}s"))]
    if acronym:
        found = [key for key in found if is_acronym_of(acronym, key)]
    return max(found, key=len, default="")
