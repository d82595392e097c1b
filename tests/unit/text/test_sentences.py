from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.text.sentences import sentences


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["See Art. 6 and Dr. Smith (e.g. No. 3).", "J. K. Rowling wrote it."],
        ["He lives in the U.S.", "He left at 5 p.m. Friday.", "Vitamin C.", "The end"],
        ["Sammy Davis Jr. sang.", "“Really?” he said.", '"Yes."', "She left!"],
        ["It cost 3.5 million.", "In 1999.", "The year after it was 2,000."],
        ["Am 3. Oktober 1990 war es.", "Vgl. dazu z.B. Kap. 4.", "Schluss."],
        ["M. Dupont est arrivé.", "L'art. 5, p. 3, est clair.", "Ça va ?", "Oui !"],
    ],
)
def test_one_line(expected: list[str]) -> None:
    assert cut(" ".join(expected)) == expected


def test_cjk_needs_no_blank() -> None:
    assert cut("东京是日本的首都。它很大！“是吗？”他说。") == ["东京是日本的首都。", "它很大！", "“是吗？”", "他说。"]


def test_lines_that_begin_something() -> None:
    text = "1. First item\n2. Second item. It has two.\n\n# Heading\n- a point\n| a | b |\n| c | d |"
    assert cut(text) == ["1. First item", "2. Second item.", "It has two.", "# Heading", "- a point", "| a | b |", "| c | d |"]


def test_a_wrapped_line_goes_on() -> None:
    text = "This line was wrapped at the margin of the page because\nIt was long. Next."
    assert cut(text) == [text[: text.index(" Next")], "Next."]


def test_short_lines_stand_alone() -> None:
    assert cut("Name: Foo\nAge: 12") == ["Name: Foo", "Age: 12"]


TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=" \n\tab.A!?…1。#|-()\"'’\u00a0\u2028"),
    st.lists(st.sampled_from(["Dr.", "U.S.", "The", "a", "1.", "\n", "\n\n", " ", "# x", "| y |", "é", "。", "e.g."])).map(
        "".join
    ),
)


@given(TEXTS)
def test_every_character_belongs_to_one_sentence(text: str) -> None:
    spans = sentences(text)
    covered: set[int] = set()
    end = 0
    for start, stop in spans:
        assert end <= start < stop
        assert text[start:stop] == text[start:stop].strip()
        covered.update(range(start, stop))
        end = stop
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered
