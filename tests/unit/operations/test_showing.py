"""What is shown of an answer while it is written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.citation_check import check_words
from easy_knowledge_retriever.operations.showing import ShownText, unescaped
from easy_knowledge_retriever.types import Chunk, Passage
from tests.support.properties import examples

TEXT = "The dome was built in 1974. Its walls are thick, as a footnote of the report says [7]. It has an array x[9]."
PASSAGES = (
    Passage(1, Chunk("c1", "d", "a.md", "v", 0, TEXT, 0, len(TEXT))),
    Passage(2, Chunk("c2", "d", "a.md", "v", 1, "More.", 0, 5)),
)


def shown(text: str, size: int = 1, passages: tuple[Passage, ...] | None = PASSAGES) -> str:
    reading = ShownText(passages)
    pieces = [reading.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join([*pieces, reading.rest()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Built in 1974 [1]. More [2][1].", "Built in 1974 [1]. More [2][1]."),
        ("Built in 1974 [99].", "Built in 1974."),
        ("Built [99] in 1974 [98, p. 4][97].", "Built in 1974."),
        ("Built in 1974 [99][1].", "Built in 1974 [1]."),
        ("Built in 1974 [1, 99].", "Built in 1974 [1, 99]."),
        ("\n  Smith &amp; Sons &lt;b&gt; &amp;amp; R&D &copy", "Smith & Sons <b> &amp; R&D &copy"),
        (
            "Its walls are thick, as a footnote of the report says [7].",
            "Its walls are thick, as a footnote of the report says.",
        ),
        ("See [the page](http://x) and `y[99]` and [open", "See [the page](http://x) and `y[99]` and [open"),
        ("[open for ever " + "x" * 300, "[open for ever " + "x" * 300),
        ("[a\nb] [99]", "[a\nb]"),
        ("a `b[99]` c [99]", "a `b[99]` c"),
        ("a ``b[99]` c [99]", "a ``b` c"),
        ("a ``b[99]`` c `[99]", "a ``b[99]`` c `"),
        ("a ```b[99] c\n[99]``` [99]", "a ```b c\n```"),
        ("a\n```py\nb[99]\n```\nc [99]", "a\n```py\nb[99]\n```\nc"),
        ("~~~[99]\nb[99]", "~~~[99]\nb[99]"),
        ("~~~[99]", "~~~"),
        ("[98][     97, p. 3].", "."),
        ("[a [99] 1] [p. 4]", "[a ? 1]"),
        ("It ends in blanks  ", "It ends in blanks  "),
        ("  ", ""),
    ],
)
def test_a_text_cut_anywhere_shows_the_same(text: str, seen: str, size: int) -> None:
    assert shown(text, size) == seen


CITING = ("[1]", "[99]", " [2, p. 3]", "[98][97]", "[p. 4]", "x[99]", "a footnote of the report says ", "[7]", "[", "]", "(")
CODE = ("`", "``", "\n```\n", "~~~")
PIECES = st.sampled_from((*CITING, *CODE, "&amp;", "&lt", ";", " ", "\n", "word", "1974", " 2", "x" * 30))
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS, st.integers(1, 9))
@example("word [99]`x`", 1)
@example("``[99][1] [2, p. 3]``", 1)
@example("[99] word word word ```", 1)
@example("`[99]``", 1)
@examples(300)
def test_how_a_text_is_cut_never_matters(text: str, size: int) -> None:
    whole = shown(text, 10_000)
    assert shown(text, size) == whole
    if not any(number in text for number in ("[9", "[7]", "[p")):
        assert whole == unescaped(text).lstrip()


@given(TEXTS)
@example("``[99][1] [2, p. 3]``")
@example("[a [99] 1] [p. 4] [98][97]")
@examples(200)
def test_it_is_what_the_check_leaves(text: str) -> None:
    """But for the pages, which only the check knows."""
    text = unescaped(text).strip()
    assert without_pages(shown(text, 3)) == without_pages(check_words(text, PASSAGES).text)


def without_pages(text: str) -> str:
    return text.replace(", p. 3]", "]").strip()


def test_a_line_or_a_block_of_code_of_any_length_is_read_as_one() -> None:
    line, block = "a `b[99] " + "word " * 1000, "```\n" + "a[99]\n" * 1000
    assert [shown(f"{text}` c", 50) for text in (line, block)] == [f"{line}` c", f"{block}` c"]
    assert shown(f"{line}\nc", 50) == line.replace("[99]", "") + "\nc"


def test_without_passages_the_text_is_shown_as_it_comes() -> None:
    assert shown(" A [99] &amp; b", 3, None) == "A [99] &amp; b"
    reading = ShownText(None)
    assert [reading.feed(piece) for piece in ("a ", "[")] == ["a ", "["]


def test_only_what_is_open_is_held_back() -> None:
    reading = ShownText(PASSAGES)
    assert [reading.feed(piece) for piece in ("Built in", " 1974 ", "[1", "]", ". The", " end")] == [
        "Built in",
        " 1974",
        "",
        " [1]",
        ". The",
        " end",
    ]
