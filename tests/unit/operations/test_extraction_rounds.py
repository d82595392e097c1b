"""What is asked next, what follows from a failure, and that no reply is lost or paid for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.errors import BadResponse, BudgetExceeded, ContentRefused, UpstreamAuth, UpstreamUnavailable
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.extraction_rounds import Remembered
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.meter import Till
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.types import Chunk, Reply, Transcript
from tests.unit.operations.test_extraction_llm import FIRST, MORE, TEXT, document_of, silent

PARTS = [f"Text number {number}. " for number in range(12)]


class Behind(FakeLLMService):
    """A model behind a limiter of two."""

    limiter = Limiter()


Behind.limiter.narrow(2)


def kept_of(transcripts: Remembered, chunks: Sequence[Chunk]) -> list[int]:
    """How many replies about each chunk are kept."""
    return [sum(len(part) for part in transcripts.of(chunk).parts) for chunk in chunks]


async def test_a_conversation_goes_on_where_it_stopped() -> None:
    document, chunks = document_of(TEXT)
    first = FakeLLMService([FIRST, MORE])
    whole = await LLMExtractor(first).extract(document, chunks, silent)

    transcripts = Remembered("doc")
    await transcripts.keep(chunks[0], Transcript("doc", ((Reply(FIRST),),)))
    second = FakeLLMService([MORE])
    resumed = await LLMExtractor(second).extract(document, chunks, silent, transcripts)
    assert second.requests == first.requests[1:]
    assert resumed.extractions == whole.extractions
    assert (second.calls, transcripts.of(chunks[0]).complete) == (1, True)

    third = FakeLLMService()
    again = await LLMExtractor(third).extract(document, chunks, silent, transcripts)
    assert (again.extractions, third.calls) == (whole.extractions, 0)


async def test_halves_go_on_where_they_stopped() -> None:
    document, chunks = document_of(TEXT)
    transcripts = Remembered("doc")
    await transcripts.keep(chunks[0], Transcript("doc", ((Reply("E | Mira Holt | Person | x\nEND"),), ())))
    model = FakeLLMService(["E | Brenn | Location | y\nEND"])
    outcome = await LLMExtractor(model, max_gleaning=0).extract(document, chunks, silent, transcripts)
    assert [mention.name for mention in outcome.extractions[0].entities] == ["Mira Holt", "Brenn"]
    assert "Mira Holt founded" not in model.requests[0][1].content


async def test_a_spent_budget_waits_for_what_was_sent() -> None:
    document, chunks = document_of(*PARTS)
    model = FakeLLMService(lambda messages: FIRST, delay=0.01)
    transcripts = Remembered("doc")
    extractor = LLMExtractor(llm_stack(model, till=Till(Budget(max_llm_calls=3))), max_gleaning=1, concurrency=4)
    with pytest.raises(BudgetExceeded):
        await extractor.extract(document, chunks, silent, transcripts)
    assert model.calls == 3
    assert sorted(kept_of(transcripts, chunks), reverse=True)[:4] == [1, 1, 1, 0]


async def test_a_refused_key_takes_back_what_was_not_sent() -> None:
    document, chunks = document_of(*PARTS)
    model = Behind(lambda messages: FIRST, faults={1: UpstreamAuth("no"), 2: 0.02})
    transcripts = Remembered("doc")
    with pytest.raises(UpstreamAuth):
        await LLMExtractor(llm_stack(model), concurrency=8).extract(document, chunks, silent, transcripts)
    assert model.calls == 2
    assert sum(kept_of(transcripts, chunks)) == 1
    assert model.limiter.in_flight == 0


async def test_an_outage_in_the_middle_is_no_finding() -> None:
    document, chunks = document_of(*PARTS)
    model = FakeLLMService(lambda messages: FIRST, faults=dict.fromkeys(range(4, 99), UpstreamUnavailable("down")))
    transcripts = Remembered("doc")
    extractor = LLMExtractor(model, max_gleaning=0, concurrency=1)
    with pytest.raises(UpstreamUnavailable):
        await extractor.extract(document, chunks, silent, transcripts)
    assert model.calls == 3 + 3
    assert kept_of(transcripts, chunks) == [1] * 3 + [0] * 9

    well = FakeLLMService(lambda messages: FIRST)
    outcome = await LLMExtractor(well, max_gleaning=0).extract(document, chunks, silent, transcripts)
    assert (well.calls, len(outcome.extractions)) == (9, 12)


async def test_failures_apart_are_no_outage() -> None:
    document, chunks = document_of(*PARTS)
    faults = dict.fromkeys((1, 2, 4, 5, 7, 8), UpstreamUnavailable("down"))
    model = FakeLLMService(lambda messages: FIRST, faults=faults)
    outcome = await LLMExtractor(model, max_gleaning=0, concurrency=1).extract(document, chunks, silent)
    assert outcome.failed_chunks == ("c0", "c1", "c3", "c4", "c6", "c7")


async def test_each_reply_is_kept_before_the_next_question() -> None:
    document, chunks = document_of(TEXT)
    seen: list[list[int]] = []
    transcripts = Remembered("doc")

    def reply(messages: Sequence[Message]) -> str:
        seen.append(kept_of(transcripts, chunks))
        return f"E | Name {len(seen)} | Person | x\nEND"

    await LLMExtractor(FakeLLMService(reply), max_gleaning=2).extract(document, chunks, silent, transcripts)
    assert seen == [[0], [1], [2]]


@pytest.mark.parametrize("text", ["I'm sorry, but I can't help with that.", "Je ne peux pas vous aider.", "As an AI, no."])
async def test_a_refusal_in_words_is_asked_again_once(text: str) -> None:
    document, chunks = document_of(TEXT)
    model = FakeLLMService([text, FIRST, "END"])
    outcome = await LLMExtractor(model).extract(document, chunks, silent)
    assert len(outcome.extractions[0].entities) == 2
    assert model.requests[0] == model.requests[1]
    assert text not in str(model.requests[2])

    model, transcripts = FakeLLMService([text, text]), Remembered("doc")
    outcome = await LLMExtractor(model).extract(document, chunks, silent, transcripts)
    assert (outcome.failed_chunks, outcome.refused_chunks) == (("c0",), ("c0",))
    assert outcome.warnings == ("the model refused to read 1 of 1 chunks",)
    assert transcripts.of(chunks[0]).complete
    again = await LLMExtractor(FakeLLMService()).extract(document, chunks, silent, transcripts)
    assert again.refused_chunks == ("c0",)


async def test_a_refusal_of_the_endpoint_is_named_too() -> None:
    document, chunks = document_of(TEXT, "More. ")
    model = FakeLLMService(lambda messages: FIRST, faults={1: ContentRefused("declined")})
    outcome = await LLMExtractor(model, max_gleaning=0, concurrency=1).extract(document, chunks, silent)
    assert (outcome.failed_chunks, outcome.refused_chunks) == (("c0",), ("c0",))
    assert outcome.warnings == ("the model refused to read 1 of 2 chunks",)


async def test_half_a_surrogate_pair_can_be_kept() -> None:
    document, chunks = document_of(TEXT)
    transcripts = Remembered("doc")
    model = FakeLLMService([f"{FIRST}\ud83d"])
    await LLMExtractor(model, max_gleaning=0).extract(document, chunks, silent, transcripts)
    transcripts.of(chunks[0]).parts[0][0].text.encode()


async def test_cancelled_it_ends_at_once_and_leaves_no_slot_taken() -> None:
    document, chunks = document_of(*PARTS)
    model = Behind(lambda messages: FIRST, delay=30)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(LLMExtractor(llm_stack(model)).extract(document, chunks, silent))
        await asyncio.sleep(0.01)
        task.cancel()
    assert (model.calls, task.cancelled()) == (2, True)
    assert model.limiter.in_flight == 0


async def test_a_further_round_that_fails_is_said() -> None:
    document, chunks = document_of(TEXT)
    model = FakeLLMService([FIRST], faults={2: BadResponse("rubbish")})
    outcome = await LLMExtractor(model).extract(document, chunks, silent)
    assert outcome.warnings == ("1 chunks were read, but a further round about them failed",)
