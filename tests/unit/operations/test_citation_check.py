from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import UpstreamUnavailable
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.operations.citation_check import Checking, check_citations, check_words, references_of
from easy_knowledge_retriever.operations.coverage import coverage, idf_of
from easy_knowledge_retriever.operations.judging import Pair, Verdict
from easy_knowledge_retriever.operations.likeness import PROBES
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import Chunk, FloatVectors, PageSpan, Passage

RIVER = "The Verdel is a river of Ostrania. It floods every April for 12 days."
BREAD = "Bread is baked from flour, water and salt."


def passage(number: int, text: str, start: int = 0) -> Passage:
    half = start + len(text) // 2
    pages = (PageSpan(number, start, half), PageSpan(number + 1, half, start + len(text)))
    return Passage(number, Chunk(f"c{number}", "d", f"d{number}.pdf", "v", 0, text, start, start + len(text), pages=pages))


PASSAGES = (passage(1, RIVER, start=1000), passage(2, BREAD))


def test_a_claim_is_tied_to_its_sentence_with_page_and_span() -> None:
    checked = check_words("The Verdel floods in April [1].", PASSAGES)
    citation = checked.citations[0]
    assert citation.quote == "It floods every April for 12 days."
    assert (citation.passage, citation.chunk_id, citation.file_path, citation.supported) == (1, "c1", "d1.pdf", True)
    assert citation.page == 2
    assert RIVER[(citation.start or 0) - 1000 : (citation.end or 0) - 1000] == citation.quote


def test_a_claim_on_two_sentences_cites_both() -> None:
    checked = check_words("The river Verdel of Ostrania floods in April for 12 days [1].", PASSAGES)
    assert [c.quote for c in checked.citations] == ["It floods every April for 12 days.", "The Verdel is a river of Ostrania."]
    assert [(claim.supported, claim.judged_by, claim.reason) for claim in checked.claims] == [(True, "lexical", "")]


def test_each_claim_has_its_own_sentence() -> None:
    checked = check_words("The Verdel is a river of Ostrania [1]. Bread is baked from flour [2].", PASSAGES)
    assert [c.quote for c in checked.citations] == ["The Verdel is a river of Ostrania.", BREAD]


def test_unknown_numbers_are_taken_away_and_counted() -> None:
    checked = check_words("Bread needs salt [2][7], and water [9].", PASSAGES)
    assert checked.text == "Bread needs salt [2], and water."
    assert checked.unknown == 2


def test_lists_and_ranges_are_read() -> None:
    assert {c.passage for c in check_words("Rivers and bread [1, 2].", PASSAGES).citations} == {1, 2}
    assert {c.passage for c in check_words("Rivers and bread [1-2].", PASSAGES).citations} == {1, 2}
    assert check_words("Bread [2, 8].", PASSAGES).text == "Bread [2]."


def test_what_the_passage_does_not_say_is_marked() -> None:
    checked = check_words("Zebras gallop across the savannah at night [2].", PASSAGES)
    assert [c.supported for c in checked.citations] == [False]
    assert checked.unsupported == 1
    assert checked.text.endswith("[2].")
    assert [(claim.supported, claim.reason) for claim in checked.claims] == [(False, "words")]


def test_a_number_that_is_not_in_the_passage_is_not_supported() -> None:
    assert check_words("The Verdel floods every April for 12 days [1].", PASSAGES).citations[0].supported
    assert not check_words("The Verdel floods every April for 15 days [1].", PASSAGES).citations[0].supported


def test_a_text_without_citations_has_none() -> None:
    checked = check_words("No idea, see [the appendix].", PASSAGES)
    assert (checked.text, checked.citations, checked.unknown) == ("No idea, see [the appendix].", (), 0)


def test_without_passages_every_citation_is_unknown() -> None:
    checked = check_words("Because [1].", ())
    assert (checked.text, checked.citations, checked.unknown) == ("Because.", (), 1)


