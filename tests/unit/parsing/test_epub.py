from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.web.epub import EpubParser
from tests.support.zips import zipped

CONTAINER = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfile full-path="in/a.opf"/></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
    <dc:title>Rivers &amp; towns</dc:title></metadata><manifest>
    <item id="two" href="two.xhtml" media-type="application/xhtml+xml"/>
    <item id="one" href="text/one%20a.xhtml" media-type="application/xhtml+xml"/>
    <item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
    <item id="gone" href="../../gone.xhtml" media-type="application/xhtml+xml"/>
    <item id="css" href="a.css" media-type="text/css"/></manifest>
    <spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="gone"/><itemref idref="css"/>
    <itemref idref="none"/></spine></package>"""
MEMBERS = {
    "META-INF/container.xml": CONTAINER,
    "in/a.opf": PACKAGE,
    "in/two.xhtml": "<h1>Two</h1><p>Towns.</p>",
    "in/text/one a.xhtml": '<?xml version="1.0" encoding="utf-8"?><h1>Öne</h1>',
    "in/nav.xhtml": "<p>Contents</p>",
}


def test_parts_come_in_reading_order() -> None:
    document = EpubParser().parse(Source("a.epub", zipped(MEMBERS)))
    assert document.title == "Rivers & towns"
    assert document.text == "Öne\n\nTwo\n\nTowns."
    assert [(block.kind, block.level) for block in document.blocks] == [("heading", 1), ("heading", 1), ("text", None)]
    assert len(document.warnings) == 1
    assert "gone.xhtml" in document.warnings[0]


@pytest.mark.parametrize("missing", ["META-INF/container.xml", "in/a.opf"])
def test_a_book_without_its_plan_is_said_to_be_damaged(missing: str) -> None:
    with pytest.raises(ParseError) as caught:
        EpubParser().parse(Source("a.epub", zipped({name: said for name, said in MEMBERS.items() if name != missing})))
    assert caught.value.reason == "corrupt"
