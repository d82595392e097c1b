"""Rows of a table on a PDF page, from its cells or, where those are muddled, from the places of its words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Cell", "table_rows"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Words that the file draws as one, which in a table are one cell, with their place on the page."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


_STACKED: Final = re.compile(r"[$€£]?[\d.,]*\d%?(?: [$€£]?[\d.,]*\d%?)+")
_FEW: Final = 2
"""So many muddled cells may be chance."""
_SHARE: Final = 0.05
_CROSSING: Final = 15
"""One cell in so many full lines may reach across a gap between columns."""
_LEAST_CELLS: Final = 3
"""A line of fewer cells says nothing about the columns."""


def table_rows(rows: Sequence[Sequence[str]], cells: Sequence[Cell]) -> list[list[str]]:
    """The rows of a table as lists of cells, without columns that are empty in all of them.

    Args:
        rows: What the reader takes for rows.
        cells: What the file draws in the area of the table.
    """
    muddled = _split_cells(rows, cells) + _stacked_cells(rows, cells)
    found = _lines_as_rows(cells) if muddled > max(_FEW, _SHARE * len(cells)) else [list(row) for row in rows]
    return _without_empty_columns(found)


def _split_cells(rows: Sequence[Sequence[str]], cells: Sequence[Cell]) -> int:
    """How many cells the reader has cut in two."""
    whole = {text for row in rows for text in row}
    joined = "\n".join(whole)
    return sum(1 for cell in cells if " " in cell.text and cell.text not in joined)


def _stacked_cells(rows: Sequence[Sequence[str]], cells: Sequence[Cell]) -> int:
    """How many cells hold numbers of several lines."""
    drawn = {cell.text for cell in cells}
    return sum(1 for row in rows for text in row if text not in drawn and _STACKED.fullmatch(text))


def _lines_as_rows(cells: Sequence[Cell]) -> list[list[str]]:
    lines = _lines(cells)
    starts = _column_starts(lines)
    rows = []
    for line in lines:
        row = [""] * (len(starts) + 1)
        for cell in line:
            column = bisect_right(starts, cell.left)
            row[column] = f"{row[column]} {cell.text}".strip()
        rows.append(row)
    return rows


def _lines(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells that stand side by side, from left to right; lines from top to bottom."""
    lines: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: cell.middle):
        if lines and cell.middle - lines[-1][-1].middle <= 0.4 * (cell.bottom - cell.top):
            lines[-1].append(cell)
        else:
            lines.append([cell])
    return [sorted(line, key=lambda cell: cell.left) for line in lines]


def _column_starts(lines: Sequence[Sequence[Cell]]) -> list[float]:
    """Where each column but the first begins: after a gap that hardly any cell of a full line reaches across."""
    full = [line for line in lines if len(line) >= _LEAST_CELLS]
    few = -(-len(full) // _CROSSING) if len(full) > _LEAST_CELLS else 0
    edges = sorted(edge for line in full for cell in line for edge in ((cell.left, 1), (cell.right, -1)))
    starts: list[float] = []
    depth, opened, inside = 0, None, False
    for place, step in edges:
        depth += step
        if step > 0 and not inside:
            opened = place if opened is None else opened
            if depth > few:
                starts.append(opened)
                inside = True
        elif depth <= few:
            opened, inside = None, False
    return starts[1:]


def _without_empty_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    width = max(map(len, rows), default=0)
    used = [column for column in range(width) if any(column < len(row) and row[column] for row in rows)]
    filled = [[row[column] if column < len(row) else "" for column in used] for row in rows]
    return [row for row in filled if any(row)]
