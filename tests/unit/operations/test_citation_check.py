from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.citation_check import check_citations, coverage, idf_of, references_of
from easy_knowledge_retriever.types import Chunk, PageSpan, Passage

RIVER = "The Verdel is a river of Ostrania. It floods every April for 12 days."
BREAD = "Bread is baked from flour, water and salt."


def passage(number: int, text: str, start: int = 0) -> Passage:
    half = start + len(text) // 2
    pages = (PageSpan(number, start, half), PageSpan(number + 1, half, start + len(text)))
    return Passage(number, Chunk(f"c{number}", "d", f"d{number}.pdf", "v", 0, text, start, start + len(text), pages=pages))


PASSAGES = (passage(1, RIVER, start=1000), passage(2, BREAD))


def test_a_claim_is_tied_to_its_sentence_with_page_and_span() -> None:
    checked = check_citations("The Verdel floods in April [1].", PASSAGES)
    (citation,) = checked.citations
    assert citation.quote == "It floods every April for 12 days."
    assert (citation.passage, citation.chunk_id, citation.file_path, citation.supported) == (1, "c1", "d1.pdf", True)
    assert citation.page == 2
    assert RIVER[(citation.start or 0) - 1000 : (citation.end or 0) - 1000] == citation.quote


def test_each_claim_has_its_own_sentence() -> None:
    checked = check_citations("The Verdel is a river of Ostrania [1]. Bread is baked from flour [2].", PASSAGES)
    assert [c.quote for c in checked.citations] == ["The Verdel is a river of Ostrania.", BREAD]


def test_unknown_numbers_are_taken_away_and_counted() -> None:
    checked = check_citations("Bread needs salt [2][7], and water [9].", PASSAGES)
    assert checked.text == "Bread needs salt [2], and water."
    assert checked.unknown == 2


def test_lists_and_ranges_are_read() -> None:
    assert {c.passage for c in check_citations("Rivers and bread [1, 2].", PASSAGES).citations} == {1, 2}
    assert {c.passage for c in check_citations("Rivers and bread [1-2].", PASSAGES).citations} == {1, 2}
    assert check_citations("Bread [2, 8].", PASSAGES).text == "Bread [2]."


def test_what_the_passage_does_not_say_is_marked() -> None:
    checked = check_citations("Zebras gallop across the savannah at night [2].", PASSAGES)
    assert [c.supported for c in checked.citations] == [False]
    assert checked.unsupported == 1
    assert checked.text.endswith("[2].")


def test_a_number_that_is_not_in_the_passage_is_not_supported() -> None:
    assert check_citations("The Verdel floods every April for 12 days [1].", PASSAGES).citations[0].supported
    assert not check_citations("The Verdel floods every April for 15 days [1].", PASSAGES).citations[0].supported


def test_a_text_without_citations_has_none() -> None:
    checked = check_citations("No idea, see [the appendix].", PASSAGES)
    assert (checked.text, checked.citations, checked.unknown) == ("No idea, see [the appendix].", (), 0)


def test_without_passages_every_citation_is_unknown() -> None:
    checked = check_citations("Because [1].", ())
    assert (checked.text, checked.citations, checked.unknown) == ("Because.", (), 1)


def test_references_are_the_cited_passages_once_each() -> None:
    checked = check_citations("A river [1]. It floods every April [1]. Bread is baked from flour [2].", PASSAGES)
    references = references_of(checked.citations)
    assert [(r.reference_id, r.file_path, r.passages) for r in references] == [("1", "d1.pdf", (1,)), ("2", "d2.pdf", (2,))]
    assert references[0].pages == (1, 2)


@given(text=st.text(st.sampled_from("ab .[1]29,-\n"), max_size=60))
def test_every_citation_left_in_a_text_points_at_a_passage(text: str) -> None:
    checked = check_citations(text, PASSAGES)
    again = check_citations(checked.text, PASSAGES)
    assert all(c.passage in {1, 2} for c in checked.citations)
    assert again.unknown == 0 or "[" in checked.text


def test_idf_and_coverage_by_hand() -> None:
    """ln(1 + 2/1) for a term of one text of two, ln(1 + 2/2) for one of both."""
    idf = idf_of([("a", "b"), ("b",)])
    assert round(idf["a"], 4) == 1.0986
    assert round(idf["b"], 4) == 0.6931
    assert round(coverage(["a", "b"], ["b"], idf), 3) == round(0.6931 / (1.0986 + 0.6931), 3)
    assert coverage([], ["a"], idf) == 0.0
    assert coverage(["unheard"], ["a"], idf) == 0.0
