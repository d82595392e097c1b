from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.office import odf
from easy_knowledge_retriever.parsing.office.odf import OdfParser
from easy_knowledge_retriever.types import Document
from tests.support.zips import zipped

PARTS = {
    "office": "office:1.0",
    "text": "text:1.0",
    "table": "table:1.0",
    "draw": "drawing:1.0",
    "presentation": "presentation:1.0",
    "svg": "svg-compatible:1.0",
}
NAMES = " ".join(f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}"' for short, name in PARTS.items())


def _content(kind: str, body: str, **members: str) -> bytes:
    content = f"<office:document-content {NAMES}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
    return zipped({"content.xml": f"{content}</office:document-content>", **members})


def _parsed(kind: str, body: str, suffix: str = ".odt", last: int | None = None) -> Document:
    return OdfParser().parse(Source(f"a{suffix}", _content(kind, body), last_page=last))


def _blocks(document: Document) -> list[tuple[str, int | None, str]]:
    return [(block.kind, block.page, document.text[block.start : block.end]) for block in document.blocks]


def test_a_text_with_its_notes() -> None:
    body = """<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
        <text:h text:outline-level="2">The <text:span>Kell</text:span></text:h>
        <text:p>It<text:s/>flows<text:note><text:note-body><text:p>Slowly.</text:p></text:note-body></text:note> north.
        <office:annotation><text:p>Does it?</text:p></office:annotation></text:p>
        <text:list><text:list-item><text:p>Brenn</text:p>
        <text:list><text:list-item><text:p>Skarn</text:p></text:list-item></text:list></text:list-item></text:list>
        <text:p><draw:frame><draw:image/><svg:desc>A river</svg:desc></draw:frame></text:p>"""
    document = _parsed("text", body)
    assert [(kind, " ".join(text.split())) for kind, _, text in _blocks(document)] == [
        ("heading", "The Kell"),
        ("text", "It flows north."),
        ("footnote", "Slowly."),
        ("note", "Does it?"),
        ("list", "- Brenn"),
        ("list", "- Skarn"),
        ("image", "A river"),
    ]
    assert (document.title, document.pages) == ("The Kell", ())


def test_slides_are_pages() -> None:
    slide = """<draw:page><draw:frame><draw:text-box><text:p>below</text:p></draw:text-box></draw:frame>
        <draw:frame presentation:class="title"><draw:text-box><text:p>Title {0}</text:p></draw:text-box></draw:frame>
        <presentation:notes><draw:frame><draw:text-box><text:p>Say {0}.</text:p></draw:text-box></draw:frame></presentation:notes>
        </draw:page>"""
    document = _parsed("presentation", slide.format(1) + slide.format(2) + slide.format(3), ".odp", last=2)
    assert _blocks(document) == [
        ("heading", 1, "Title 1"),
        ("text", 1, "below"),
        ("note", 1, "Say 1."),
        ("heading", 2, "Title 2"),
        ("text", 2, "below"),
        ("note", 2, "Say 2."),
    ]


def _row(*cells: str, times: int = 1) -> str:
    inside = "".join(
        f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" if cell else "<table:table-cell/>" for cell in cells
    )
    return f'<table:table-row table:number-rows-repeated="{times}">{inside}</table:table-row>'


def test_sheets_are_pages_and_repeated_cells_are_repeated() -> None:
    wide = '<table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell><table:covered-table-cell/>'
    far = '<table:table-cell table:number-columns-repeated="16000"/>'
    body = (
        f'<table:table table:name="One">{_row("a", "b")}<table:table-row>{wide}{far}</table:table-row>'
        f'{_row("", times=1_000_000)}{_row("c", times=2)}</table:table><table:table table:name="Two">{_row("d")}</table:table>'
    )
    assert _blocks(_parsed("spreadsheet", body, ".ods")) == [
        ("heading", 1, "One"),
        ("table", 1, "| a | b |\n| x | x |"),
        ("table", 1, "| c |\n| c |"),
        ("heading", 2, "Two"),
        ("table", 2, "| d |"),
    ]


def test_reading_cells_ends_at_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odf, "_MOST_CELLS", 10)
    text = _parsed("spreadsheet", f"<table:table>{_row('a', 'b') * 50}</table:table>", ".ods").text
    assert text.count("| a | b |") == 5


@pytest.mark.parametrize(
    "content",
    [
        zipped({"other.xml": "<a/>"}),
        zipped({"content.xml": "<a/>"}),
        zipped({"content.xml": "<a"}),
        zipped({"content.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]>"}),
        _content("text", "<text:p>It flows.</text:p>")[:200],
    ],
    ids=range(5),
)
def test_what_is_no_open_document_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        OdfParser().parse(Source("a.odt", content))
    assert caught.value.reason == "corrupt"


def test_entities_are_not_resolved() -> None:
    body = "<office:body><office:text><text:p>It is &b; so.</text:p></office:text></office:body>"
    declared = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]>'
    content = f"{declared}<office:document-content {NAMES}>{body}</office:document-content>"
    assert OdfParser().parse(Source("a.odt", zipped({"content.xml": content}))).text == "It is  so."
