from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.keywords import (
    LocalKeywords,
    choose_names,
    follow_up_names,
    name_candidates,
    search_names,
)


def names(question: str, known: set[str]) -> tuple[str, ...]:
    return choose_names(name_candidates(question), known)


def test_a_name_with_its_qualifier_is_preferred_to_the_bare_one() -> None:
    assert names("Who directed Red Lake (1950 Film)?", {"red lake", "red lake (1950 film)"}) == ("red lake (1950 film)",)


def test_a_bare_name_is_found_where_the_qualified_one_is_unknown() -> None:
    assert names("Who directed Red Lake (1950 Film)?", {"red lake"}) == ("red lake",)


def test_a_possessive_is_not_part_of_a_name() -> None:
    assert names("Where was Ida Brandt's mother born?", {"ida brandt"}) == ("ida brandt",)
    assert names("Which river is the Verdels' source?", {"verdels"}) == ("verdels",)


def test_a_name_may_hold_small_words_and_punctuation() -> None:
    assert names("Who wrote What Is to Be Seen? in 1902?", {"what is to be seen?"}) == ("what is to be seen?",)
    assert names("Is Duke of the Vale, 3rd of his line, alive?", {"duke of the vale, 3rd of his line"}) == (
        "duke of the vale, 3rd of his line",
    )


def test_an_elided_article_is_not_part_of_a_name() -> None:
    assert names("Que dit l'Article 6 de l’Ostranie ?", {"article 6", "ostranie"}) == ("article 6", "ostranie")


def test_every_word_is_spent_once_and_the_longest_name_wins() -> None:
    known = {"mount kell", "kell", "mount kell pass"}
    assert names("How high is Mount Kell Pass?", known) == ("mount kell pass",)


def test_both_names_of_a_comparison_are_found() -> None:
    assert set(names("Who is older, Ida Brandt or Olaf Ek?", {"ida brandt", "olaf ek"})) == {"ida brandt", "olaf ek"}


def test_a_common_word_is_no_name_beside_capitals() -> None:
    assert names("What is the state where Kell lies?", {"state", "kell"}) == ("kell",)
    assert names("What is the capital of the Ostrian state?", {"state"}) == ()


def test_a_question_in_lower_case_still_finds_its_names() -> None:
    assert names("what is damping?", {"damping"}) == ("damping",)
    assert names("how does personalised pagerank work", {"personalised pagerank", "work"}) == ("personalised pagerank",)


def test_function_words_alone_are_never_looked_up() -> None:
    assert not {"the", "of the", "what is"} & {candidate.key for candidate in name_candidates("What is the top of the hill?")}


@pytest.mark.parametrize("question", ["", "?", "   ", "???!"])
def test_no_words_no_names(question: str) -> None:
    assert name_candidates(question) == ()
    assert search_names(question) == ()


async def test_names_are_details_and_the_words_around_them_themes() -> None:
    found = await LocalKeywords().keywords("Where is the burial place of the mother of Ida Brandt?")
    assert found.low == ("Ida Brandt",)
    assert found.high == ("burial place", "mother")


async def test_phrases_stand_in_where_there_are_no_names() -> None:
    found = await LocalKeywords().keywords("how long does sour dough rest overnight?")
    assert found.low
    assert "sour dough rest overnight" in found.low[0]
    assert found.high == found.low


async def test_two_names_joined_by_and_are_two() -> None:
    assert search_names("Are Ida Brandt and Olaf Ek both botanists?") == ("Ida Brandt", "Olaf Ek")
    assert search_names("Is the Bank of Ostrania older than the Verdel Company?") == ("Bank of Ostrania", "Verdel Company")


def test_french_names_and_themes() -> None:
    assert search_names("Quelle est la longueur du fleuve Verdel en Ostranie ?") == ("Verdel", "Ostranie")


@pytest.mark.parametrize("question", ["Where was she born?", "And when did she die?", "Why?", "how old was he then"])
def test_a_follow_up_gets_the_names_before_it(question: str) -> None:
    assert follow_up_names(question, "Who was Ida Brandt?") == ("Ida Brandt",)


def test_a_question_that_stands_alone_gets_nothing() -> None:
    assert follow_up_names("Where was Olaf Ek born?", "Who was Ida Brandt?") == ()


def test_a_pronoun_beside_a_name_still_points_back() -> None:
    assert follow_up_names("Did she know Olaf Ek?", "Who was Ida Brandt?") == ("Ida Brandt",)


def test_a_question_without_names_hands_on_its_phrases() -> None:
    assert follow_up_names("And why?", "when does the river flood?") == ("river flood",)


def test_a_numbered_part_is_found_by_its_number_alone() -> None:
    assert names("What does Article 6(4) say of Annex III systems?", {"article 6", "annex iii"}) == ("article 6", "annex iii")
    assert names("Que dit l'article 6, paragraphe 4 ?", {"article 6"}) == ("article 6",)


async def test_french_elisions_and_inversions_leave_the_word() -> None:
    found = await LocalKeywords().keywords("Le règlement s'applique-t-il aux systèmes de recherche ?")
    assert found.high == ("règlement", "applique", "systèmes", "recherche")
