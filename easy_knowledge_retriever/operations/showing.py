"""What a reader may see of an answer while a model is still writing it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from easy_knowledge_retriever.operations.citation_markers import (
    CLOSING,
    LONGEST,
    OPENING,
    Marker,
    markers_in,
    open_code,
    open_fence,
    take_out,
)
from easy_knowledge_retriever.operations.editing import Edit
from easy_knowledge_retriever.types import Passage

__all__ = ["ShownText", "unescaped"]

_ESCAPE = re.compile(r"&(?:amp|lt|gt|quot|#x27);")
_LONGEST_ESCAPE = 6
_AHEAD = 12
"""Characters after a bracket that tell whether it cites."""
_BEFORE = 2000
"""Characters kept, with the whole of their first line, before what is not shown yet: they tell it too."""


def unescaped(text: str) -> str:
    """The text without the escapes of the context; nothing else that looks like one is touched."""
    return _ESCAPE.sub(lambda match: html.unescape(match[0]), text)


class ShownText:
    """A text that comes in pieces, without leading white space, copied escapes and citations of passages that do not exist.

    What cannot be decided yet (half an escape, an open bracket, one that code may turn out to hold) is held back until it can,
    at the end of the line at last, so the same is shown however the text was cut. Everything else of a citation is checked when
    the text is whole: this only keeps a reader from seeing a number that will be taken away.

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
        cut = len(window) if whole else _undecided(window, first)
        edits: list[Edit] = []
        for marker in self._unknown(window, first):
            if not whole and (marker.end >= cut or len(window) - marker.end < _AHEAD):
                cut = min(cut, _before_all(window, marker.start, edits))
                break
            take_out(window, marker, edits)
        pieces, position = [], first
        for start, end, new in edits:
            pieces += [window[position:start], new]
            position = end
        cut = max(cut, position)
        pieces.append(window[position:cut])
        self._held, self._before = window[cut:], _kept(window[:cut])
        return self._trimmed("".join(pieces))

    def _unknown(self, window: str, first: int) -> list[Marker]:
        """The citations, in what is not shown yet, of which none names a passage that was given."""
        if not any(bracket in window[first:] for bracket in OPENING):
            return []
        if not any(marker.start >= first for marker in markers_in(window)):  # the footnotes of the passages can wait
            return []
        markers = markers_in(window, [passage.chunk.text for passage in self._passages or ()])
        return [m for m in markers if m.start >= first and not self._known.intersection(one.number for one in m.cited)]

    def _trimmed(self, text: str) -> str:
        if self._begun:
            return text
        text = text.lstrip()
        self._begun = bool(text)
        return text


def _before_all(text: str, start: int, edits: list[Edit]) -> int:
    """Where the citations end in one that is not decided, side by side with it, begin with their blanks; their edits go."""
    while edits and edits[-1][1] == start:
        start = edits.pop()[0]
    return len(text[:start].rstrip(" \t"))


def _undecided(window: str, first: int) -> int:
    """Where the text begins that more text may still change: an open bracket, one in what may be code, or blanks at the end."""
    opened = max(window.rfind(bracket) for bracket in OPENING)
    after = window[opened:]
    cut = len(window)
    if opened >= first and len(after) <= LONGEST + 2 and not any(end in after for end in (*CLOSING, "\n")):
        cut = opened
    code = max(first, open_code(window))
    cut = min([cut, *(at for bracket in OPENING if (at := window.find(bracket, code)) >= 0)])
    return max(first, len(window[:cut].rstrip(" \t")))


def _kept(text: str) -> str:
    """The last lines of a text, as they are to be read: in the block of code that they stand in."""
    start = text.rfind("\n", 0, max(len(text) - _BEFORE, 0)) + 1
    fence = open_fence(text[:start])
    return f"{fence}\n{text[start:]}" if fence else text[start:]
