from __future__ import annotations

import io
from typing import Any

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.office.pptx import PptxParser
from easy_knowledge_retriever.types import Document


def _saved(show: Any) -> bytes:
    file = io.BytesIO()
    show.save(file)
    return file.getvalue()


def _show() -> bytes:
    show = Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text = "Rivers"
    body = first.placeholders[1].text_frame
    body.text = "The Kell"
    body.add_paragraph().text = "The Brenn"
    first.notes_slide.notes_text_frame.text = "Say hello."
    second = show.slides.add_slide(show.slide_layouts[6])
    second._element.set("show", "0")
    second.shapes.add_textbox(Inches(1), Inches(5), Inches(2), Inches(1)).text_frame.text = "below"
    second.shapes.add_textbox(Inches(5), Inches(1), Inches(2), Inches(1)).text_frame.text = "right"
    second.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1)).text_frame.text = "left"
    third = show.slides.add_slide(show.slide_layouts[6])
    table = third.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row, cells in enumerate([("River", "km"), ("Kell", "212")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["2025", "2026"]
    data.add_series("Flow", (1.5, 2))
    third.shapes.add_chart(XL_CHART_TYPE.LINE, Inches(1), Inches(3), Inches(4), Inches(3), data)
    return _saved(show)


def _blocks(document: Document) -> list[tuple[str, int | None, str]]:
    return [(block.kind, block.page, document.text[block.start : block.end]) for block in document.blocks]


def test_a_slide_is_a_page_with_title_shapes_and_notes() -> None:
    document = PptxParser().parse(Source("a.pptx", _show()))
    assert _blocks(document) == [
        ("heading", 1, "Rivers"),
        ("list", 1, "- The Kell"),
        ("list", 1, "- The Brenn"),
        ("note", 1, "Say hello."),
        ("text", 2, "left"),
        ("text", 2, "right"),
        ("text", 2, "below"),
        ("table", 3, "| River | km |\n| Kell | 212 |"),
        ("table", 3, "|  | 2025 | 2026 |\n| Flow | 1.5 | 2 |"),
    ]
    assert [span.page for span in document.pages] == [1, 2, 3]
    assert (document.title, document.warnings) == ("Rivers", ("hidden when it is shown: slide 2",))


def test_some_slides_only() -> None:
    document = PptxParser().parse(Source("a.pptx", _show(), first_page=2, last_page=2))
    assert [page for _, page, _ in _blocks(document)] == [2, 2, 2]


def test_a_cut_file_is_said_to_be_damaged() -> None:
    with pytest.raises(ParseError) as caught:
        PptxParser().parse(Source("a.pptx", _show()[:9000]))
    assert caught.value.reason == "corrupt"


def test_a_presentation_without_words_is_empty() -> None:
    show = Presentation()
    show.slides.add_slide(show.slide_layouts[6])
    with pytest.raises(ParseError) as caught:
        PptxParser().parse(Source("a.pptx", _saved(show)))
    assert caught.value.reason == "empty"
