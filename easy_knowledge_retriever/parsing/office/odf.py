"""OpenDocument: texts, presentations and spreadsheets, as the OASIS standard 1.3 describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import archives
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, squared, table_text
from easy_knowledge_retriever.parsing.xml import member_tree
from easy_knowledge_retriever.text.cleaning import clean, one_line
from easy_knowledge_retriever.types import BlockKind

__all__ = ["OdfParser"]

_NAMES: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT: Final = f"{{{_NAMES}text:1.0}}"
_TABLE: Final = f"{{{_NAMES}table:1.0}}"
_DRAW: Final = f"{{{_NAMES}drawing:1.0}}"
_OFFICE: Final = f"{{{_NAMES}office:1.0}}"
_SHOW: Final = f"{{{_NAMES}presentation:1.0}}"
_SVG: Final = f"{{{_NAMES}svg-compatible:1.0}}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_APART: Final = frozenset(
    {f"{_TEXT}note", f"{_OFFICE}annotation", f"{_TEXT}tracked-changes", f"{_DRAW}frame", f"{_TEXT}p", f"{_TEXT}h"}
)
"""What stands in a paragraph and is not of its text."""
_DEEPEST: Final = 30
_MOST_CELLS: Final = 2_000_000
_MOST_REPEATED: Final = 1_000
"""Filled cells or rows that are said to be repeated are repeated as often at most."""


class OdfParser(DocumentParser):
    """Slides and sheets are pages, counted from 1; a text has none. Comments, notes of the speaker and footnotes are kept."""

    name = "odf"
    version = "1"
    suffixes = (".odt", ".odp", ".ods")
    paged = True
    needs = MappingProxyType({"lxml": "lxml"})

    def parsed(self, source: Source) -> Parsed:
        with archives.opened(source.content, source.name) as archive:
            body = member_tree(archive, "content.xml", source.name).find(f"{_OFFICE}body")
            declared = ""
            if "meta.xml" in archive.namelist():
                declared = member_tree(archive, "meta.xml", source.name).findtext(f".//{_DC}title") or ""
        if body is None or not len(body):
            raise ParseError(f"{source.name!r} is no OpenDocument file", code="corrupt", hint="open it and save it again")
        pieces = [piece for piece in _Reader(_Budget()).pieces(body[0]) if piece.page is None or source.wants(piece.page)]
        named = next((piece.text for piece in pieces if piece.kind == "heading"), "")
        return assembled(pieces, title=one_line(declared) or named)


class _Budget:
    """How many cells may still be read."""

    def __init__(self) -> None:
        self.left = _MOST_CELLS


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one page, or a text that has none."""

    budget: _Budget
    page: int | None = None

    def pieces(self, body: Any) -> Iterator[Piece]:
        """The whole of a text, a presentation or a spreadsheet."""
        if body.tag == f"{_OFFICE}presentation":
            for number, slide in enumerate(body.iterfind(f"{_DRAW}page"), 1):
                yield from _Reader(self.budget, number).slide(slide)
        elif body.tag == f"{_OFFICE}spreadsheet":
            for number, sheet in enumerate(body.iterfind(f"{_TABLE}table"), 1):
                yield Piece("heading", one_line(sheet.get(f"{_TABLE}name", "")) or f"Sheet {number}", number, level=1)
                yield from _Reader(self.budget, number).table(sheet, 0)
        else:
            yield from self.blocks(body, 0)

    def slide(self, slide: Any) -> Iterator[Piece]:
        """Its title, what stands on it, and what the speaker notes."""
        titles = [frame for frame in slide.iterfind(f"{_DRAW}frame") if frame.get(f"{_SHOW}class") == "title"]
        for frame in titles:
            said = one_line(" ".join(_said(paragraph) for paragraph in frame.iter(f"{_TEXT}p")))
            if said:
                yield Piece("heading", said, self.page, level=1)
        for element in slide:
            if element not in titles and element.tag != f"{_SHOW}notes":
                yield from self.blocks([element], 0)
        for paragraph in slide.iterfind(f"{_SHOW}notes//{_TEXT}p"):
            if said := _said(paragraph):
                yield Piece("note", said, self.page)

    def blocks(self, parent: Iterable[Any], depth: int, kind: BlockKind = "text") -> Iterator[Piece]:
        """What stands in an element."""
        for element in parent if depth < _DEEPEST else ():
            if element.tag in {f"{_TEXT}p", f"{_TEXT}h"}:
                yield from self._paragraph(element, depth, kind)
            elif element.tag == f"{_TABLE}table":
                yield from self.table(element, depth)
            elif element.tag == f"{_TEXT}list":
                yield from self.blocks(element, depth + 1, "list")
            elif element.tag == f"{_DRAW}frame":
                yield from self._frame(element, depth)
            elif element.tag not in {f"{_TEXT}tracked-changes", f"{_OFFICE}annotation"}:
                yield from self.blocks(element, depth + 1, kind)

    def table(self, table: Any, depth: int) -> Iterator[Piece]:
        """Its rows; an empty one ends a table, as sheets hold several."""
        run: list[list[str]] = []
        for row in table.iter(f"{_TABLE}table-row"):
            if next(row.iterancestors(f"{_TABLE}table")) is not table or self.budget.left <= 0:
                continue
            cells = self._cells(row, depth)
            if any(cells):
                run += [cells] * _repeated(row, "rows")
            elif run:
                yield Piece("table", table_text(squared(run)), self.page)
                run = []
        if run:
            yield Piece("table", table_text(squared(run)), self.page)

    def _cells(self, row: Any, depth: int) -> list[str]:
        cells: list[str] = []
        for cell in row:
            said = ""
            if cell.tag == f"{_TABLE}table-cell":
                said = " ".join(piece.text for piece in self.blocks(cell, depth + 1))
            elif cell.tag != f"{_TABLE}covered-table-cell":
                continue
            times = _repeated(cell, "columns")
            self.budget.left -= times
            cells += [said] * times
        while cells and not cells[-1]:
            cells.pop()
        return cells

    def _paragraph(self, element: Any, depth: int, kind: BlockKind) -> Iterator[Piece]:
        said = _said(element)
        if said and element.tag == f"{_TEXT}h":
            level = element.get(f"{_TEXT}outline-level", "1")
            yield Piece("heading", " ".join(said.split()), self.page, level=int(level) if level.isdigit() else 1)
        elif said:
            yield Piece(kind, f"- {said}" if kind == "list" else said, self.page)
        for apart in element.iter(f"{_TEXT}note", f"{_OFFICE}annotation", f"{_DRAW}frame"):
            if next(apart.iterancestors(f"{_TEXT}p", f"{_TEXT}h")) is not element:
                continue
            if apart.tag == f"{_DRAW}frame":
                yield from self._frame(apart, depth)
            elif words := one_line(" ".join(_said(paragraph) for paragraph in apart.iter(f"{_TEXT}p"))):
                yield Piece("footnote" if apart.tag == f"{_TEXT}note" else "note", words, self.page)

    def _frame(self, frame: Any, depth: int) -> Iterator[Piece]:
        """A text box or a table, or else the description of a picture."""
        # beside a table stands a picture of it, for programs that draw no tables
        inside = list(self.blocks((element for element in frame if element.tag != f"{_DRAW}image"), depth + 1))
        described = one_line(frame.findtext(f"{_SVG}desc") or frame.findtext(f"{_SVG}title") or "")
        if not inside and described:
            inside = [Piece("image", described, self.page)]
        yield from inside


def _said(paragraph: Any) -> str:
    """The text of a paragraph, without what only hangs on it."""
    parts = [paragraph.text or ""]
    for element in paragraph:
        if element.tag == f"{_TEXT}s":
            parts.append(" ")
        elif element.tag in {f"{_TEXT}tab", f"{_TEXT}line-break"}:
            parts.append("\t" if element.tag.endswith("tab") else "\n")
        elif isinstance(element.tag, str) and element.tag not in _APART:
            parts.append(_said(element))
        parts.append(element.tail or "")
    said = clean("".join(parts)).text
    return said.strip() if paragraph.tag in {f"{_TEXT}p", f"{_TEXT}h"} else said


def _repeated(element: Any, what: str) -> int:
    times = element.get(f"{_TABLE}number-{what}-repeated", "1")
    return min(int(times), _MOST_REPEATED) if times.isdigit() else 1
