"""What a reader may see of an answer while a model is still writing it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from easy_knowledge_retriever.operations.citation_markers import CLOSING, LONGEST, OPENING, markers_in
from easy_knowledge_retriever.types import Passage

__all__ = ["ShownText", "unescaped"]

_ESCAPE = re.compile(r"&(?:amp|lt|gt|quot|#x27);")
_LONGEST_ESCAPE = 6
_AHEAD = 12
"""Characters after a bracket that tell whether it cites."""
_BEFORE = 2000
"""Characters kept before what is not shown yet: they tell it too."""
_FENCES = ("```", "~~~")


def unescaped(text: str) -> str:
    """The text without the escapes of the context; nothing else that looks like one is touched."""
    return _ESCAPE.sub(lambda match: html.unescape(match[0]), text)


class ShownText:
    """A text that comes in pieces, without leading white space, copied escapes and citations of passages that do not exist.

    What cannot be decided yet (half an escape, an open bracket) is held back until it can. Everything else of a citation is
    checked when the text is whole: this only keeps a reader from seeing a number that will be taken away. In code a bracket
    may be anything, so a text is shown as it is from the first block of code on.

    Args:
        passages: What the model was given; None where nothing was, and the text is shown as it comes.
    """

    def __init__(self, passages: Sequence[Passage] | None) -> None:
        self._passages = passages
        self._known = {passage.number for passage in passages or ()}
        self._escaped = ""
        self._held = ""
        self._before = ""
        self._begun = False
        self._code = False

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        if self._passages is None:
            return self._trimmed(piece)
        text = self._escaped + piece
        start = text.rfind("&", -_LONGEST_ESCAPE)
        cut = len(text) if start < 0 or ";" in text[start:] else start
        self._escaped = text[cut:]
        return self._decided(unescaped(text[:cut]), whole=False)

    def rest(self) -> str:
        """What was held back, now that the text is whole."""
        return self._decided(unescaped(self._escaped), whole=True)

    def _decided(self, text: str, *, whole: bool) -> str:
        window = f"{self._before}{self._held}{text}"
        first = len(self._before)
        self._code = self._code or any(fence in window for fence in _FENCES)
        cut = len(window) if whole else _undecided(window, first)
        pieces, position = [], first
        for start, end in self._unknown(window, first):
            if not whole and len(window) - end < _AHEAD:
                cut = min(cut, len(window[:start].rstrip(" \t")))
                break
            pieces.append(window[position:start])
            position = end
        pieces.append(window[position : max(cut, position)])
        cut = max(cut, position)
        self._held, self._before = window[cut:], window[max(cut - _BEFORE, 0) : cut]
        return self._trimmed("".join(pieces))

    def _unknown(self, window: str, first: int) -> list[tuple[int, int]]:
        """Spans of the citations that name no passage that was given, those side by side as one, with the blanks before."""
        if self._code or not any(bracket in window[first:] for bracket in OPENING):
            return []

        def found(passages: Sequence[str]) -> list[tuple[int, int]]:
            spans: list[tuple[int, int]] = []
            for marker in markers_in(window, passages):
                named = {one.number for one in marker.cited}
                if marker.start < first or not named or named & {0, *self._known} or _in_code(window, marker.start):
                    continue
                joined = spans.pop()[0] if spans and spans[-1][1] == marker.start else marker.start
                spans.append((joined, marker.end))
            return [(_span_start(window, start, end), end) for start, end in spans]

        # Only a citation that seems to be none of ours is worth a look at the footnotes of the passages.
        return found([passage.chunk.text for passage in self._passages or ()]) if found(()) else []

    def _trimmed(self, text: str) -> str:
        if self._begun:
            return text
        text = text.lstrip()
        self._begun = bool(text)
        return text


def _in_code(text: str, position: int) -> bool:
    return text.count("`", text.rfind("\n", 0, position) + 1, position) % 2 == 1


def _span_start(text: str, start: int, end: int) -> int:
    """Where what is taken away begins: blanks go with it, unless they part two words."""
    follows = text[end : end + 1]
    return start if follows.isalnum() or follows in (*OPENING, "(") else len(text[:start].rstrip(" \t"))


def _undecided(window: str, first: int) -> int:
    """Where the text begins that more text may still change: an open bracket, or blanks at the end."""
    opened = max(window.rfind(bracket) for bracket in OPENING)
    after = window[opened:]
    cut = len(window)
    if opened >= first and len(after) <= LONGEST + 2 and not any(end in after for end in (*CLOSING, "\n")):
        cut = opened
    return max(first, len(window[:cut].rstrip(" \t")))
