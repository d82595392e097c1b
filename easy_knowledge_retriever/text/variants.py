"""Spellings of one name that differ by more than case and accents: what two names have in common, and what tells them apart.

Everything here is a function of the names alone. Whether two names that could be variants *are* is decided with what the
documents say of them, in ``operations.resolution``.
"""

from __future__ import annotations

import functools
import re
from typing import Final, Literal

__all__ = ["SpellingKind", "bare_words", "group_key", "is_acronym_of", "spelling_kind"]

SpellingKind = Literal["spacing", "acronym", "article", "honorific", "plural"]
"""How two spellings differ: blanks, hyphens and points; the acronym in parentheses after the name; ``The`` before it; a title
before a person's name; the number."""

_ARTICLE: Final = re.compile(r"(?:the|les?|la)\s+(?=\S)|l'(?=[^\W\d_]{3})")
_HONORIFICS: Final = (
    "dr|doctor|mr|mrs|ms|miss|mx|prof|professor|sir|dame|rev|reverend|hon|president|senator|captain|capt|colonel|col|"
    "lieutenant|lt|sergeant|sgt|docteur|pr|professeur|mme|madame|mlle|mademoiselle|monsieur|maitre|mgr|monseigneur|"
    "presidente|senateur|capitaine|lieutenant-colonel"
)
_INITIALS_ASIDE: Final = r"m\.\s+(?=[^\W\d_]{3,}\s+\S)"
"""``M. Jean Dupont`` has a title, ``M. S. Swaminathan`` has initials."""
_BEFORE: Final = re.compile(rf"(?:{_HONORIFICS})\.?\s+(?=\S+\s+\S)|{_INITIALS_ASIDE}")
_AFTER: Final = re.compile(r",?\s+(?:ph\.?d|m\.?d|esq)\.?$")
_OWN_ACRONYM: Final = re.compile(r"(.+?)\s*\(([^\W\d_]{2,8})\)$")
_AND: Final = frozenset(("and", "et", "und"))
_SEPARATOR: Final = re.compile(r"(?:(?<=\d),(?=\d))|[\s\-,:]+")
_POINT: Final = re.compile(r"(?<=\w)\.(?!\d)|(?<=[^\W\d_])\.(?=\d)")
_SILENT: Final = str.maketrans("", "", "'\"")
_ELISION: Final = re.compile(r"\b(?:[dl]|qu)'")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_SMALL: Final = frozenset(
    "of the and for in on to a an at by de du des la le les et en pour sur sous aux au un une d l und der die das von".split()
)
"""Words that an acronym leaves out."""
_IRREGULAR: Final = {
    "men": "man", "women": "woman", "children": "child", "mice": "mouse", "feet": "foot", "teeth": "tooth", "geese": "goose",
    "criteria": "criterion", "phenomena": "phenomenon", "indices": "index", "matrices": "matrix", "vertices": "vertex",
    "wolves": "wolf", "knives": "knife", "shelves": "shelf", "halves": "half", "travaux": "travail", "vitraux": "vitrail",
}  # fmt: skip
_INVARIANT: Final = frozenset(
    "news arms customs goods means glasses mars paris james times works series species lens texas kansas athens naples wales "
    "cannes nantes calais hermes davis adams lewis harris prix temps corps fils bras pays cours poids voix choix noix".split()
)
"""Words that look like a plural and are none, or mean something else than their singular."""
_SHORTEST: Final = 4
"""Letters of a word that may be a plural."""


@functools.lru_cache(maxsize=1 << 15)
def group_key(key: str) -> str:
    """What all names that may be variants of each other have in common.

    Args:
        key: A folded name, see :func:`~easy_knowledge_retriever.text.folding.entity_key`.
    """
    return _joined([_singular(word) for word in _words(_bare(key))])


def spelling_kind(one: str, other: str) -> SpellingKind | None:
    """The least difference that makes two names variants of each other; None if they are not.

    Args:
        one: A folded name.
        other: Another one.
    """
    if group_key(one) != group_key(other):
        return None
    (a, acronym), (b, other_acronym) = _without_own_acronym(one), _without_own_acronym(other)
    if _joined(_words(a)) == _joined(_words(b)):
        return "acronym" if acronym != other_acronym else "spacing"
    if _joined(_words(_without_article(a))) == _joined(_words(_without_article(b))):
        return "article"
    return "honorific" if _joined(_words(_bare(one))) == _joined(_words(_bare(other))) else "plural"


