"""A text with spans of it replaced, and where its positions went."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

__all__ = ["Edit", "Edited"]

Edit = tuple[int, int, str]
"""A span of a text and what stands there instead."""


class Edited:
    """A text with spans of it replaced.

    Args:
        text: As it was.
        edits: In order, none inside another.
    """

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._edits = edits
        self._ends = [end for _, end, _ in edits]
        self._shifts = [0]
        pieces, position = [], 0
        for start, end, new in edits:
            self._shifts.append(self._shifts[-1] + len(new) - (end - start))
            pieces += [text[position:start], new]
            position = end
        self.text = "".join([*pieces, text[position:]])
        """As it is now."""

    def moved(self, position: int) -> int:
        """Where a position of the old text is in the new one."""
        before = bisect_right(self._ends, position)
        moved = position + self._shifts[before]
        if before == len(self._edits):
            return moved
        start, _, new = self._edits[before]
        return moved if position <= start else moved - max(0, position - start - len(new))
