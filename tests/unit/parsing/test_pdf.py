from __future__ import annotations

import liteparse
import pytest

from easy_knowledge_retriever.errors import ConfigError, ParseError
from easy_knowledge_retriever.parsing import Source, parser_for
from easy_knowledge_retriever.types import Document
from tests.support.pdf import pdf_bytes

BODY = "This line of running text is long enough to be taken for a paragraph of the page."


def parse(content: bytes, first: int = 1, last: int | None = None) -> Document:
    return parser_for("report.pdf").parse(Source("report.pdf", content, first_page=first, last_page=last))


def kinds(document: Document) -> list[tuple[str, int | None, int | None, str]]:
    return [(b.kind, b.level, b.page, document.text[b.start : b.end]) for b in document.blocks]


REPORT = pdf_bytes(
    [
        [("Annual Report", 24), ("", 12), (BODY, 11), ("", 14), ("First part", 16), ("", 4), (BODY, 11), ("It ends here.", 11)],
        [("Second part", 16), ("", 4), ("1. An item", 11), ("2. Another item", 11), ("", 40), (BODY, 11)],
    ]
)


class TestStructure:
    def test_headings_paragraphs_and_items_know_their_page(self) -> None:
        assert kinds(parse(REPORT)) == [
            ("heading", 1, 1, "Annual Report"),
            ("text", None, 1, BODY),
            ("heading", 2, 1, "First part"),
            ("text", None, 1, f"{BODY} It ends here."),
            ("heading", 2, 2, "Second part"),
            ("list", None, 2, "1. An item"),
            ("list", None, 2, "2. Another item"),
            ("text", None, 2, BODY),
        ]

    def test_pages_are_spans_of_the_text(self) -> None:
        document = parse(REPORT)
        texts = [(span.page, document.text[span.start : span.end]) for span in document.pages]
        assert [page for page, _ in texts] == [1, 2]
        assert texts[0][1].startswith("Annual Report") and texts[0][1].endswith("It ends here.")
        assert texts[1][1].startswith("Second part")

    def test_boxes_are_shares_of_the_page(self) -> None:
        for block in parse(REPORT).blocks:
            assert block.box is not None
            assert 0 <= block.box.left < block.box.right <= 1
            assert 0 <= block.box.top < block.box.bottom <= 1

    def test_the_first_heading_is_the_title(self) -> None:
        assert parse(REPORT).title == "Annual Report"

    def test_a_title_in_the_metadata_comes_first(self) -> None:
        assert (
            parse(pdf_bytes([[("Annual Report", 24), ("", 12), (BODY, 11)]], xmp_title="Report &amp; Outlook")).title
            == "Report & Outlook"
        )

    @pytest.mark.parametrize("junk", ["Microsoft Word - draft", "report_final.docx", "untitled", "12345"])
    def test_a_file_name_is_no_title(self, junk: str) -> None:
        assert parse(pdf_bytes([[("Annual Report", 24), ("", 12), (BODY, 11)]], xmp_title=junk)).title == "Annual Report"

    def test_a_very_long_title_gives_way(self) -> None:
        long = "A regulation of many words " * 10
        assert parse(pdf_bytes([[("Annual Report", 24), ("", 12), (BODY, 11)]], xmp_title=long)).title == "Annual Report"
        assert len(parse(pdf_bytes([[(BODY, 11)]], xmp_title=long)).title) <= 151

    def test_special_characters_are_not_escaped(self) -> None:
        line = "5 * 3 * 2 = 30, A*B, snake_case, [x], # no heading, C:\\dir, costs $5 and $6, 10^3 m² is é."
        assert parse(pdf_bytes([[(line, 11)]])).text == line

    def test_a_numbered_line_keeps_its_number(self) -> None:
        assert "Article 8" in parse(pdf_bytes([[("Article 8", 11), ("", 20), (BODY, 11)]])).text

    def test_numbered_parts_are_headings_with_their_titles(self) -> None:
        gap = ("", 30)
        page = [("CHAPTER I", 11), gap, ("General", 14), gap, ("Article 1", 11), gap, ("Purpose", 14), gap, (BODY, 11), gap]
        page += [("Article 2", 11), gap, ("Scope of the rules", 11), gap, (f"1. {BODY}", 11)]
        headings = [(level, text) for kind, level, _, text in kinds(parse(pdf_bytes([page]))) if kind == "heading"]
        assert headings == [(2, "CHAPTER I\nGeneral"), (3, "Article 1\nPurpose"), (3, "Article 2\nScope of the rules")]


class TestPageRanges:
    def test_only_these_pages_are_read_and_keep_their_numbers(self) -> None:
        document = parse(pdf_bytes([[(f"Page number {i} has words.", 11)] for i in range(1, 6)]), 2, 3)
        assert [span.page for span in document.pages] == [2, 3]
        assert document.text.split() == "Page number 2 has words. Page number 3 has words.".split()

    def test_an_open_range(self) -> None:
        document = parse(pdf_bytes([[(f"Page number {i} has words.", 11)] for i in range(1, 6)]), 4)
        assert [span.page for span in document.pages] == [4, 5]

    def test_a_range_is_a_version_of_its_own(self) -> None:
        assert len({Source("a.pdf", REPORT).digest, Source("a.pdf", REPORT, first_page=2).digest}) == 2

    def test_pages_that_are_not_there(self) -> None:
        with pytest.raises(ConfigError, match=r"page 7 of 'report\.pdf' is wanted, which has 2"):
            parse(REPORT, 7)


