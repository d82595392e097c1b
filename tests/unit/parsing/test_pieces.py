from __future__ import annotations

import pytest

from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.types import Link, PageSpan


def test_blocks_and_links_stand_where_they_say() -> None:
    pieces = [
        Piece("heading", "Rivers", level=1),
        Piece("text", "The Kell flows north.", links=(Link(4, 8, "kell.md"),)),
        Piece("list", "- Brenn"),
        Piece("list", "- Skarn"),
    ]
    parsed = assembled(pieces, title="Waters", warnings=["one picture left out"])
    assert parsed.text == "Rivers\n\nThe Kell flows north.\n\n- Brenn\n- Skarn"
    assert [parsed.text[block.start : block.end] for block in parsed.blocks] == [piece.text for piece in pieces]
    assert [(parsed.text[link.start : link.end], link.target) for link in parsed.links] == [("Kell", "kell.md")]
    assert (parsed.title, parsed.pages, parsed.warnings) == ("Waters", [], ["one picture left out"])


def test_pages_span_their_pieces() -> None:
    parsed = assembled([Piece("text", "One goes on", 1), Piece("text", "over the page.", 2), Piece("text", "Three.", 4)])
    assert parsed.text == "One goes on\nover the page.\n\nThree."
    assert parsed.pages == [PageSpan(1, 0, 11), PageSpan(2, 12, 26), PageSpan(4, 28, 34)]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], ""),
        ([["a", "b"], ["", " "], ["1", ""]], "| a | b |\n| 1 |  |"),
        ([["two\nlines", "x  y"]], "| two lines | x y |"),
    ],
)
def test_a_table_is_a_row_a_line(rows: list[list[str]], text: str) -> None:
    assert table_text(rows) == text
