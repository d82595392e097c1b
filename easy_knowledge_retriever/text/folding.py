"""Case and accents put aside, so that spellings of one word or name compare equal."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Final

__all__ = ["entity_key", "fold"]

_LETTERS: Final = {
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "þ": "th", "æ": "ae", "œ": "oe",
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "´": "'", "`": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-",
}  # fmt: skip
_ACCENTS: Final = range(0x0300, 0x0370)
_SILENT: Final = frozenset(
    (
        *_ACCENTS,
        0x00AD,
        0x0640,
        0x0670,
        *range(0x0591, 0x05BE),
        0x05BF,
        *range(0x064B, 0x0660),
        *range(0x200B, 0x2010),
        0x2060,
        0xFEFF,
    )
)
"""Marks that change no word: accents, soft hyphen, Arabic and Hebrew vowel points, zero-width characters."""
_SCRIPTS_WITH_ACCENTS: Final = ("LATIN", "GREEK")


class _FoldingTable(dict[int, str]):
    """A translation table that learns a character when it first meets it."""

    def __missing__(self, code: int) -> str:
        folded = _folded(code)
        self[code] = folded
        return folded


def _folded(code: int) -> str:
    """One composed character without its accent. In other scripts the mark is part of the letter (``й``, ``が``) and stays."""
    if code in _SILENT:
        return ""
    character = chr(code)
    if character in _LETTERS:
        return _LETTERS[character]
    if not unicodedata.name(character, "").startswith(_SCRIPTS_WITH_ACCENTS):
        return character
    bare = "".join(c for c in unicodedata.normalize("NFD", character) if ord(c) not in _ACCENTS)
    return "".join(_LETTERS.get(c, c) for c in bare)


_TABLE: Final = _FoldingTable()


def fold(text: str) -> str:
    """The text in lower case and compatibility form, without accents, quotes and dashes of one kind. Twice equals once."""
    if text.isascii():
        return text.lower().replace("`", "'")
    folded = _once(text)
    while folded != (again := _once(folded)):
        folded = again
    return folded


def _once(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_TABLE)


_SPACE: Final = re.compile(r"\s+")
_LEADING: Final = "\"',;:"
_TRAILING: Final = "\"',;:."
_WRAPPERS: Final = {"(": ")", "[": "]", "{": "}", "<": ">", "*": "*", "_": "_"}


@functools.lru_cache(maxsize=1 << 15)
def entity_key(name: str) -> str:
    """The identity of an entity: its name folded, blanks collapsed, quotes and wrapping punctuation taken off.

    It is cautious: plurals, articles, abbreviations and everything inside the name stay, and so do ``C++``, ``C#``, ``.NET`` and
    ``Yahoo!``. Joining two variants that differ by more is a step of its own (``operations.resolution``).
    """
    plain = _SPACE.sub(" ", fold(name)).strip()
    key = plain
    while key:
        shorter = _unwrapped(key.lstrip(_LEADING).rstrip(_TRAILING).strip())
        if shorter == key:
            return key
        key = shorter
    return plain


def _unwrapped(key: str) -> str:
    """Without one pair of brackets or of emphasis marks around the whole name."""
    first, last = key[:1], key[-1:]
    if len(key) < 3 or _WRAPPERS.get(first) != last:
        return key
    inner = key.strip(first) if first == last else key[1:-1]
    return key if {first, last} & set(inner) else inner.strip()