class TestRefusals:
    def refused(self, content: bytes) -> ParseError:
        with pytest.raises(ParseError, match=r"report\.pdf") as caught:
            parse(content)
        return caught.value

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty"),
            (b"\0\0\n", "empty"),
            (b"plain words", "corrupt"),
            (b"PK\x03\x04rest", "corrupt"),
            (b"%PDF-1.4\nnothing more", "corrupt"),
            (REPORT[: len(REPORT) // 3], "corrupt"),
            (pdf_bytes([[], []]), "no_text"),
            (pdf_bytes([[(BODY, 11)]], encrypted=True), "encrypted"),
        ],
    )
    def test_what_cannot_be_read_is_refused_by_name(self, content: bytes, reason: str) -> None:
        assert self.refused(content).reason == reason

    def test_a_scan_is_told_about_ocr(self) -> None:
        assert "OCR" in self.refused(pdf_bytes([[]])).hint

    def test_empty_pages_are_named(self) -> None:
        document = parse(pdf_bytes([[(BODY, 11)], [], [(BODY, 11)], [], []]))
        assert document.warnings == ("no text on pages 2, 4-5",)
        assert [span.page for span in document.pages] == [1, 3]


def page(*blocks: liteparse.LayoutBlock, text: str = "", number: int = 1, **complexity: bool) -> liteparse.ParsedPage:
    """A page as the reader gives it."""
    signs = {"has_substantial_images": False, "full_page_image": False, "is_garbled": False, "needs_ocr": False} | complexity
    stats = liteparse.PageComplexityStats(
        number, 0, 0.0, image_block_count=0, image_coverage=0.0, largest_image_coverage=0.0, uncovered_vector_area=None,
        page_area=1.0, reasons=[], **signs,
    )  # fmt: skip
    return liteparse.ParsedPage(number, 100.0, 200.0, text, blocks=list(blocks), complexity=stats)


def block(kind: str, text: str | None = None, **fields: object) -> liteparse.LayoutBlock:
    return liteparse.LayoutBlock(kind, text, **fields)


class TestWhatTheReaderGives:
    def parse(self, monkeypatch: pytest.MonkeyPatch, result: liteparse.ParseResult) -> Document:
        monkeypatch.setattr(liteparse.LiteParse, "parse", lambda *_: result)
        return parse(REPORT)

    def result(self, *pages: liteparse.ParsedPage, **fields: object) -> liteparse.ParseResult:
        return liteparse.ParseResult(list(pages), "", len(pages), **fields)

    def test_tables_code_and_pieces_without_a_box(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cells = [
            [liteparse.LayoutCell("a"), liteparse.LayoutCell("**b**")],
            [liteparse.LayoutCell("1"), liteparse.LayoutCell("2")],
        ]
        document = self.parse(
            monkeypatch,
            self.result(
                page(
                    block("table", header=cells[0], rows=cells[1:]),
                    block("rule"),
                    block("code", lines=["x = **y**", "  z"]),
                    block("list_item", "item", marker="•", level=0),
                    block("paragraph", "  "),
                )
            ),
        )
        assert kinds(document) == [
            ("table", None, 1, "| a | b |\n| 1 | 2 |"),
            ("code", None, 1, "x = **y**\n  z"),
            ("list", None, 1, "• item"),
        ]
        assert [b.box for b in document.blocks] == [None, None, None]

    def test_a_number_the_layout_loses_comes_from_the_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lost = page(block("paragraph", "Article"), block("heading", "Purpose", level=1), text="   Article    8\n  Purpose")
        assert self.parse(monkeypatch, self.result(lost)).text == "Article 8\n\nPurpose"

    def test_ligatures_and_leaders(self, monkeypatch: pytest.MonkeyPatch) -> None:
        document = self.parse(monkeypatch, self.result(page(block("paragraph", "The ﬁrst ofﬁce ........ 12 \x00ﻣﺮﺣﺒﺎ"))))
        assert document.text == "The first office … 12 مرحبا"

    def test_a_page_of_running_headers_keeps_its_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.parse(monkeypatch, self.result(page(text="  Page   1\n\n of 9 "))).text == "Page 1\nof 9"

    def test_pages_that_failed_or_are_doubtful_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        document = self.parse(
            monkeypatch,
            self.result(
                page(block("paragraph", "text"), is_garbled=True),
                page(number=2, full_page_image=True),
                page_errors=[liteparse.PageError(4, "bad"), liteparse.PageError(3, "bad")],
            ),
        )
        assert document.warnings == (
            "no text on page 2, scanned: run OCR first",
            "the text of page 1 may be wrong: a font does not say what it shows",
            "pages 3-4 could not be read",
        )

    def test_no_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ParseError, match="has no pages"):
            self.parse(monkeypatch, self.result())
