from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.answering import LONGEST_ANSWER, ExtractiveAnswerer, refusal
from easy_knowledge_retriever.operations.base import AnswerRequest
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import Chunk, Context, PageSpan, Passage


def passage(number: int, text: str) -> Passage:
    half = len(text) // 2
    pages = (PageSpan(7, 0, half), PageSpan(8, half, len(text)))
    return Passage(number, Chunk(f"c{number}", "d", "d.pdf", "v", 0, text, 0, len(text), pages=pages))


def request(question: str, *texts: str, grounded: bool = True) -> AnswerRequest:
    passages = tuple(passage(number, text) for number, text in enumerate(texts, start=1))
    return AnswerRequest(question, Context("the context", passages), grounded=grounded)


RIVER = "The Verdel is a river of Ostrania in the north. The Verdel floods every April."
BREAD = "Bread is baked from flour, water and salt."


async def test_the_sentence_that_answers_is_given_verbatim_with_its_page() -> None:
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("When does the Verdel flood?", BREAD, RIVER))
    assert answer.text.startswith("The Verdel floods every April. [2]")
    first = answer.citations[0]
    assert (first.passage, first.page, first.quote) == (2, 8, "The Verdel floods every April.")
    assert RIVER[first.start : first.end] == first.quote


async def test_a_sentence_that_says_the_same_is_given_once() -> None:
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("When does the Verdel flood?", RIVER, RIVER))
    assert answer.text.count("The Verdel floods every April.") == 1


async def test_an_answer_is_short() -> None:
    text = " ".join(f"The Verdel floods in month number {n} of the {w} calendar." for n, w in enumerate("abcdefgh"))
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("When does the Verdel flood?", text))
    assert 1 <= len(answer.citations) <= LONGEST_ANSWER


async def test_nothing_fits_is_a_refusal() -> None:
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("Who won the chess tournament?", BREAD))
    assert answer.refused
    assert (answer.text, answer.citations) == ("The documents do not cover this question.", ())


async def test_no_passages_is_a_refusal_that_asks_no_model() -> None:
    embedder = FakeEmbeddingService()
    answer = await ExtractiveAnswerer(embedder).answer(request("Who won the chess tournament?"))
    assert answer.refused
    assert embedder.calls == 0


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who won the chess tournament?", "The documents do not cover this question."),
        ("Qui a gagné le tournoi d'échecs de la ville ?", "Les documents ne traitent pas de cette question."),
        ("xyzzy", "The documents do not cover this question."),
    ],
)
def test_a_refusal_speaks_the_language_of_the_question(question: str, words: str) -> None:
    assert refusal(question) == words


async def test_one_embedding_call_a_question() -> None:
    embedder = FakeEmbeddingService()
    await ExtractiveAnswerer(embedder).answer(request("When does the Verdel flood?", RIVER, BREAD))
    assert embedder.calls == 1


async def test_without_documents_it_says_that_there_is_no_model() -> None:
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("Hello?", grounded=False))
    assert answer.refused
    assert "no language model" in answer.text


async def test_the_stream_says_the_same() -> None:
    answerer = ExtractiveAnswerer(FakeEmbeddingService())
    asked = request("When does the Verdel flood?", RIVER, BREAD)
    whole = await answerer.answer(asked)
    *pieces, streamed = [piece async for piece in answerer.stream(asked)]
    assert "".join(map(str, pieces)) == whole.text
    assert streamed == whole


def test_the_prompt_is_the_context() -> None:
    (message,) = ExtractiveAnswerer(FakeEmbeddingService()).prompt(request("When?", RIVER))
    assert "the context" in message.content
    assert "When?" in message.content


async def test_a_question_for_a_number_prefers_a_sentence_that_has_one() -> None:
    text = "The Verdel river floods on some days. The Verdel river floods for 12 days each."
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("How many days does the Verdel river flood?", text))
    assert answer.citations[0].quote == "The Verdel river floods for 12 days each."


async def test_code_is_no_answer() -> None:
    code = '```python\nask("in which month does the Verdel flood")\n```'
    text = f"{code}\n\nThe month in which the Verdel does flood is April."
    answer = await ExtractiveAnswerer(FakeEmbeddingService()).answer(request("In which month does the Verdel flood?", text))
    assert answer.text == "The month in which the Verdel does flood is April. [1]"