def test_references_are_the_cited_passages_once_each() -> None:
    checked = check_words("A river [1]. It floods every April [1]. Bread is baked from flour [2].", PASSAGES)
    references = references_of(checked.citations)
    assert [(r.reference_id, r.file_path, r.passages) for r in references] == [("1", "d1.pdf", (1,)), ("2", "d2.pdf", (2,))]
    assert references[0].pages == (1, 2)


@example("[[99]1] [9[7]9] [1, p. [99]7]")
@given(text=st.text(st.sampled_from("ab .[1]29,-p\n［］"), max_size=60))
def test_every_citation_left_in_a_text_points_at_a_passage(text: str) -> None:
    checked = check_words(text, PASSAGES)
    assert all(c.passage in {1, 2} for c in checked.citations)
    again = check_words(checked.text, PASSAGES)
    assert (again.text, again.unknown, again.wrong_pages) == (checked.text, 0, 0)
    assert again.citations == checked.citations


def test_idf_and_coverage_by_hand() -> None:
    """ln(1 + 2/1) for a term of one text of two, ln(1 + 2/2) for one of both."""
    idf = idf_of([("a", "b"), ("b",)])
    assert round(idf["a"], 4) == 1.0986
    assert round(idf["b"], 4) == 0.6931
    assert round(coverage(["a", "b"], ["b"], idf), 3) == round(0.6931 / (1.0986 + 0.6931), 3)
    assert coverage([], ["a"], idf) == 0.0
    assert coverage(["unheard"], ["a"], idf) == 0.0


def test_claims_know_where_they_stand() -> None:
    checked = check_words("Yes. The Verdel floods in April [7][1, p. 99]. It never rains there.", PASSAGES)
    assert checked.text == "Yes. The Verdel floods in April [1, p. 2]. It never rains there."
    assert [checked.text[claim.start : claim.end] for claim in checked.claims] == [
        "The Verdel floods in April [1, p. 2].",
        "It never rains there.",
    ]
    assert [(claim.supported, claim.reason) for claim in checked.claims] == [(True, ""), (False, "uncited")]
    assert checked.counts == {
        "claims": 2,
        "unsupported_claims": 1,
        "uncited_claims": 1,
        "removed_citations": 1,
        "wrong_pages": 1,
    }
    assert len(checked.warnings) == 3


@pytest.mark.parametrize(
    ("written", "expected", "wrong"),
    [
        ("[1, p. 2]", "[1, p. 2]", 0),
        ("[1, pp. 1-2]", "[1, pp. 1-2]", 0),
        ("[1]", "[1]", 0),
        ("[1, p. 1]", "[1, p. 2]", 1),
        ("[1, p. 77]", "[1, p. 2]", 1),
        ("[1, p. 1-77]", "[1, p. 2]", 1),
        ("[1, p. 77; 9, p. 3]", "[1, p. 2]", 1),
        ("［1, p. 77］", "[1, p. 2]", 1),
    ],
)
def test_a_page_is_the_stored_one(written: str, expected: str, wrong: int) -> None:
    checked = check_words(f"It floods every April for 12 days {written}.", PASSAGES)
    assert checked.text == f"It floods every April for 12 days {expected}."
    assert checked.wrong_pages == wrong
    assert [citation.page for citation in checked.citations] == [2]


