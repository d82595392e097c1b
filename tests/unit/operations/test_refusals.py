"""Refusals in the words of models, and answers that only look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.answering import refusal
from easy_knowledge_retriever.operations.refusals import refuses

QUESTIONS = (
    "What is the price of the ticket?",
    "Quel est le prix du billet pour cette séance ?",
    "Was ist der Preis für die Karte und wo ist sie?",
    "¿Cuál es el precio de la entrada para el museo?",
    "Qual è il prezzo del biglietto per il museo?",
    "Qual é o preço do bilhete para o museu?",
    "Wat is de prijs van het kaartje voor het museum?",
)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("form", ["{}", "  {}\n", "{} [1]", "{} [1][2, p. 4].", "**{}**", "> {}", "{}\n\n{}"])
def test_the_sentence_of_the_library_is_a_refusal_however_it_is_dressed(question: str, form: str) -> None:
    assert refuses(form.format(refusal(question), refusal(question)))


def test_each_language_has_a_sentence_of_its_own() -> None:
    assert len({refusal(question) for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "The documents don't cover this question",
        "The provided passages do not contain any information about the price of a ticket.",
        "Sorry, the given context doesn't mention ticket prices [3].",
        "There is no information on this in the passages.",
        "I cannot answer this question from the passages.",
        "This question cannot be answered from the given documents.",
        "No information about prices is given in the documents.",
        "The price is not mentioned in the passages.",
        "I don't know.",
        "Not covered.",
        "The documents do not cover this question. They speak of bread and of rivers only.",
        "The passages provide no details about it.",
        "Les documents fournis ne mentionnent pas le prix du billet [2].",
        "Aucune information sur le prix n'est donnée dans les passages.",
        "Il n'y a pas d'information à ce sujet.",
        "Je ne peux pas répondre à cette question à partir des documents.",
        "Les passages ne contiennent aucune indication.",
        "Die Dokumente enthalten keine Angaben zum Preis.",
        "Der Preis wird in den Passagen nicht erwähnt, in den Dokumenten wird er nicht genannt.",
        "Die Frage kann anhand der Texte nicht beantwortet werden.",
        "Los documentos no mencionan el precio.",
        "No hay información sobre el precio.",
        "I documenti non contengono informazioni sul prezzo.",
        "Os documentos não mencionam o preço.",
        "De documenten vermelden de prijs niet.",
    ],
)
def test_a_paraphrase_is_a_refusal(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "[1]",
        "It costs 12 euros [1].",
        "No. Smoking is not allowed on the platform [2].",
        "The contract does not include a warranty [1].",
        "The passages do not say when it was founded, but Mira Holt led it until 1980 [1].",
        "The documents do not give the price. The ticket is valid for two days [2].",
        "The documents do not give the price. However, children under six travel free of charge.",
        "It was founded in 1974 [1]. The passages do not say by whom.",
        "Les documents ne donnent pas le prix, mais le billet est valable deux jours [1].",
        "Die Dokumente nennen den Preis nicht, aber die Karte gilt zwei Tage [1].",
        "A document that does not bear a date is void under Article 6 [3]" + " and so on" * 60,
        "Nobody knows who built the dome [1].",
        "The committee could not agree on a date [2].",
        "Members do not know the result before the vote [1].",
    ],
)
def test_an_answer_is_none(text: str) -> None:
    assert not refuses(text)


@given(st.text(max_size=500))
def test_any_text_can_be_asked(text: str) -> None:
    assert refuses(text) in {True, False}


@pytest.mark.parametrize("piece", ["documents does ", "no information ", "kann nicht ", "[1] ", "n'est pas ", "I don't know. "])
def test_a_long_text_is_no_refusal(piece: str) -> None:
    assert not refuses(piece * 200_000)
