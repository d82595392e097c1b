from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.parsing.pdf_layout import mended, page_list, plain_inline
from easy_knowledge_retriever.parsing.pieces import Piece, assembled
from easy_knowledge_retriever.types import Box, Link


def test_inline_marks_are_taken_off() -> None:
    assert plain_inline(r"A\*B is **bold** and *slanted*") == ("A*B is bold and slanted", ())
    assert plain_inline("km$^{2}$, CO$_2$, $x^{n}$") == ("km², CO₂, $x^{n}$", ())


def test_links_keep_their_place() -> None:
    text, links = plain_inline("see *[the **site**](https://a.example/x_(y))* or [not](a link)")
    assert text == "see the site or [not](a link)"
    assert links == (Link(4, 12, "https://a.example/x_(y)"),)


@given(st.text(alphabet="ab\\*[]()$^_{}1 /:htps\n", max_size=60))
def test_any_line_is_read(line: str) -> None:
    text, links = plain_inline(line)
    assert all(0 <= link.start < link.end <= len(text) for link in links)


def paragraph(text: str, top: float, bottom: float, page: int = 1) -> Piece:
    return Piece("text", text, page, box=Box(0.1, top, 0.9, bottom))


def test_a_broken_paragraph_is_joined() -> None:
    pieces = [paragraph("The sentence that was broken by the", 0.10, 0.112), paragraph("European layout goes on.", 0.113, 0.125)]
    (joined,) = mended(pieces, 10)
    assert joined.text == "The sentence that was broken by the European layout goes on."
    assert joined.box == Box(0.1, 0.10, 0.9, 0.125)


def test_paragraphs_and_items_stay_apart() -> None:
    pieces = [
        paragraph("It ends.", 0.10, 0.112),
        paragraph("and this does not go on", 0.113, 0.125),
        paragraph("b) an item", 0.126, 0.138),
        paragraph("Far below", 0.3, 0.312),
        paragraph("on another page", 0.1, 0.112, page=2),
    ]
    assert mended(pieces, 10) == pieces


def test_a_run_in_heading_is_the_beginning_of_its_paragraph() -> None:
    heading = Piece("heading", "SUMMARY: The agency proposes to", 1, level=2, box=Box(0.1, 0.1, 0.4, 0.112))
    (joined,) = mended([heading, paragraph("supersede a directive.", 0.113, 0.125)], 10)
    assert (joined.kind, joined.level, joined.text) == ("text", None, "SUMMARY: The agency proposes to supersede a directive.")


def test_tall_lines_are_headings_of_the_level_of_their_size() -> None:
    pieces = [
        Piece("text", "The Title", 1, size=24),
        Piece("heading", "Part one", 1, level=2, size=16),
        Piece("text", "Part two", 1, size=16),
        Piece("text", "(a remark)", 1, size=24),
        Piece("heading", "(another)", 1, level=1, size=24),
        Piece("text", "42 %", 1, size=24),
        Piece("text", "Running text", 1, size=10),
    ]
    assert [(piece.kind, piece.level) for piece in mended(pieces, 10)] == [
        ("heading", 1),
        ("heading", 2),
        ("heading", 2),
        ("text", None),
        ("text", None),
        ("text", None),
        ("text", None),
    ]


def test_links_move_with_the_text_they_stand_in() -> None:
    first = Piece("text", "See the", 1)
    second = Piece("text", "site now.", 1, links=(Link(0, 4, "https://a.example"),))
    parsed = assembled(mended([Piece("heading", "T", 1, level=1), first, second], 0))
    (link,) = parsed.links
    assert parsed.text == "T\n\nSee the site now."
    assert parsed.text[link.start : link.end] == "site"


def test_a_sentence_goes_on_over_the_page() -> None:
    parsed = assembled([Piece("text", "It goes", 1), Piece("text", "on here.", 2), Piece("text", "New.", 3)])
    assert parsed.text == "It goes\non here.\n\nNew."
    assert [(span.page, parsed.text[span.start : span.end]) for span in parsed.pages] == [
        (1, "It goes"),
        (2, "on here."),
        (3, "New."),
    ]


def test_parts_of_a_divided_document_lie_below_each_other() -> None:
    pieces = [
        Piece("heading", "The Regulation", 1, level=1),
        Piece("text", "Chapter I", 1),
        Piece("heading", "General", 1, level=1),
        Piece("text", "Article 1", 1),
        Piece("text", "The purpose of this text", 1),
        Piece("text", "1. It has one.", 1),
        Piece("heading", "In between", 1, level=1),
        Piece("text", "Article 2", 1),
        Piece("text", "This is a sentence and no title.", 1),
        Piece("text", "Article 3", 1),
        Piece("heading", "On the next page", 2, level=1),
        Piece("heading", "Annex A: Terms", 2, level=3),
        Piece("heading", "More", 2, level=1),
    ]
    headings = [(piece.level, piece.text) for piece in mended(pieces, 0) if piece.kind == "heading"]
    assert headings == [
        (1, "The Regulation"),
        (2, "Chapter I\nGeneral"),
        (3, "Article 1\nThe purpose of this text"),
        (4, "In between"),
        (3, "Article 2"),
        (3, "Article 3"),
        (4, "On the next page"),
        (2, "Annex A: Terms"),
        (4, "More"),
    ]


def test_page_lists() -> None:
    assert page_list([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