def test_where_no_page_is_stored_none_is_shown() -> None:
    paperless = Passage(1, Chunk("c", "d", "d.md", "v", 0, RIVER, 0, len(RIVER)))
    checked = check_words("It floods every April for 12 days [1, p. 3].", [paperless])
    assert (checked.text, checked.wrong_pages) == ("It floods every April for 12 days [1].", 1)
    assert checked.citations[0].page is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The Verdel floods every April for 15 days [1].", "numbers"),
        ("The Verdel floods every April for 12 hours [1].", "numbers"),
        ("The Verdel does not flood in April [1].", "negation"),
        ("The Verdel of Ostrania floods every April near Lake Dorn [1].", "names"),
        ("Zebras gallop across the savannah at night [2].", "words"),
        ("Zebras gallop across the savannah at night.", "uncited"),
        ("Zebras gallop across the savannah at night [9].", "unknown"),
        ("Bread is baked from flour, water and salt [1].", "words"),
    ],
)
def test_a_lie_is_marked_with_its_reason(text: str, reason: str) -> None:
    (claim,) = check_words(text, PASSAGES).claims
    assert (claim.supported, claim.reason) == (False, reason)
    assert not any(citation.supported for citation in claim.citations)


def test_an_addition_to_a_true_sentence_is_found() -> None:
    text = "The Verdel is a river of Ostrania, and zebras gallop quickly across its savannah meadows every night [1]."
    assert [claim.reason for claim in check_words(text, PASSAGES).claims] == ["words"]


def test_each_part_of_a_sentence_rests_on_its_own_citation() -> None:
    right = check_words("The Verdel floods every April [1], and bread is baked from flour [2].", PASSAGES)
    assert [claim.supported for claim in right.claims] == [True]
    swapped = check_words("The Verdel floods every April [2], and bread is baked from flour [1].", PASSAGES)
    assert [claim.supported for claim in swapped.claims] == [False]


def test_a_citation_that_adds_nothing_is_not_supported() -> None:
    checked = check_words("Bread is baked from flour, water and salt [1][2].", PASSAGES)
    assert [claim.supported for claim in checked.claims] == [True]
    assert {(c.passage, c.supported) for c in checked.citations} == {(1, False), (2, True)}


def test_the_refusal_is_no_claim() -> None:
    assert check_words("Nothing is known of it here.", PASSAGES, {"Nothing is known of it here."}).claims == ()


@given(text=st.text(st.sampled_from("ab .[1]29,-\npVerdl"), max_size=60))
def test_claims_are_slices_of_the_answer(text: str) -> None:
    checked = check_words(text, PASSAGES)
    assert all(0 <= claim.start < claim.end <= len(checked.text) for claim in checked.claims)
    assert {citation for claim in checked.claims for citation in claim.citations} == set(checked.citations)


PARAPHRASE = "Every spring the stream overflows its banks [1]."


async def test_words_that_settle_all_ask_no_model() -> None:
    embedding, judge = FakeEmbeddingService(), Judge([])
    checked = await check_citations("Bread is baked from flour [2]. Zebras!", PASSAGES, (), Checking(embedding, judge))
    assert checked.claims == check_words("Bread is baked from flour [2]. Zebras!", PASSAGES).claims
    assert (embedding.calls, judge.pairs) == (0, [])


async def test_other_words_are_compared_by_embedding() -> None:
    alike = Vectors({"It floods every April for 12 days.": 1.0, PARAPHRASE[:-5].strip() + " .": 0.95})
    checked = await check_citations(PARAPHRASE, PASSAGES, (), Checking(alike))
    assert [(claim.supported, claim.judged_by) for claim in checked.claims] == [(True, "embedding")]
    assert [c.quote for c in checked.citations] == ["It floods every April for 12 days."]
    unlike = Vectors({"It floods every April for 12 days.": 1.0, PARAPHRASE[:-5].strip() + " .": 0.2})
    checked = await check_citations(PARAPHRASE, PASSAGES, (), Checking(unlike))
    assert [(claim.supported, claim.reason) for claim in checked.claims] == [(False, "words")]


async def test_words_that_two_languages_share_are_no_addition() -> None:
    """Nearly half of the claim is cognate; what is not is compared with the rest, and not by itself."""
    source = (
        "La Commission nationale de protection garantit aux citoyens une information transparente et une assistance gratuite."
    )
    claim = "The national Commission for protection shall guarantee to all of the citizens transparent information and free help."
    given = (passage(1, source),)
    found = await check_citations(f"{claim} [1]", given, (), Checking(Vectors({source: 1.0, claim: 0.9})))
    assert [(c.supported, c.judged_by) for c in found.claims] == [(True, "embedding")]


