"""Excel workbooks: every sheet is a page, under its name, its rows as tables."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import archives
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, squared, table_text
from easy_knowledge_retriever.text.cleaning import one_line

__all__ = ["XlsxParser"]

_MOST_CELLS: Final = 2_000_000
"""Cells of a workbook that are read, empty ones between others and empty rows included."""


class XlsxParser(DocumentParser):
    """Sheets as pages, counted from 1. Formulas are what they came to when the workbook was last saved.

    An empty row ends a table. Dates are written as ISO 8601, shares with their per cent sign.
    """

    name = "xlsx"
    version = "1"
    suffixes = (".xlsx", ".xlsm")
    paged = True
    needs = MappingProxyType({"openpyxl": "openpyxl"})

    def parsed(self, source: Source) -> Parsed:
        archives.opened(source.content, source.name).close()
        from openpyxl import load_workbook  # noqa: PLC0415  # an optional package

        book = load_workbook(io.BytesIO(source.content), read_only=True, data_only=True)
        numbered = [(number, book[name]) for number, name in enumerate(book.sheetnames, 1)]
        wanted = [(number, sheet) for number, sheet in numbered if source.wants(number)]
        budget = _Budget()
        pieces = [piece for number, sheet in wanted for piece in _sheet(sheet, number, budget)]
        hidden = [sheet.title for _, sheet in wanted if getattr(sheet, "sheet_state", "visible") != "visible"]
        title = one_line(book.properties.title or "")
        warnings = [f"hidden in the workbook: {', '.join(hidden)}"] if hidden else []
        if not budget.left:
            warnings.append(f"read up to its first {_MOST_CELLS} cells")
        if not any(piece.kind == "table" for piece in pieces):
            raise ParseError(f"{source.name!r} has no filled cells", code="empty")
        return assembled(pieces, title=title, warnings=warnings)


class _Budget:
    """How many cells may still be read."""

    def __init__(self) -> None:
        self.left = _MOST_CELLS

    def take(self, cells: int) -> bool:
        """Whether so many more may be."""
        self.left = max(self.left - max(cells, 1), 0)
        return self.left > 0


def _sheet(sheet: Any, number: int, budget: _Budget) -> Iterator[Piece]:
    yield Piece("heading", one_line(sheet.title) or f"Sheet {number}", number, level=1)
    if not hasattr(sheet, "iter_rows"):  # a sheet that is a chart
        return
    sheet.reset_dimensions()
    for rows in _tables(sheet.iter_rows(), budget):
        yield Piece("table", table_text(rows), number)


def _tables(rows: Iterable[Iterable[Any]], budget: _Budget) -> Iterator[list[list[str]]]:
    """Runs of rows with something in them, each as wide as its widest row and without columns that are empty."""
    run: list[list[str]] = []
    for row in rows:
        cells = [_shown(cell) for cell in row]
        if any(cells):
            run.append(cells)
        elif run:
            yield squared(run)
            run = []
        if not budget.take(len(cells)):
            break
    if run:
        yield squared(run)


_SHARE: Final = re.compile(r"0(?:\.(?P<places>0+))?%")


def _shown(cell: Any) -> str:
    """A cell as people see it, nearly."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, int | float):
        share = _SHARE.search(cell.number_format or "")
        return f"{value:.{len(share.group('places') or '')}%}" if share else f"{value:.15g}"
    return one_line(str(value))
