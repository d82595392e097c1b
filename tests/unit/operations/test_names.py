"""Names by their capitals and quotation marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.names import Name, capitalised_words, names_in, without_article, without_qualifier


def found(text: str, language: str = "en", known: frozenset[str] = frozenset()) -> list[str]:
    return [name.text for name in names_in(text, language, known)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("He met Ida Brandt in Marlow.", ["Ida Brandt", "Marlow"]),
        ("She studied at the University of Lund.", ["University of Lund"]),
        ("It was written by Ida von der Heide.", ["Ida von der Heide"]),
        ("He was taught by J. R. Marsh and St. John Rivers.", ["J. R. Marsh", "St. John Rivers"]),
        ("Both Kell, Marlow and Lund lie there.", ["Kell", "Marlow", "Lund"]),
        ("The firm Black & White sold it.", ["Black & White"]),
        ("He ruled with King Osric II of Mercia.", ["King Osric II of Mercia", "Osric II of Mercia"]),
        ("He followed Osric, Duke of Kell in 930.", ["Osric", "Osric, Duke of Kell", "Duke of Kell"]),
        ("It is Marlow's oldest bridge.", ["Marlow"]),
        ("They played at Brunn- Waldau again.", ["Brunn-Waldau"]),
        ("Sigrid the Proud left.", ["Sigrid the Proud"]),
        ("a film by Apollo 13 crew", ["Apollo 13"]),
        ("In Marlow Hall 1973 began.", ["Marlow Hall"]),
    ],
)
def test_runs_of_capitals(text: str, names: list[str]) -> None:
    assert found(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "However, nothing was found. Later they left.",
        "It rained in March and on Monday.",
        "The american and the British left.",
        "CHAPTER THREE GENERAL PROVISIONS",
        "Chapter IV",
        "",
        "no names here",
    ],
)
def test_what_is_no_name(text: str) -> None:
    assert found(text) == []


def test_a_word_that_opens_a_sentence_is_a_name_if_it_is_one_elsewhere() -> None:
    assert found("Verdel floods.") == []
    assert found("Verdel floods. They fear the Verdel.") == ["Verdel", "Verdel"]
    assert found("Verdel floods.", known=frozenset({"verdel"})) == ["Verdel"]


def test_the_article_before_a_name_is_no_part_of_it_where_a_sentence_begins() -> None:
    assert found("The Beatrice Band played.") == ["Beatrice Band"]
    assert found("They liked The Beatrice Band.") == ["The Beatrice Band"]


def test_german_nouns_are_no_names() -> None:
    text = "In der Stadt steht das Haus, in dem Ida Brandt wohnt, und die Brücke führt über den Fluss zur EU."
    assert found(text, "de") == ["Ida Brandt", "EU"]


def test_french_elisions_are_no_part_of_a_name() -> None:
    assert found("Il vit près d'Orange et de l'Isère avec Jean d'Arc.", "fr") == ["Orange", "Isère", "Jean d'Arc"]


def test_titles_in_quotation_marks() -> None:
    assert found('She wrote “The Silent Moor” and « La Lande » and " Snow Hares"( 2007).') == [
        "The Silent Moor",
        "La Lande",
        "Snow Hares",
    ]
    assert found('He said "this is not a title" twice.') == []
    assert found('She sang "Wide Water \n" in Lund.')[0] == "Wide Water"


def test_what_follows_in_parentheses() -> None:
    names = names_in("They saw New Moor (1995 film) at the European Bird Union (EBU).")
    assert [(name.text, name.type) for name in names[:2]] == [("New Moor", "UNKNOWN"), ("New Moor (1995 film)", "Content")]
    assert names[3] == Name("EBU", 58, 61, "UNKNOWN", 0, "European Bird Union")


def test_known_phrases_count_whole() -> None:
    text = "The hare in the moor is a tale. Nobody reads The hare in the moor."
    assert [n.text for n in names_in(text, phrases=["The hare in the moor"])] == ["The hare in the moor"] * 2


def test_spans_and_sentences() -> None:
    text = "They met Ida Brandt. Then Jon Lind came."
    names = names_in(text)
    assert [(text[n.start : n.end], n.sentence) for n in names] == [("Ida Brandt", 0), ("Jon Lind", 1)]


def test_types_that_are_safe_to_tell() -> None:
    names = names_in("He left Marlow College for Sir Jon Lind on Kell Island.")
    assert [(n.text, n.type) for n in names] == [
        ("Marlow College", "Organization"),
        ("Sir Jon Lind", "Person"),
        ("Jon Lind", "Person"),
        ("Kell Island", "Location"),
    ]


def test_shorter_forms() -> None:
    assert without_qualifier("New Moor (1995 film)") == "New Moor"
    assert without_qualifier("(film)") == "(film)"
    assert without_article("The Moor") == "Moor"
    assert without_article("The") == "The"
    assert capitalised_words("They met Ida, Jon and a man. Then left Kell") == {"ida", "jon", "kell"}


@given(st.text(st.sampled_from("aB .,'’\"“”()-&\n1é漢dl"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    for name in names_in(text):
        assert 0 <= name.start < name.end <= len(text)
        assert name.text
