"""Where in a chunk a mention stands. Rather no span than a wrong one."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import replace
from typing import Final

from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Chunk, EntityMention, RelationMention

__all__ = ["Placing"]

_LONGEST_ACRONYM: Final = 5
_SPACELESS: Final = "\u0e00"
"""From here on scripts write words without blanks between them, or hang particles onto a name."""
_WORD: Final = re.compile(r"\w{4,}")
_BROKEN_BLANK: Final = re.compile(r"\s{2,}|[^\S ]")


class Placing:
    """Finds mentions in one chunk.

    Args:
        chunk: The chunk; spans point into the text of its document.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._offset = chunk.start
        self._text = chunk.text
        lowered = chunk.text.lower()
        # A letter that grows when lowered would shift every offset after it.
        self._lowered = lowered if len(lowered) == len(chunk.text) else chunk.text

    def entity(self, mention: EntityMention) -> EntityMention:
        """The mention with the span where its name first stands as a whole; without one if it stands nowhere."""
        found = self._find(mention.name, 0, len(self._text))
        return mention if found is None else replace(mention, start=self._offset + found[0], end=self._offset + found[1])

    def relation(self, mention: RelationMention) -> RelationMention:
        """The mention with the span of the sentence that names both ends; of several, the one nearest to its description."""
        holding = [
            (start, end)
            for start, end in self._sentences
            if self._find(mention.source, start, end) and self._find(mention.target, start, end)
        ]
        if not holding:
            return mention
        start, end = holding[0] if len(holding) == 1 else max(holding, key=functools.partial(self._common, _words(mention)))
        return replace(mention, start=self._offset + start, end=self._offset + end)

    @functools.cached_property
    def _sentences(self) -> tuple[tuple[int, int], ...]:
        return sentences(self._text)

    @functools.cached_property
    def _is_broken(self) -> bool:
        """Whether there are line breaks or runs of blanks, so that a name may be written over them."""
        return _BROKEN_BLANK.search(self._text) is not None

    def _common(self, words: frozenset[str], span: tuple[int, int]) -> int:
        return len(words.intersection(_WORD.findall(self._lowered[span[0] : span[1]])))

    def _find(self, name: str, start: int, end: int) -> tuple[int, int] | None:
        found = _whole(self._text, name, start, end)
        if found is None and not _is_acronym(name):
            found = _whole(self._lowered, name.lower(), start, end)
        if found is None and " " in name and self._is_broken:
            found = self._find_broken(name, start, end)
        return found

    def _find_broken(self, name: str, start: int, end: int) -> tuple[int, int] | None:
        flags = 0 if _is_acronym(name) else re.IGNORECASE
        pattern = re.compile(r"\s+".join(re.escape(word) for word in name.split()), flags)
        for match in pattern.finditer(self._text, start, end):
            if _stands_alone(self._text, match.start(), match.end()):
                return match.span()
        return None


def _whole(text: str, name: str, start: int, end: int) -> tuple[int, int] | None:
    """Where a name stands first as a whole, not as a part of a longer word."""
    at = text.find(name, start, end)
    while at >= 0:
        if _stands_alone(text, at, at + len(name)):
            return at, at + len(name)
        at = text.find(name, at + 1, end)
    return None


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return not (_is_one_word(before, text[start]) or _is_one_word(text[end - 1], after))


def _is_one_word(left: str, right: str) -> bool:
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    return character.isalnum() and not (character >= _SPACELESS and unicodedata.category(character) == "Lo")


def _is_acronym(name: str) -> bool:
    return len(name) <= _LONGEST_ACRONYM and name.isupper()


def _words(mention: RelationMention) -> frozenset[str]:
    return frozenset(_WORD.findall(" ".join((mention.description, *mention.keywords)).lower()))
