from __future__ import annotations

import datetime
import io
from typing import Any

import pytest
from openpyxl import Workbook

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.office import xlsx
from easy_knowledge_retriever.parsing.office.xlsx import XlsxParser


def _book(**sheets: list[list[Any]]) -> Any:
    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return book


def _saved(book: Any) -> bytes:
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def test_a_sheet_is_a_page_and_an_empty_row_ends_a_table() -> None:
    rows: list[list[Any]] = [["River", None, "km"], ["Kell", None, 212], [], ["Town"], ["Verdel"]]
    document = XlsxParser().parse(Source("a.xlsx", _saved(_book(Rivers=rows, Empty=[], Other=[[1]]))))
    assert document.text == ("Rivers\n\n| River | km |\n| Kell | 212 |\n\n| Town |\n| Verdel |\n\nEmpty\n\nOther\n\n| 1 |")
    assert [(span.page, document.text[span.start : span.end].split("\n")[0]) for span in document.pages] == [
        (1, "Rivers"),
        (2, "Empty"),
        (3, "Other"),
    ]


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (0.1 + 0.2, "General", "0.3"),
        (1e6, "General", "1000000"),
        (0.125, "0.0%", "12.5%"),
        (0.125, "0%", "12%"),
        (True, "General", "TRUE"),
        (datetime.datetime(2026, 1, 2), "yyyy-mm-dd", "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4), "yyyy-mm-dd hh:mm", "2026-01-02 03:04:00"),
        (datetime.time(3, 4), "hh:mm", "03:04:00"),
        ("two\nlines", "General", "two lines"),
    ],
)
def test_a_value_is_written_as_it_is_shown(value: object, form: str, shown: str) -> None:
    book = _book(A=[[value]])
    book["A"]["A1"].number_format = form
    assert XlsxParser().parse(Source("a.xlsx", _saved(book))).text == f"A\n\n| {shown} |"


def test_hidden_sheets_are_read_and_named() -> None:
    book = _book(Shown=[[1]], Secret=[[2]])
    book["Secret"].sheet_state = "hidden"
    assert XlsxParser().parse(Source("a.xlsx", _saved(book))).warnings == ("hidden in the workbook: Secret",)


def test_reading_ends_at_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "_MOST_CELLS", 20)
    document = XlsxParser().parse(Source("a.xlsx", _saved(_book(A=[[number, number] for number in range(50)]))))
    assert document.text.count("\n| ") == 10
    assert document.warnings == ("read up to its first 20 cells",)


def test_a_row_far_below_costs_little() -> None:
    book = _book(A=[["first"]])
    book["A"]["A1048576"] = "last"
    assert XlsxParser().parse(Source("a.xlsx", _saved(book))).text == "A\n\n| first |\n\n| last |"


def test_a_workbook_without_cells_is_empty_and_a_cut_one_damaged() -> None:
    for content, reason in ((_saved(_book(A=[])), "empty"), (_saved(_book(A=[[1]]))[:3000], "corrupt")):
        with pytest.raises(ParseError) as caught:
            XlsxParser().parse(Source("a.xlsx", content))
        assert caught.value.reason == reason