async def test_embeddings_never_make_a_wrong_number_right() -> None:
    text = "Every spring the stream overflows its banks for 15 days [1]."
    checked = await check_citations(text, PASSAGES, (), Checking(Vectors({}, other=1.0)))
    assert [claim.reason for claim in checked.claims] == ["numbers"]


async def test_an_embedding_outage_loses_no_answer() -> None:
    broken = FakeEmbeddingService(faults={1: UpstreamUnavailable("down")})
    checked = await check_citations(PARAPHRASE, PASSAGES, (), Checking(broken))
    assert checked.degraded == ("alignment_failed",)
    assert checked.claims == check_words(PARAPHRASE, PASSAGES).claims


async def test_the_judge_has_the_last_word() -> None:
    judge = Judge([Verdict(True), Verdict(False, "says nothing of dams")])
    text = f"{PARAPHRASE} Its dams hold [1]. Bread is baked from flour [2]."
    checked = await check_citations(text, PASSAGES, (), Checking(judge=judge))
    assert [(claim.supported, claim.judged_by, claim.reason) for claim in checked.claims] == [
        (True, "judge", ""),
        (False, "judge", "says nothing of dams"),
        (True, "lexical", ""),
    ]
    assert [pair.claim for pair in judge.pairs] == ["Every spring the stream overflows its banks .", "Its dams hold ."]
    assert all(pair.passage == RIVER for pair in judge.pairs)


@pytest.mark.parametrize("failure", [UpstreamUnavailable("down"), ValueError("no"), [Verdict(True)] * 3, [None]])
async def test_a_judge_that_fails_loses_no_answer(failure: object) -> None:
    checked = await check_citations(PARAPHRASE, PASSAGES, (), Checking(judge=Judge(failure)))
    assert checked.claims == check_words(PARAPHRASE, PASSAGES).claims
    assert checked.degraded == (() if failure == [None] else ("judge_failed",))


class Judge:
    """Says what it is told to say, or fails."""

    def __init__(self, verdicts: object) -> None:
        self.verdicts = verdicts
        self.pairs: list[Pair] = []

    async def judge(self, pairs: Sequence[Pair]) -> Sequence[Verdict | bool | None]:
        self.pairs += pairs
        if isinstance(self.verdicts, Exception):
            raise self.verdicts
        assert isinstance(self.verdicts, list)
        return self.verdicts


class Vectors(FakeEmbeddingService):
    """Texts with a chosen cosine to the same direction, and to each other the product of theirs."""

    def __init__(self, cosines: dict[str, float], other: float = 0.0) -> None:
        super().__init__(dim=2)
        self.cosines, self.other = cosines, other

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        probes = set(PROBES)
        values = [0.0 if text in probes else self.cosines.get(text, self.other) for text in texts]
        return np.array([[value, math.sqrt(1 - value**2)] for value in values], np.float32)


def test_a_long_list_does_not_carry_whatever_its_words_make() -> None:
    """Each word of the claim stands in the list, but nowhere near the others."""
    names = ("mills", "boats", "roofs", "farms", "ovens", "wells", "carts", "looms", "barns", "gates")
    items = "; ".join(f"{name} of kind {number} with plain wooden parts from the old valley" for number, name in enumerate(names))
    owned = f"The council owns these things for the common good of all: {items}."
    listed = (passage(1, owned),)
    assert [c.supported for c in check_words("The council owns gates with plain wooden parts [1].", listed).claims] == [True]
    scattered = "Boats carry ovens and looms between wells, gates and barns near farms [1]."
    assert [c.supported for c in check_words(scattered, listed).claims] == [False]
