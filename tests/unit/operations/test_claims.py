from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.citation_markers import markers_in
from easy_knowledge_retriever.operations.claims import assertions_in, without_source_list

REFUSAL = "The documents do not cover this question."


def claims(text: str) -> list[tuple[str, list[list[str]]]]:
    """Each assertion with its segments' markers as written."""
    markers = markers_in(text)
    return [
        (one.text, [[text[markers[m].start : markers[m].end] for m in segment.markers] for segment in one.segments])
        for one in assertions_in(text, markers, {REFUSAL})
    ]


def test_every_sentence_is_one_cited_or_not() -> None:
    assert claims("The Verdel floods [1]. Bread needs salt. Zebras gallop. [2]") == [
        ("The Verdel floods .", [["[1]"]]),
        ("Bread needs salt.", [[]]),
        ("Zebras gallop.", [["[2]"]]),
    ]


def test_a_marker_that_opens_a_line_belongs_to_what_follows() -> None:
    found = claims("- [1] The Verdel floods in spring.\n- [2] Bread needs salt and water.")
    assert [markers for _, markers in found] == [[["[1]"]], [["[2]"]]]


def test_a_sentence_is_cut_at_its_markers() -> None:
    ((_, segments),) = claims("The Verdel floods in April [1], bread needs salt [2][3], and zebras gallop at night.")
    assert segments == [["[1]"], ["[2]", "[3]"], ["[1]", "[2]", "[3]"]]


def test_a_short_beginning_is_read_with_what_it_introduces() -> None:
    ((_, segments),) = claims("According to [1], the Verdel floods in April.")
    assert segments == [["[1]"]]


@pytest.mark.parametrize(
    "text",
    [
        REFUSAL,
        "# The floods of the Verdel",
        "**The floods of the Verdel**",
        "The main points are:",
        "Does the Verdel flood in April?",
        "Yes.",
        "In summary:",
        "The passages do not say who built the mill.",
        "Nothing about the mill is mentioned in the passages.",
        "Les documents ne précisent pas qui a bâti le moulin.",
        "---",
        "| --- | --- |",
    ],
)
def test_what_asserts_nothing_is_no_claim(text: str) -> None:
    assert claims(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Paris.",
        "It is 12.",
        "The documents shall not be kept for longer than a year.",
        "# The mill was built by the miller of Ostrania himself.",
        "- Zebras gallop at night",
        "| mill | 1906 |",
    ],
)
def test_what_asserts_something_is_one(text: str) -> None:
    assert len(claims(text)) == 1


def test_what_is_cited_is_always_a_claim() -> None:
    assert len(claims("Is it so that the Verdel floods [1]?")) == 1


def test_code_is_one_claim() -> None:
    found = claims("Call it so:\n```\nopen()\nclose()\n```\n[1]")
    assert [markers for _, markers in found] == [[["[1]"]]]
    assert "open() close()" in found[0][0]


def test_a_list_of_sources_is_taken_away() -> None:
    answer = "The Verdel floods [1]."
    assert without_source_list(f"{answer}\n\nSources:\n[1] river.pdf, p. 99\n[2] bread.pdf") == answer
    assert without_source_list(f"{answer}\n\n**Références**\n- [1] river.pdf") == answer
    assert without_source_list(f"{answer}\n\n[1]: https://example.org/x") == answer
    assert without_source_list(f"Sources of the Verdel:\n1974 it was found. {answer}") != answer
    assert without_source_list(answer) == answer
