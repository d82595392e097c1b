from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.claim_facts import (
    Quantity,
    contradicts,
    misplaces_numbers,
    missing_names,
    missing_quantities,
    opposes,
    quantities,
    swaps_roles,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up to 35 million euros", {("35000000", "eur")}),
        ("EUR 35 000 000", {("35000000", "eur")}),
        ("35 millions d'euros", {("35000000", "eur")}),
        ("1.5 billion", {("1500000000", "")}),
        ("7 %", {("7", "%")}),
        ("7 per cent", {("7", "%")}),
        ("15 working days", {("15", "day")}),
        ("twelve months", {("12", "month")}),
        ("douze mois", {("12", "month")}),
        ("two kinds", set()),
        ("2 August 2026", {("2", "august"), ("2026", "")}),
        ("le 2 août 2026", {("2", "august"), ("2026", "")}),
        ("August 2, 2026", {("2", "august"), ("2026", "")}),
        ("2026-08-02", {("2", "august"), ("2026", "")}),
        ("1,000.50 km", {("1000.5", "km")}),
        ("3,5 kg", {("3.5", "kg")}),
        ("section 3.2.1", {("3.2.1", "section")}),
        ("1. The Verdel", set()),
    ],
)
def test_a_quantity_is_the_same_in_every_form(text: str, expected: set[tuple[str, str]]) -> None:
    assert {(q.value, q.unit) for q in quantities(text)} == expected


def test_a_quantity_is_missing_without_its_number_or_with_another_unit() -> None:
    days, months, bare = Quantity("12", "day"), Quantity("12", "month"), Quantity("12")
    assert missing_quantities({days}, {days}) == set()
    assert missing_quantities({days}, {bare}) == set()
    assert missing_quantities({bare}, {months}) == set()
    assert missing_quantities({days}, {months}) == {days}
    assert missing_quantities({days}, ()) == {days}


def test_numbers_in_each_others_place_are_found() -> None:
    source = "The mill stood from 1959 to 1962 in Article 9 of the plan."
    assert misplaces_numbers("The mill stood from 1962 to 1962.", source)
    assert misplaces_numbers("The mill stood in Article 1959 of the plan.", source)
    assert not misplaces_numbers("In Article 9 the mill stood until 1962.", source)


def test_names_must_occur() -> None:
    source = "founded by mira holt, of the European Union"
    assert missing_names("It was founded by Mira Holt of the EU", source, "en") == ()
    assert missing_names("It was founded by Anna Berg", source, "en") == ("Anna", "Berg")
    assert missing_names("Founders are rare", source, "en") == ()
    assert missing_names("Gegründet von der Firma", source, "de") == ()


@pytest.mark.parametrize(
    ("claim", "source", "language"),
    [
        ("The rules do not apply to mills.", "The rules apply to mills.", "en"),
        ("The rules apply to mills.", "The rules do not apply to mills.", "en"),
        ("The rules never apply to mills.", "The rules apply to mills and dams.", "en"),
        ("The rules apply to mills, not to dams.", "The rules apply to dams, not to mills.", "en"),
        ("Les règles ne s'appliquent pas aux moulins.", "Les règles s'appliquent aux moulins.", "fr"),
        ("Mills are not excluded.", "Mills are excluded.", "en"),
        ("Les moulins ne sont pas interdits.", "Les moulins sont interdits.", "fr"),
        ("Aucune règle ne vise les moulins.", "Cette règle vise les moulins.", "fr"),
        ("Die Regeln gelten nicht für Mühlen.", "Die Regeln gelten für Mühlen.", "de"),
    ],
)
def test_a_negation_of_one_side_contradicts(claim: str, source: str, language: str) -> None:
    assert contradicts(claim, source, language)


@pytest.mark.parametrize(
    ("claim", "source", "language"),
    [
        ("The rules do not apply to mills.", "The rules do not apply to mills.", "en"),
        ("Mills are not covered.", "All buildings without mills are covered.", "en"),
        ("Millers keep logs.", "Millers, who do not sleep, keep logs.", "en"),
        ("It lasts twelve days.", "It lasts no more than twelve days.", "en"),
        ("Not only mills are covered.", "Mills and dams are covered.", "en"),
        ("Les règles ne s'appliquent pas.", "Les règles ne s'appliquent jamais.", "fr"),
    ],
)
def test_the_same_with_other_words_does_not(claim: str, source: str, language: str) -> None:
    assert not contradicts(claim, source, language)


def test_across_languages_only_the_presence_of_a_negation_counts() -> None:
    claim, source = "The rules do not apply to mills.", "Les règles s'appliquent aux moulins."
    assert contradicts(claim, source, "en", same_language=False)
    assert not contradicts("The rules apply to mills.", source, "en", same_language=False)
    assert contradicts("The rules apply.", "Les règles ne jouent pas.", "en", same_language=False)


def test_opposites_are_told_apart() -> None:
    assert opposes("It takes at least 12 days.", "It takes at most 12 days.")
    assert opposes("L'accès est interdit.", "L'accès est autorisé.")
    assert not opposes("It takes at least 12 days.", "It takes not less than 12 days, at most 20.")


def test_exchanged_roles_are_found() -> None:
    source = "Anna Berg sued Carl Dahl in 1990."
    assert swaps_roles("Carl Dahl sued Anna Berg.", source, "en")
    assert not swaps_roles("Anna Berg sued Carl Dahl.", source, "en")
    assert not swaps_roles("Carl Dahl was sued by Anna Berg.", source, "en")
    assert not swaps_roles("Carl Dahl married Anna Berg.", "Anna Berg married Carl Dahl.", "en")
    assert swaps_roles("Millers shall inform bakers.", "Bakers shall inform millers.", "en")