def bare_words(key: str) -> int:
    """How many words a folded name has without an article, a title and its acronym."""
    return len(_words(_bare(key)))


def is_acronym_of(acronym: str, name: str) -> bool:
    """Whether the letters are the initials of the words, in order. Small words count or not; one other word may be left out.

    ``CNIL`` is one of ``Commission nationale de l'informatique et des libertés``, ``EPP`` is none of ``European Parliament``.
    """
    letters = [letter.lower() for letter in acronym if letter.isalnum()]
    words = _SEPARATOR.split(_ELISION.sub(" ", _CAMEL.sub(" ", name).lower()))
    initials = [(word[0], word in _SMALL) for word in words if word and word[0].isalnum()]
    if len(letters) < 2 or sum(1 for _, small in initials if not small) < 2:
        return False
    if initials[0][0] != letters[0]:
        return False
    # how many letters are spelt and how many words were left out so far, in every way there is
    ways = {(1, 0)}
    for initial, small in initials[1:]:
        spelt = {(count + 1, left) for count, left in ways if letters[count : count + 1] == [initial]}
        ways = spelt | {(count, left if small else left + 1) for count, left in ways if small or left < 1}
    return any(count == len(letters) for count, _ in ways)


def _bare(key: str) -> str:
    """A name without article, titles and its own acronym."""
    return _without_titles(_without_article(_without_own_acronym(key)[0]))


def _without_article(name: str) -> str:
    match = _ARTICLE.match(name)
    return name[match.end() :] if match else name


def _without_own_acronym(key: str) -> tuple[str, bool]:
    """``european union (eu)`` without its end, and whether it had one."""
    match = _OWN_ACRONYM.match(key) if key.endswith(")") else None
    if match is not None and is_acronym_of(match.group(2), match.group(1)):
        return match.group(1), True
    return key, False


def _without_titles(name: str) -> str:
    """Without titles, where a first and a last name remain."""
    while _BEFORE.match(name):
        name = _BEFORE.sub("", name, count=1)
    shorter = _AFTER.sub("", name)
    return shorter if " " in shorter else name


def _words(name: str) -> list[str]:
    words: list[str] = []
    for word in _SEPARATOR.split(name.translate(_SILENT)):
        if word:
            words.append("&" if word in _AND and words else word)
    return words or [name]


def _joined(words: list[str]) -> str:
    """The words without what stands between them; figures never run together, nor do single letters beside words."""
    together = "".join(words)
    if together.isalpha() and all(len(word) > 1 for word in words):
        return together
    spelt = all(len(word.rstrip(".")) == 1 for word in words)
    text = before = ""
    for word in words:
        plain = _POINT.sub("", word)
        digits = before[-1:].isdigit() and plain[:1].isdigit()
        letters = not spelt and len(before) == len(word) == 1 and before.isalpha() and word.isalpha()
        text += f" {plain}" if digits or letters else plain
        before = plain if len(plain) > 1 else word
    return text


def _singular(word: str) -> str:
    """One form for both numbers of a word, English or French. It need not be a word: it is only compared."""
    plain = _POINT.sub("", word) if "." in word else word
    if plain in _IRREGULAR:
        return _IRREGULAR[plain]
    if len(plain) < _SHORTEST or plain in _INVARIANT or not plain.isalpha():
        return word
    for ending, singular, shortest in _ENDINGS:
        if plain.endswith(ending) and len(plain) >= shortest:
            return plain[: len(plain) - len(ending)] + singular
    return word


_ENDINGS: Final = (
    ("ics", "ics", 4),
    ("sis", "se", 6),
    ("ies", "y", 5),
    ("ie", "y", 5),
    ("eaux", "eau", 5),
    ("aux", "al", 6),
    ("eux", "eu", 4),
    ("oux", "ou", 5),
    *((f"{end}es", end, 5) for end in ("x", "z", "ch", "sh", "ss")),
    *((f"{end}e", end, 4) for end in ("x", "z", "ch", "sh", "ss")),
    ("ss", "ss", 4),
    ("us", "us", 4),
    ("is", "is", 4),
    ("s", "", 4),
)
"""Endings of plurals and what stands there in the singular, the first that fits, for words of at least so many letters."""
