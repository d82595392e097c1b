from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.text.analyzer import entity_key, fold


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Élodie  Müller", "elodie muller"),
        ("“The Beatles”", "The Beatles"),
        ("Sammy Davis Jr.", "sammy davis jr"),
        ("**Foo**", "foo"),
        ("(European Union)", "European\nUnion"),
        ("O’Brien", "O'Brien"),
        ("Jean–Luc", "Jean-Luc"),
        ("ﬁne", "FINE"),
        ("İstanbul", "Istanbul"),
        ("Straße", "STRASSE"),
        ("Łódź", "lodz"),
        ("Ελλάδα", "ΕΛΛΑΔΑ"),
        ("e\u0301t\u00e9", "ete"),
        ("co\u00adoperate", "cooperate"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert entity_key(one) == entity_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C++", "C"),
        ("C#", "C"),
        (".NET", "NET"),
        ("Yahoo!", "Yahoo"),
        ("Foo (film)", "Foo film"),
        ("が", "か"),
        ("й", "и"),
        ("cats", "cat"),
    ],
)
def test_different_names_stay_apart(one: str, other: str) -> None:
    assert entity_key(one) != entity_key(other)


def test_a_name_of_punctuation_keeps_something() -> None:
    assert entity_key("...") == "..."
    assert entity_key("  ") == ""


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert entity_key(entity_key(text)) == entity_key(text)


@given(st.text(min_size=1))
def test_a_name_never_loses_its_key(text: str) -> None:
    assert bool(entity_key(text)) == bool(fold(text).strip())
