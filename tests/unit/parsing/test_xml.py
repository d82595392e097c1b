from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.web.jats import XmlParser
from easy_knowledge_retriever.types import Document

ARTICLE = """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS//EN" "none.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink"><front><journal-meta><journal-title>J</journal-title></journal-meta>
<article-meta><title-group><article-title>The <italic>Kell</italic></article-title></title-group>
<contrib-group><contrib><name><surname>Holt</surname><given-names>Mira</given-names></name></contrib></contrib-group>
<abstract><p>It flows.</p></abstract></article-meta></front>
<body><sec><label>1</label><title>Where</title><p>North <xref rid="b1">(Brandt)</xref> and
<ext-link xlink:href="https://kell.example">on</ext-link>.<disp-formula><tex-math>a=b</tex-math></disp-formula></p>
<sec><title>Deeper</title><list><list-item><p>Brenn</p></list-item></list>
<fig><label>Figure 1.</label><caption><title>Map.</title><p>Seen.</p></caption><graphic/></fig>
<table-wrap><label>Table 1.</label><caption><title>Towns</title></caption><table><tr><th>Town</th><th>km</th></tr>
<tr><td>Verdel</td><td>12</td></tr></table><table-wrap-foot><fn><p>Rounded.</p></fn></table-wrap-foot></table-wrap></sec></sec></body>
<back><ack><title>Thanks</title><p>To all.</p></ack><ref-list><title>References</title>
<ref id="b1"><mixed-citation>Brandt. <source>Rivers</source>.</mixed-citation></ref>
<ref id="b2"><element-citation><name><surname>Holt</surname></name><year>2026</year></element-citation></ref></ref-list></back>
</article>"""


def _parsed(markup: str) -> Document:
    return XmlParser().parse(Source("a.xml", markup.encode()))


def _blocks(document: Document) -> list[tuple[str, int | None, str]]:
    return [(block.kind, block.level, document.text[block.start : block.end]) for block in document.blocks]


def test_an_article_with_its_sections() -> None:
    document = _parsed(ARTICLE)
    assert document.title == "The Kell"
    assert _blocks(document) == [
        ("heading", 1, "The Kell"),
        ("text", None, "Mira Holt"),
        ("heading", 2, "Abstract"),
        ("text", None, "It flows."),
        ("heading", 2, "1 Where"),
        ("text", None, "North (Brandt) and on."),
        ("equation", None, "a=b"),
        ("heading", 3, "Deeper"),
        ("list", None, "- Brenn"),
        ("caption", None, "Figure 1. Map. Seen."),
        ("caption", None, "Table 1. Towns"),
        ("table", None, "| Town | km |\n| Verdel | 12 |"),
        ("footnote", None, "Rounded."),
        ("heading", 2, "Thanks"),
        ("text", None, "To all."),
        ("heading", 2, "References"),
        ("list", None, "- Brandt. Rivers."),
        ("list", None, "- Holt 2026"),
    ]
    found = [(document.text[link.start : link.end], link.target) for link in document.links]
    assert found == [("(Brandt)", "#b1"), ("on", "https://kell.example")]


def test_other_documents_are_their_text() -> None:
    markup = '<a xmlns="urn:x"><b><c>One</c><c> two\n three </c></b><d>Mixed <e>text</e> here</d><f n="1"/></a>'
    assert _parsed(markup).text == "One\n\ntwo three\n\nMixed text here"


def test_declared_entities_stay_unread() -> None:
    assert _parsed('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>It is &b; so.</a>').text == "It is &b; so."


def test_depth_and_bombs_end() -> None:
    levels = "".join(f'<!ENTITY b{n} "{f"&b{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY b0 "x">{levels}]><a>text &b11;</a>'
    for markup in ("<a>" * 5000, "<sec>" * 200 + "</sec>" * 200, bomb):
        try:
            assert len(_parsed(markup).text) < 100
        except ParseError as error:
            assert error.reason in {"corrupt", "empty"}


@pytest.mark.parametrize("content", [b"<a>", b"text", b"<a>\x00</a>", b"\xff\xfe\x00"])
def test_what_is_no_xml_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        XmlParser().parse(Source("a.xml", content))
    assert caught.value.reason == "corrupt"
