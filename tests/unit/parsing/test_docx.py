from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from docx import Document as WordDocument
from docx.oxml import parse_xml

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.office.docx import DocxParser
from easy_knowledge_retriever.types import Document

NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def _content(write: Callable[[Any], None]) -> bytes:
    word, file = WordDocument(), io.BytesIO()
    write(word)
    word.save(file)
    return file.getvalue()


def _parsed(write: Callable[[Any], None]) -> Document:
    return DocxParser().parse(Source("a.docx", _content(write)))


def _blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def test_headings_lists_captions_and_quotes_are_told_by_their_style() -> None:
    def write(word: Any) -> None:
        word.add_heading("Rivers", 0)
        word.add_heading("The Kell", 2)
        word.add_paragraph("It flows north.")
        word.add_paragraph("Brenn", style="List Bullet")
        word.add_paragraph("Skarn", style="List Bullet")
        word.add_paragraph("Figure 1: the Kell", style="Caption")
        word.add_paragraph("All is water.", style="Quote")

    document = _parsed(write)
    assert document.title == "Rivers"
    assert document.text == "Rivers\n\nThe Kell\n\nIt flows north.\n\n- Brenn\n- Skarn\n\nFigure 1: the Kell\n\nAll is water."
    assert [(block.kind, block.level) for block in document.blocks] == [
        ("heading", 1),
        ("heading", 2),
        ("text", None),
        ("list", None),
        ("list", None),
        ("caption", None),
        ("quote", None),
    ]


def test_merged_cells_keep_their_columns() -> None:
    def write(word: Any) -> None:
        table = word.add_table(3, 3)
        for row in range(3):
            for column in range(3):
                table.cell(row, column).text = f"{row}{column}"
        table.cell(0, 1).merge(table.cell(0, 2)).text = "wide"
        table.cell(1, 0).merge(table.cell(2, 0)).text = "tall"

    assert _parsed(write).text == "| 00 | wide |  |\n| tall | 11 | 12 |\n| tall | 21 | 22 |"


def test_tracked_changes_links_formulas_and_text_boxes() -> None:
    def write(word: Any) -> None:
        body = word.element.body
        body.insert(
            0,
            parse_xml(
                f"<w:p {NAMES}><w:r><w:t>It </w:t></w:r><w:del><w:r><w:delText>was</w:delText><w:t>was</w:t></w:r></w:del>"
                "<w:ins><w:r><w:t>is so.</w:t></w:r></w:ins></w:p>"
            ),
        )
        body.insert(1, parse_xml(f"<w:p {NAMES}><m:oMath><m:r><m:t>a=b</m:t></m:r></m:oMath></w:p>"))
        box = "<w:r><w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent></w:r>"
        both = f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
        body.insert(2, parse_xml(f"<w:p {NAMES}><w:r><w:t>Before.</w:t></w:r>{both}</w:p>"))
        body.insert(
            3, parse_xml(f"<w:sdt {NAMES}><w:sdtContent><w:p><w:r><w:t>Controlled.</w:t></w:r></w:p></w:sdtContent></w:sdt>")
        )

    assert _blocks(_parsed(write)) == [
        ("text", "It is so."),
        ("equation", "a=b"),
        ("text", "Before."),
        ("text", "In a box."),
        ("text", "Controlled."),
    ]


def test_a_link_has_its_span_and_its_target() -> None:
    def write(word: Any) -> None:
        paragraph = word.add_paragraph("See ")
        number = word.part.relate_to(
            "https://kell.example",
            "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink",
            is_external=True,
        )
        named = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        link = f'<w:hyperlink {NAMES} xmlns:r="{named}" r:id="{number}"><w:r><w:t>the Kell</w:t></w:r></w:hyperlink>'
        paragraph._p.append(parse_xml(link))
        paragraph.add_run(".")

    document = _parsed(write)
    [link] = document.links
    assert (document.text[link.start : link.end], link.target) == ("the Kell", "https://kell.example")


def test_comments_stand_after_their_paragraph() -> None:
    def write(word: Any) -> None:
        paragraph = word.add_paragraph("It flows north.")
        word.add_comment(paragraph.runs, text="Does it?", author="Ida")
        word.add_paragraph("Then it ends.")

    assert _blocks(_parsed(write)) == [("text", "It flows north."), ("note", "Ida: Does it?"), ("text", "Then it ends.")]


@pytest.mark.parametrize("cut", [10, 1000, 5000])
def test_a_cut_file_is_said_to_be_damaged(cut: int) -> None:
    with pytest.raises(ParseError) as caught:
        DocxParser().parse(Source("a.docx", _content(lambda word: word.add_paragraph("It flows."))[:cut]))
    assert caught.value.reason == "corrupt"


@pytest.mark.parametrize(
    "body", ["<!DOCTYPE a [<!ENTITY b 'c'>]><w:document>&b;</w:document>", "<w:document", "", "<other/>"], ids=range(4)
)
def test_a_broken_body_is_said_to_be_damaged(body: str) -> None:
    whole, file = io.BytesIO(_content(lambda word: word.add_paragraph("It flows."))), io.BytesIO()
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(file, "w") as other:
        for member in archive.infolist():
            other.writestr(member, body if member.filename == "word/document.xml" else archive.read(member))
    with pytest.raises(ParseError) as caught:
        DocxParser().parse(Source("a.docx", file.getvalue()))
    assert caught.value.reason == "corrupt"


def test_a_document_with_a_password_is_told_apart() -> None:
    locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(900) + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(ParseError) as caught:
        DocxParser().parse(Source("a.docx", locked))
    assert caught.value.reason == "encrypted"
