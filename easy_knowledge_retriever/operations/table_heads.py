"""The head of a table beside each slice that begins inside it."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from easy_knowledge_retriever.types import Document

__all__ = ["TableHeads"]

_LONGEST: Final = 400
"""Characters; a first row longer than this is text, not the names of columns."""
_RULE: Final = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\n?")
"""The line below the head of a table in Markdown."""


class TableHeads:
    """Finds the first row of the table that a place of a document stands in.

    Args:
        document: A parsed document.
    """

    def __init__(self, document: Document) -> None:
        self._text = document.text
        self._tables = sorted((block.start, block.end) for block in document.blocks if block.kind == "table")

    def of(self, start: int) -> str:
        """The first row of the table, if ``start`` is in one and beyond this row; else empty."""
        at = bisect_left(self._tables, start, key=lambda span: span[0]) - 1
        if at < 0 or start >= self._tables[at][1]:
            return ""
        first, last = self._tables[at]
        line = self._text.find("\n", first, last)
        row = self._text[first:line].strip() if line >= 0 else ""
        if not row or len(row) > _LONGEST or start <= line or _RULE.fullmatch(row):
            return ""
        return row
