"""PowerPoint presentations: every slide is a page, with its title, text, tables and the notes of the speaker."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.parsing import archives
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.text.cleaning import clean, one_line
from easy_knowledge_retriever.types import BlockKind

__all__ = ["PptxParser"]

_DEEPEST: Final = 20
"""Groups inside each other."""


class PptxParser(DocumentParser):
    """Slides as pages, counted from 1. Shapes come from top to bottom, those beside each other from left to right."""

    name = "pptx"
    version = "1"
    suffixes = (".pptx", ".pptm")
    paged = True
    needs = MappingProxyType({"pptx": "python-pptx"})

    def parsed(self, source: Source) -> Parsed:
        archives.opened(source.content, source.name).close()
        from pptx import Presentation  # noqa: PLC0415  # an optional package

        show = Presentation(io.BytesIO(source.content))
        wanted = [(number, slide) for number, slide in enumerate(show.slides, 1) if source.wants(number)]
        pieces = [piece for number, slide in wanted for piece in _slide(slide, number)]
        hidden = [str(number) for number, slide in wanted if slide.element.get("show") == "0"]
        title = clean(show.core_properties.title or "").text.strip()
        warnings = [f"hidden when it is shown: slide {', '.join(hidden)}"] if hidden else []
        return assembled(pieces, title=_title(title, pieces), warnings=warnings)


def _title(declared: str, pieces: Iterable[Piece]) -> str:
    """What the file declares, unless it is what the program puts there; else the title of the first slide."""
    named = next((piece.text for piece in pieces if piece.kind == "heading"), "")
    return named if declared.lower() in {"", "powerpoint presentation", "présentation powerpoint"} else declared


def _slide(slide: Any, number: int) -> Iterator[Piece]:
    title = slide.shapes.title
    said = one_line(title.text_frame.text) if title is not None else ""
    if said:
        yield Piece("heading", said, number, level=1)
    # a title that is drawn further down is still the title
    shapes = [shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id]
    yield from _shapes(shapes, number, 0)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        yield from (Piece("note", text, number) for _, text in _paragraphs(slide.notes_slide.notes_text_frame))


def _shapes(shapes: Iterable[Any], number: int, depth: int) -> Iterator[Piece]:
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes") and depth < _DEEPEST:
            yield from _shapes(shape.shapes, number, depth + 1)
        elif shape.has_text_frame:
            yield from (Piece(kind, text, number) for kind, text in _paragraphs(shape.text_frame, listed=_is_outline(shape)))
        elif getattr(shape, "has_table", False):
            yield from _table(([cell.text for cell in row.cells] for row in shape.table.rows), number)
        elif getattr(shape, "has_chart", False):
            yield from _chart(shape.chart, number)
        else:
            described = one_line(shape.element.xpath("string(.//p:cNvPr/@descr)"))
            if described:
                yield Piece("image", described, number)


def _paragraphs(frame: Any, *, listed: bool = False) -> Iterator[tuple[BlockKind, str]]:
    for paragraph in frame.paragraphs:
        text = one_line(paragraph.text)
        is_item = listed or paragraph.level > 0 or bool(paragraph._p.xpath("./a:pPr/a:buChar|./a:pPr/a:buAutoNum"))
        if text:
            yield ("list", f"- {text}") if is_item else ("text", text)


def _is_outline(shape: Any) -> bool:
    """Whether it is the placeholder that a layout gives bullets, with several of them."""
    placed = shape.element.xpath("./p:nvSpPr/p:nvPr/p:ph")
    return bool(placed) and placed[0].get("type", "obj") in {"body", "obj"} and len(shape.text_frame.paragraphs) > 1


def _table(rows: Iterable[list[str]], number: int) -> Iterator[Piece]:
    text = table_text([clean(cell).text for cell in row] for row in rows)
    if text:
        yield Piece("table", text, number)


def _chart(chart: Any, number: int) -> Iterator[Piece]:
    """The numbers a chart shows, as a table of its series."""
    if chart.has_title and chart.chart_title.has_text_frame:
        named = one_line(chart.chart_title.text_frame.text)
        if named:
            yield Piece("caption", named, number)
    for plot in chart.plots:
        categories = [str(category) for category in plot.categories]
        rows = [["", *categories]] if categories else []
        rows += [[str(series.name), *("" if v is None else f"{v:.15g}" for v in series.values)] for series in plot.series]
        yield from _table(rows, number)
