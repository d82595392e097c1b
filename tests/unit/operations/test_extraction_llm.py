"""Extraction by a model: rounds, failures, spans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from easy_knowledge_retriever.errors import BadResponse, BudgetExceeded, ContextTooLong, UpstreamAuth, UpstreamUnavailable
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.extraction_task import ExtractionTask
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.meter import Till
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.types import Chunk, Document

TEXT = "Mira Holt founded the Tidewater Observatory. It stands in Brenn."
FIRST = "E | Mira Holt | Person | Founder.\nE | Tidewater Observatory | Organization | In Brenn.\n"
FIRST += "R | Mira Holt | Tidewater Observatory | founding | 9 | She founded it.\nEND"
MORE = "E | MIRA HOLT | Person | again\nE | Brenn | Location | A town.\nR | mira holt | Brenn | life | 2 | Lived there.\nEND"


def document_of(*texts: str) -> tuple[Document, list[Chunk]]:
    text = "".join(texts)
    document = Document("doc", "a.md", text, "digest")
    chunks, start = [], 0
    for order, part in enumerate(texts):
        chunks.append(
            Chunk(f"c{order}", "doc", "a.md", "digest", order, part, start, start + len(part), headings=("Guide", "Sky"))
        )
        start += len(part)
    return document, chunks


def silent(done: int, total: int) -> None:
    """A progress callback that does nothing."""


async def test_a_chunk_is_read_in_two_rounds() -> None:
    model = FakeLLMService([FIRST, MORE])
    document, chunks = document_of("Some preface. ", TEXT)
    outcome = await LLMExtractor(model).extract(document, chunks[1:], silent)
    (extraction,) = outcome.extractions
    assert (extraction.chunk_id, extraction.document_id, extraction.source) == ("c1", "doc", "llm")
    assert [mention.name for mention in extraction.entities] == ["Mira Holt", "Tidewater Observatory", "Brenn"]
    assert [(r.source, r.target) for r in extraction.relations] == [
        ("Mira Holt", "Tidewater Observatory"),
        ("Mira Holt", "Brenn"),
    ]
    spans = [document.text[mention.start : mention.end] for mention in extraction.entities]
    assert spans == ["Mira Holt", "Tidewater Observatory", "Brenn"]
    first, second = extraction.relations
    assert document.text[first.start : first.end] == "Mira Holt founded the Tidewater Observatory."
    assert second.start is None
    assert (model.calls, outcome.warnings, outcome.failed_chunks) == (2, (), ())


async def test_the_constant_part_comes_first() -> None:
    model = FakeLLMService(lambda messages: "END")
    document, chunks = document_of(TEXT, "Another text.")
    await LLMExtractor(model, ExtractionTask(("Star", "Planet"), language="auto")).extract(document, chunks, silent)
    systems = {request[0] for request in model.requests}
    assert len(systems) == 1
    (system,) = systems
    assert system.role == "system"
    assert "Star, Planet" in system.content
    assert "the language of the passage" in system.content
    assert "{" not in system.content
    assert model.requests[0][1].content.startswith("Guide / Sky\n<text-")
    assert TEXT in model.requests[0][1].content


async def test_what_will_be_sent_can_be_seen_before() -> None:
    model = FakeLLMService(lambda messages: "END")
    document, chunks = document_of(TEXT, "Another text.")
    extractor = LLMExtractor(model, max_gleaning=0)
    await extractor.extract(document, chunks, silent)
    assert model.requests == [extractor.request(chunk) for chunk in chunks]


@pytest.mark.parametrize(("rounds", "calls"), [(0, 1), (1, 2), (3, 4)])
async def test_gleaning_has_as_many_rounds_as_set(rounds: int, calls: int) -> None:
    count = 0

    def always_more(messages: Sequence[Message]) -> str:
        nonlocal count
        count += 1
        return f"E | Name {count} | Person | x\nEND"

    document, chunks = document_of(TEXT)
    outcome = await LLMExtractor(FakeLLMService(always_more), max_gleaning=rounds).extract(document, chunks, silent)
    assert count == calls
    assert len(outcome.extractions[0].entities) == calls


async def test_gleaning_stops_when_a_round_adds_nothing() -> None:
    model = FakeLLMService([FIRST, FIRST])
    document, chunks = document_of(TEXT)
    outcome = await LLMExtractor(model, max_gleaning=5).extract(document, chunks, silent)
    assert model.calls == 2
    assert len(outcome.extractions[0].entities) == 2
    assert [message.role for message in model.requests[1]] == ["system", "user", "assistant", "user"]


async def test_a_gleaning_that_fails_keeps_the_first_round() -> None:
    model = FakeLLMService([FIRST], faults={2: UpstreamUnavailable("down")})
    document, chunks = document_of(TEXT)
    outcome = await LLMExtractor(model).extract(document, chunks, silent)
    assert len(outcome.extractions[0].entities) == 2


async def test_a_chunk_that_fails_is_counted() -> None:
    model = FakeLLMService(lambda messages: FIRST, faults={1: BadResponse("rubbish")})
    document, chunks = document_of("One. ", "Two. ", "Three. ")
    seen: list[tuple[int, int]] = []
    extractor = LLMExtractor(model, max_gleaning=0, concurrency=1)
    outcome = await extractor.extract(document, chunks, lambda done, total: seen.append((done, total)))
    assert outcome.failed_chunks == ("c0",)
    assert [extraction.chunk_id for extraction in outcome.extractions] == ["c1", "c2"]
    assert outcome.warnings == ("a chunk could not be read by the model: rubbish",)
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_an_outage_is_raised() -> None:
    model = FakeLLMService(faults=dict.fromkeys(range(1, 9), UpstreamUnavailable("down")))
    document, chunks = document_of("One. ", "Two. ")
    with pytest.raises(UpstreamUnavailable):
        await LLMExtractor(model).extract(document, chunks, silent)
    assert (await LLMExtractor(model).extract(document, [], silent)).extractions == ()


async def test_one_chunk_that_cannot_be_read_is_no_outage() -> None:
    model = FakeLLMService(faults={1: BadResponse("rubbish")})
    document, chunks = document_of("One. ")
    outcome = await LLMExtractor(model).extract(document, chunks, silent)
    assert outcome.failed_chunks == ("c0",)
    model = FakeLLMService(faults={1: UpstreamUnavailable("down")})
    with pytest.raises(UpstreamUnavailable):
        await LLMExtractor(model).extract(document, chunks, silent)


async def test_a_chunk_that_is_too_long_is_read_in_halves() -> None:
    model = FakeLLMService(
        ["E | Mira Holt | Person | x\nEND", "E | Brenn | Location | y\nEND"], faults={1: ContextTooLong("long")}
    )
    document, chunks = document_of(TEXT)
    outcome = await LLMExtractor(model, max_gleaning=0).extract(document, chunks, silent)
    assert [mention.name for mention in outcome.extractions[0].entities] == ["Mira Holt", "Brenn"]
    assert "Mira Holt founded" in model.requests[1][1].content
    assert "Mira Holt founded" not in model.requests[2][1].content
    always = FakeLLMService(faults=dict.fromkeys(range(1, 9), ContextTooLong("long")))
    outcome = await LLMExtractor(always).extract(document, chunks, silent)
    assert (outcome.failed_chunks, always.calls) == (("c0",), 2)
    one = FakeLLMService(faults={1: ContextTooLong("long")})
    document, chunks = document_of("One sentence")
    assert (await LLMExtractor(one).extract(document, chunks, silent)).failed_chunks == ("c0",)


async def test_a_refused_key_and_a_spent_budget_end_it_at_once() -> None:
    document, chunks = document_of("One. ", "Two. ", "Three. ", "Four. ", "Five. ")
    model = FakeLLMService(lambda messages: FIRST, faults={2: UpstreamAuth("no")})
    with pytest.raises(UpstreamAuth):
        await LLMExtractor(model, max_gleaning=0, concurrency=1).extract(document, chunks, silent)
    assert model.calls <= 3
    spent = llm_stack(FakeLLMService(lambda messages: FIRST), till=Till(Budget(max_llm_calls=2)))
    with pytest.raises(BudgetExceeded):
        await LLMExtractor(spent, max_gleaning=0, concurrency=1).extract(document, chunks, silent)


async def test_finding_nothing_where_names_are_is_said() -> None:
    document, chunks = document_of(TEXT, "nothing but small words. ")
    outcome = await LLMExtractor(FakeLLMService(lambda messages: "I see no names.")).extract(document, chunks, silent)
    assert outcome.extractions == ()
    assert outcome.warnings == ("the model found nothing in 1 of 2 chunks that seem to hold names",)


async def test_records_that_cannot_be_used_are_counted() -> None:
    document, chunks = document_of(TEXT)
    extractor = LLMExtractor(FakeLLMService([f"E | Alone\n{FIRST}"]), max_gleaning=0)
    outcome = await extractor.extract(document, chunks, silent)
    assert outcome.warnings == ("1 records of the model could not be used",)
