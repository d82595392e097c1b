"""Which names may be variants of each other, by their letters alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.variants import bare_words, group_key, is_acronym_of, spelling_kind

VARIANTS = [
    ("e-mail", "email", "spacing"),
    ("New-York", "New York", "spacing"),
    ("U.S.", "US", "spacing"),
    ("U.S. Senate", "US Senate", "spacing"),
    ("U. S. Senate", "US Senate", "spacing"),
    ("J. R. R. Tolkien", "J.R.R. Tolkien", "spacing"),
    ("JRR Tolkien", "J.R.R. Tolkien", "spacing"),
    ("data base", "database", "spacing"),
    ("COVID-19", "Covid 19", "spacing"),
    ("F-16", "F16", "spacing"),
    ("St. Louis", "St Louis", "spacing"),
    ("Node.js", "NodeJS", "spacing"),
    ("Washington, D.C.", "Washington D.C.", "spacing"),
    ("Mission: Impossible", "Mission Impossible", "spacing"),
    ("Johnson & Johnson", "Johnson and Johnson", "spacing"),
    ("Saint-Étienne", "Saint Etienne", "spacing"),
    ("European Union (EU)", "European Union", "acronym"),
    ("Règlement général sur la protection des données (RGPD)", "Règlement général sur la protection des données", "acronym"),
    ("The Beatles", "Beatles", "article"),
    ("L'Oréal", "Oréal", "article"),
    ("La Sorbonne", "Sorbonne", "article"),
    ("Les Échos", "Échos", "article"),
    ("Dr. John Smith", "John Smith", "honorific"),
    ("Sir Isaac Newton", "Isaac Newton", "honorific"),
    ("Prof. Dr. Hans Meyer", "Hans Meyer", "honorific"),
    ("The Rev. John Doe", "John Doe", "honorific"),
    ("Jane Roe, PhD", "Jane Roe", "honorific"),
    ("M. Jean Dupont", "Jean Dupont", "honorific"),
    ("Mme Marie Curie", "Marie Curie", "honorific"),
    ("neural networks", "neural network", "plural"),
    ("policies", "policy", "plural"),
    ("movies", "movie", "plural"),
    ("caches", "cache", "plural"),
    ("boxes", "box", "plural"),
    ("hypotheses", "hypothesis", "plural"),
    ("indices", "index", "plural"),
    ("LLMs", "LLM", "plural"),
    ("réseaux neuronaux", "réseau neuronal", "plural"),
    ("systèmes d'IA à haut risque", "système d'IA à haut risque", "plural"),
    ("chevaux", "cheval", "plural"),
    ("jeux vidéo", "jeu vidéo", "plural"),
]
STRANGERS = [
    ("Paris", "Pari"),
    ("Mars", "Mar"),
    ("James", "Jame"),
    ("Lens", "Len"),
    ("news", "new"),
    ("bus", "bu"),
    ("Physics", "Physic"),
    ("DNS", "DN"),
    (".NET", "Net"),
    ("C++", "C"),
    ("C#", "C"),
    ("Yahoo!", "Yahoo"),
    ("Article 1 2", "Article 12"),
    ("Section 1.1", "Section 11"),
    ("Version 2.0", "Version 20"),
    ("Boeing 747-8", "Boeing 7478"),
    ("10,000", "10000"),
    ("Group A B", "Group AB"),
    ("Vitamin E", "Vitamin A"),
    ("A-level", "level"),
    ("Dr. House", "House"),
    ("Lady Gaga", "Gaga"),
    ("King Charles I", "King Charles II"),
    ("Louis XIV", "Louis XV"),
    ("New World (1995 film)", "New World"),
    ("Paris (EU)", "Paris"),
    ("John Smith Jr.", "John Smith"),
]


@pytest.mark.parametrize(("one", "other", "kind"), VARIANTS)
def test_variants_have_one_group_and_say_how_they_differ(one: str, other: str, kind: str) -> None:
    a, b = entity_key(one), entity_key(other)
    assert a != b
    assert group_key(a) == group_key(b)
    assert spelling_kind(a, b) == spelling_kind(b, a) == kind


@pytest.mark.parametrize(("one", "other"), STRANGERS)
def test_strangers_do_not(one: str, other: str) -> None:
    assert group_key(entity_key(one)) != group_key(entity_key(other))
    assert spelling_kind(entity_key(one), entity_key(other)) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_has_a_group_and_two_are_variants_if_it_is_the_same(one: str, other: str) -> None:
    a, b = entity_key(one), entity_key(other)
    assert bool(group_key(a)) == bool(a)
    assert (spelling_kind(a, b) is not None) == (group_key(a) == group_key(b))


@pytest.mark.parametrize(
    ("acronym", "name"),
    [
        ("EU", "European Union"),
        ("BoE", "Bank of England"),
        ("FBI", "Federal Bureau of Investigation"),
        ("RAG", "retrieval-augmented generation"),
        ("HTML", "HyperText Markup Language"),
        ("CNIL", "Commission nationale de l'informatique et des libertés"),
        ("RGPD", "Règlement général sur la protection des données"),
        ("SNCF", "Société nationale des chemins de fer français"),
    ],
)
def test_an_acronym_is_the_initials_of_its_words(acronym: str, name: str) -> None:
    assert is_acronym_of(acronym, name)


@pytest.mark.parametrize(
    ("acronym", "name"),
    [("EPP", "European Parliament"), ("AR", "Ankara"), ("EU", "European"), ("UE", "European Union"), ("E", "European Union")],
)
def test_other_letters_are_none(acronym: str, name: str) -> None:
    assert not is_acronym_of(acronym, name)


def test_words_are_counted_without_article_title_and_acronym() -> None:
    assert [bare_words(entity_key(name)) for name in ("The Beatles", "Dr. John Smith", "European Union (EU)", "U.S.")] == [
        1,
        2,
        2,
        1,
    ]


def test_a_hostile_name_takes_no_time() -> None:
    """Small words may count or not: all ways at once are looked at, not one after the other."""
    assert not is_acronym_of("AAAAAAAAZ", " ".join(["a", "b"] * 500))
    assert is_acronym_of("ABAAAAAA", " ".join(["apple", "bee", *["a"] * 500]))
    assert group_key("dr. " * 2000 + "ida brandt") == "idabrandt"
