"""The length of any part of one text in tokens, from one pass of the tokenizer."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from typing import Final

from easy_knowledge_retriever.text.tokenizer import Tokenizer, token_offsets

__all__ = ["TokenRuler", "trimmed"]

_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f")
_BACKTRACK: Final = 200
"""How far back a cut looks for a blank; a longer word is cut."""


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without blanks at its ends; empty at ``start`` if there is nothing else."""
    inside = text[start:end]
    left = len(inside) - len(inside.lstrip())
    if left == len(inside):
        return start, start
    return start + left, start + len(inside.rstrip())


class TokenRuler:
    """Measures parts of a text and finds places in it by tokens.

    A part counts the tokens of the whole text that begin in it. Cut out and encoded alone it may differ by a token at its ends.

    Args:
        tokenizer: Counts.
        text: The whole text.
    """

    def __init__(self, tokenizer: Tokenizer, text: str) -> None:
        self.text = text
        self._tokenizer = tokenizer
        self._starts = token_offsets(tokenizer, text)

    def between(self, start: int, end: int) -> int:
        """Tokens of ``text[start:end]``."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def exactly(self, start: int, end: int) -> int:
        """Tokens of ``text[start:end]`` when it is encoded alone."""
        return len(self._tokenizer.encode(self.text[start:end]))

    def fitting(self, start: int, end: int, size: int) -> tuple[int, int]:
        """The end of the longest slice from ``start`` that is at most ``size`` tokens when encoded alone, and how many they are.

        Both ends are not blank; ``text[start]`` must not be. A single character is never cut, so one of more tokens is too long.
        """
        stop, room = end, size
        if self.between(start, end) > size:
            stop = self.after(start, room, end)
        stop = trimmed(self.text, start, stop)[1]
        while (tokens := self.exactly(start, stop)) > size and stop - start > 1:
            room = max(room - (tokens - size), 1)
            shorter = self.after(start, room, stop)
            stop = trimmed(self.text, start, shorter if shorter < stop else start + (stop - start + 1) // 2)[1]
        return stop, tokens

    def after(self, start: int, tokens: int, limit: int) -> int:
        """Where a slice of at most so many tokens from ``start`` ends: at a blank, or in a long word between characters.

        It is beyond ``start`` and at most ``limit``, which must be beyond ``start`` too.
        """
        index = bisect_left(self._starts, start) + tokens
        end = self._starts[index] if index < len(self._starts) else limit
        return limit if end >= limit else self._at_border(start, end)

    def before(self, end: int, tokens: int, limit: int) -> int:
        """Where a slice of at most so many tokens that ends at ``end`` begins: at a word, between ``limit`` and ``end``."""
        index = max(bisect_left(self._starts, end) - tokens, 0)
        start = max(self._starts[index], limit) if index < len(self._starts) else end
        while limit < start < end and not self.text[start - 1].isspace():
            start += 1
        return min(start, end)

    def _at_border(self, start: int, end: int) -> int:
        for place in range(end, max(start, end - _BACKTRACK), -1):
            if self.text[place].isspace() or self.text[place - 1].isspace():
                return place
        for place in range(end, max(start, end - _BACKTRACK), -1):
            if not self._inside_character(place):
                return place
        return max(end, start + 1)

    def _inside_character(self, place: int) -> bool:
        following = self.text[place]
        return following in _JOINERS or self.text[place - 1] == "\u200d" or bool(unicodedata.combining(following))
