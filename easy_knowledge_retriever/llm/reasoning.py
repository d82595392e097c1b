"""Takes the reasoning of thinking models out of their text, whole or streamed."""

from __future__ import annotations

import re

__all__ = ["ReasoningFilter", "without_reasoning"]

_OPEN = "<think>"
_CLOSE = "</think>"
_ANY = re.compile(f"{_OPEN}|{_CLOSE}", re.IGNORECASE)
_TAGS = {tag: re.compile(tag, re.IGNORECASE) for tag in (_OPEN, _CLOSE)}


def without_reasoning(text: str) -> str:
    """The text without ``<think>`` blocks, closed or not.

    A closing tag alone ends a block that the server's chat template opened: what stands before it is reasoning too.
    """
    first = _ANY.search(text)
    if first and len(first[0]) == len(_CLOSE):
        text = text[first.end() :]
    reasoning = ReasoningFilter()
    return (reasoning.feed(text) + reasoning.rest()).strip()


class ReasoningFilter:
    """Takes ``<think>`` blocks out of a text that comes in pieces, also where a piece ends within a tag."""

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._held += piece
        shown: list[str] = []
        while self._held:
            tag = _CLOSE if self._thinking else _OPEN
            found = _TAGS[tag].search(self._held)
            cut = found.start() if found else len(self._held) - _beginning_of(tag, self._held)
            if not self._thinking:
                shown.append(self._held[:cut])
            if not found:
                self._held = self._held[cut:]
                break
            self._held = self._held[found.end() :]
            self._thinking = not self._thinking
        return "".join(shown)

    def rest(self) -> str:
        """What was held back as a possible tag and is none after all, now that the text is over."""
        held, self._held = self._held, ""
        return "" if self._thinking else held


def _beginning_of(tag: str, text: str) -> int:
    """Length of the longest end of the text that the tag begins with."""
    longest = min(len(text), len(tag) - 1)
    return next((size for size in range(longest, 0, -1) if tag.startswith(text[-size:].lower())), 0)
