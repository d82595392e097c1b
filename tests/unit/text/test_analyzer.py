from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.text.analyzer import Analyzer, analyze, analyze_question
from easy_knowledge_retriever.text.language import guess_language


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("The directors were directing films", "en", ("director", "direct", "film")),
        ("L'article 6 qu'il a cité", "fr", ("articl", "6", "cit")),
        ("Die Häuser der Städte", "de", ("haus", "stadt")),
        ("snake_case and kebab-case", "en", ("snake", "case", "kebab", "case")),
        ("東京大学 Tokyo", "ja", ("東京", "京大", "大学", "tokyo")),
        ("人", "zh", ("人",)),
        ("हिन्दी भाषा", "hi", ("हिन्दी", "भाषा")),
        ("ﾃｽﾄ", "ja", ("テス", "スト")),
    ],
)
def test_terms(text: str, language: str, terms: tuple[str, ...]) -> None:
    assert analyze(text, language) == terms


def test_accents_and_case_change_nothing() -> None:
    assert analyze("RÉGLEMENTATION européenne", "fr") == analyze("reglementation europeenne", "fr")


def test_a_question_meets_the_passages_of_its_language() -> None:
    passage = "Les pratiques interdites par le règlement sont énumérées dans cet article."
    question = "Quelles sont les pratiques interdites ?"
    assert set(analyze_question(question)) & set(analyze(passage)) == {"pratiqu", "interdit"}


def test_a_name_is_found_across_languages() -> None:
    assert set(analyze("James Cameron directed the film.", "en")) & set(analyze_question("Où est né James Cameron ?")) == {
        "jame",
        "cameron",
    }


def test_a_question_without_function_words_is_searched_in_every_language() -> None:
    terms = analyze_question("Conventions collectives cadres")
    assert set(analyze("Conventions collectives cadres", "fr")) <= set(terms)
    assert set(analyze("Conventions collectives cadres", "en")) <= set(terms)


def test_a_question_of_function_words_still_asks_something() -> None:
    assert analyze_question("Who is it?") == ("who", "is", "it")
    assert analyze_question("?!") == ()


def test_one_analyzer_in_many_threads() -> None:
    shared = Analyzer()
    texts = [
        " ".join(f"{word}{ending}" for word in ("direct", "nation", f"w{i}") for ending in ("ing", "s", "al")) for i in range(200)
    ]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: shared.terms(text, "en"), texts))
    assert found == [Analyzer().terms(text, "en") for text in texts]


@given(st.text(), st.sampled_from(["", "en", "fr", "ja", "xx"]))
def test_any_text_has_terms(text: str, language: str) -> None:
    assert all(term and not any(c.isspace() for c in term) for term in analyze(text, language))
    question = analyze_question(text)
    assert len(set(question)) == len(question)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Who is the mother of the director?", "en"),
        ("Quelles sont les pratiques interdites par l'article 5 ?", "fr"),
        ("Wie hoch ist der Eiffelturm?", "de"),
        ("¿Dónde nació el autor de la novela?", "es"),
        ("Qual è il nome della madre?", "it"),
        ("Onde está o livro que não foi lido?", "pt"),
        ("Waar is het boek van de schrijver?", "nl"),
        ("東京大学はどこですか", "ja"),
        ("北京大学在哪里", "zh"),
        ("서울은 어디에 있습니까", "ko"),
        ("Где находится Москва?", "ru"),
        ("Πού είναι η Αθήνα;", "el"),
        ("أين تقع القاهرة", "ar"),
        ("", ""),
        ("12345 67", ""),
        ("Xylophon Quarz", ""),
    ],
)
def test_language(text: str, language: str) -> None:
    assert guess_language(text) == language
