"""The fakes: deterministic, counted, failing when told."""

from __future__ import annotations

import numpy as np
import pytest

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import UpstreamTimeout
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService, FakeRerankerService

HELLO = (Message("system", "be brief"), Message("user", "hello there"))


async def test_texts_with_common_words_are_near() -> None:
    service = FakeEmbeddingService()
    query, near, far, same = await service.embed(["black cat", "the cat is black", "red dogs bark", "CAT, black!"], "query")
    assert query @ near == pytest.approx(2 / (2**0.5 * 4**0.5))
    assert query @ far == 0
    assert query @ same == pytest.approx(1)


async def test_vectors_have_length_one_and_the_dimension_asked_for() -> None:
    service = FakeEmbeddingService(7)
    vectors = await service.embed(["", "!?", "one two three", "🙂"], "document")
    assert vectors.shape == (4, service.embedding_dim)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert (await service.embed([], "document")).shape == (0, 7)
    assert service.fingerprint != FakeEmbeddingService(8).fingerprint


async def test_calls_and_inputs_are_counted() -> None:
    service = FakeEmbeddingService()
    await service.embed(["a", "b"], "document")
    await service.embed(["c"], "query")
    assert service.calls == 2
    assert service.inputs == [("a", "document"), ("b", "document"), ("c", "query")]
    assert not service.closed
    await service.aclose()
    assert service.closed


async def test_the_nth_call_fails() -> None:
    service = FakeRerankerService(faults={2: UpstreamTimeout("slow"), 3: 0.0})
    assert await service.scores("a cat", ["cat", "dog"]) == [0.5, 0]
    with pytest.raises(UpstreamTimeout):
        await service.scores("a cat", ["cat"])
    assert await service.scores("", ["cat"]) == [0]
    assert service.calls == 3
    assert [query for query, _ in service.requests] == ["a cat", "a cat", ""]


async def test_the_peak_of_calls_at_once() -> None:
    service = FakeEmbeddingService()
    await map_bounded(lambda text: service.embed([text], "query"), "abcdef", 3)
    assert service.peak == 3


async def test_replies_come_in_order_and_a_failure_uses_none() -> None:
    service = FakeLLMService(["one", "two  words\n"], faults={2: UpstreamTimeout("slow")})
    first = await service.complete(HELLO)
    assert (first.text, first.usage.prompt_tokens, first.usage.completion_tokens) == ("one", 4, 1)
    with pytest.raises(UpstreamTimeout):
        await service.complete(HELLO)
    assert [piece async for piece in service.stream(HELLO)] == ["two", "  words", "\n", ""]
    with pytest.raises(AssertionError, match="hello there"):
        await service.complete(HELLO)
    assert service.requests == [HELLO] * 4


async def test_replies_can_be_a_function_of_the_messages() -> None:
    service = FakeLLMService(lambda messages: messages[-1].content.upper(), model="loud")
    assert (await service.complete(HELLO)).text == "HELLO THERE"
    assert service.model == "loud"
