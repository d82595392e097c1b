from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.web.charset import decoded
from easy_knowledge_retriever.parsing.web.html import HtmlParser, html_pieces
from easy_knowledge_retriever.types import Document

TAGS = ["p", "div", "a href='x'", "ul", "li", "table", "tr", "td", "h2", "pre", "br", "b", "img alt='i'", "script", "blockquote"]


def _parsed(markup: str) -> Document:
    return HtmlParser().parse(Source("a.html", markup.encode()))


def _blocks(markup: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for piece in html_pieces(markup)]


def test_blocks_are_told_apart() -> None:
    markup = """<title>Rivers &amp; towns</title><h1>The <em>Kell</em></h1>
        <p>It flows
        north.<br>Slowly.</p>loose<ul><li>Brenn<ul><li>Skarn</li></ul></li></ul>
        <pre>  a\n  b</pre><blockquote><p>All is water.</p></blockquote>
        <figure><img src=k.png alt="A river"><figcaption>The Kell</figcaption></figure>"""
    document = _parsed(markup)
    assert document.title == "Rivers & towns"
    assert [(block.kind, document.text[block.start : block.end]) for block in document.blocks] == [
        ("heading", "The Kell"),
        ("text", "It flows north.\nSlowly."),
        ("text", "loose"),
        ("list", "- Brenn"),
        ("list", "- Skarn"),
        ("code", "  a\n  b"),
        ("quote", "All is water."),
        ("image", "A river"),
        ("caption", "The Kell"),
    ]


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>x</script>",
        "<style>x</style>",
        "<nav>x</nav>",
        "<template>x</template>",
        "<p hidden>x</p>",
        '<p style="display: none">x</p>',
        '<div aria-hidden="true"><p>x</p></div>',
        '<div role="navigation">x</div>',
        "<!-- x -->",
    ],
)
def test_what_is_not_shown_is_not_read(hidden: str) -> None:
    assert _blocks(f"<p>before</p>{hidden}<p>after</p>") == [("text", "before"), ("text", "after")]


def test_cells_that_span_keep_their_columns() -> None:
    rows = "<tr><th>a<th colspan=2>b<tr><td rowspan=2>c<td>d<td>e<tr><td>f<td>g"
    assert _blocks(f"<table><caption>T</caption>{rows}</table>") == [
        ("caption", "T"),
        ("table", "| a | b |  |\n| c | d | e |\n| c | f | g |"),
    ]


def test_a_table_that_lays_out_a_page_is_its_text() -> None:
    inner = "<table><tr><td>a<td>b<tr><td>c<td>d</table>"
    assert _blocks(f"<table><tr><td>menu<td>{inner}</table>") == [("text", "menu"), ("table", "| a | b |\n| c | d |")]
    assert _blocks("<table><tr><td>one<td>two</table>") == [("text", "one"), ("text", "two")]


def test_links_know_their_words() -> None:
    document = _parsed('<p>See <a href="kell.html"> the <b>Kell</b> </a>and <a>no</a>.</p><ul><li><a href=b>B</a> c</ul>')
    assert document.text == "See the Kell and no.\n\n- B c"
    found = [(document.text[link.start : link.end], link.target) for link in document.links]
    assert found == [("the Kell", "kell.html"), ("B", "b")]


def test_depth_costs_nothing() -> None:
    assert _blocks("<div>" * 20_000 + "deep" + "</div>" * 20_000) == [("text", "deep")]
    assert _blocks("<table><tr><td>" * 500 + "deep") == [("text", "deep")]


@given(
    st.lists(
        st.one_of(st.sampled_from([*(f"<{t}>" for t in TAGS), *(f"</{t.split()[0]}>" for t in TAGS)]), st.text()), max_size=30
    )
)
def test_any_markup_gives_exact_spans(parts: list[str]) -> None:
    try:
        document = _parsed("".join(parts))
    except ParseError:
        return
    at = 0
    for block in document.blocks:
        assert at <= block.start < block.end <= len(document.text)
        assert document.text[block.start : block.end].strip()
        at = block.end
    for link in document.links:
        assert document.text[link.start : link.end].strip() == document.text[link.start : link.end] != ""


@pytest.mark.parametrize(
    ("content", "text", "warned"),
    [
        ('<meta charset="windows-1254"><p>ağaç'.encode("cp1254"), "ağaç", False),
        ('<meta charset="iso-8859-1"><p>5 €'.encode("cp1252"), "5 €", False),
        ('<?xml version="1.0" encoding="shift_jis"?><p>佐藤'.encode("shift_jis"), "佐藤", False),
        ('<meta charset="utf-8"><p>können'.encode("cp1252"), "können", True),
        ('<meta charset="klingon"><p>können'.encode(), "können", True),
        ("<p>können".encode("utf-16"), "können", False),
    ],
)
def test_a_declared_encoding_counts_if_it_fits(content: bytes, text: str, warned: bool) -> None:
    page = decoded(content, "a.html")
    assert page.text.endswith(text)
    assert bool(page.warnings) == warned
