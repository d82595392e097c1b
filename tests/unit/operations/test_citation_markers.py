from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.citation_markers import code_spans, markers_in

ONE = ((2, ()),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It floods [2].", ONE),
        ("It floods[2].", ONE),
        ("It floods. [2]", ONE),
        ("[2, p. 14]", ((2, (14,)),)),
        ("[2, p.14-15]", ((2, (14, 15)),)),
        ("[2, p. 14–15]", ((2, (14, 15)),)),
        ("[2, page 14]", ((2, (14,)),)),
        ("[2, pp. 14, 16]", ((2, (14, 16)),)),
        ("[2: p. 14; 3, p. 5]", ((2, (14,)), (3, (5,)))),
        ("[2, S. 14]", ((2, (14,)),)),
        ("[2 (p. 14)]", ((2, (14,)),)),
        ("[1][2]", ((1, ()), (2, ()))),
        ("[1, 2]", ((1, ()), (2, ()))),
        ("[1; 2]", ((1, ()), (2, ()))),
        ("[1 et 2]", ((1, ()), (2, ()))),
        ("[1-3]", ((1, ()), (2, ()), (3, ()))),
        ("［2］ and 【2】 and 〔2〕", ((2, ()), (2, ()), (2, ()))),
        ("[\u200b2\u202e\u2060]", ONE),
        ("[２] and [²]", ((2, ()), (2, ()))),
        ("[Passage 2]", ONE),
        ("[passage 2, p. 14]", ((2, (14,)),)),
        ("[source: 2]", ONE),
        ("[^2]", ONE),
        ("[#2]", ONE),
        ("[p. 14]", ((0, (14,)),)),
        ("[99]", ((99, ()),)),
        ("[4711]", ((4711, ()),)),
        ("[0]", ((0, ()),)),
        ("[1998, p. 3]", ((1998, (3,)),)),
    ],
)
def test_every_form_of_a_citation_is_read(text: str, expected: tuple[tuple[int, tuple[int, ...]], ...]) -> None:
    assert tuple((one.number, one.pages) for marker in markers_in(text) for one in marker.cited) == expected


@pytest.mark.parametrize(
    "text",
    [
        "in the year [2024]",
        "rows[0] = 1",
        "rows[1].name",
        "rows[1](x)",
        "`rows [1]`",
        "```\nrows [1]\n```",
        "~~~\nrows [1]\n",
        "see [1](https://example.org)",
        "an image ![1](x.png)",
        "[1]: https://example.org",
        "in the interval [0, 1]",
        "on a scale [1-5]",
        "see [Article 5]",
        "he said [sic]",
        "[1, see above]",
        "[]",
        "[1",
    ],
)
def test_what_only_looks_like_a_citation_is_left_alone(text: str) -> None:
    assert markers_in(text) == ()


def test_code_ends_and_text_goes_on() -> None:
    text = "```\na[1]\n```\nIt floods [2]."
    assert [marker.start for marker in markers_in(text)] == [text.index("[2]")]
    assert code_spans(text) == ((0, text.index("\nIt")),)


def test_a_footnote_that_was_copied_with_its_sentence_cites_nothing() -> None:
    passage = "The mill burnt down\nin 1906[2] and was rebuilt."
    own, given = markers_in("The mill burnt down in 1906[2] and was rebuilt [1].", [passage])
    assert own.cited == ()
    assert [one.number for one in given.cited] == [1]
    (again,) = markers_in("It was rebuilt later [2].", [passage])
    assert [one.number for one in again.cited] == [2]


@given(st.text(st.sampled_from("[]［］019 ,;-–pP.()`~!:\nab^#"), max_size=80))
def test_any_text_is_read(text: str) -> None:
    found = markers_in(text, [text])
    assert all(text[marker.start] in "[［" and text[marker.end - 1] in "]］" for marker in found)
    assert [m.start for m in found] == sorted(m.start for m in found)
