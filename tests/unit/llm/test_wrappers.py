"""The wrappers around a model and their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.errors import BadResponse, BudgetExceeded, RateLimited, UpstreamUnavailable
from easy_knowledge_retriever.events import ModelCalled
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.llm.base import Completion, Ending, LLMService, Message, Priority
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.meter import Till
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService, RecordingObserver
from easy_knowledge_retriever.testing.memory import MemoryKVStorage
from easy_knowledge_retriever.types import Usage

FAST = RetryPolicy(first_wait=0.001, longest_wait=0.002)


def ask(text: str) -> list[Message]:
    return [Message("user", text)]


class Limited(FakeLLMService):
    """A fake with an endpoint."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.limiter = Limiter()


@pytest.fixture
async def store() -> AsyncIterator[MemoryKVStorage]:
    storage = MemoryKVStorage().bind("llm_cache")
    await storage.open()
    yield storage
    await storage.close()


async def rows(store: MemoryKVStorage) -> dict[str, JsonObject]:
    return {key: value async for key, value in store.scan()}


async def test_every_answer_is_told(store: MemoryKVStorage) -> None:
    observer = RecordingObserver()
    model = FakeLLMService(["one two three"] * 2)
    stack = llm_stack(model, observer=observer, cache=store)
    await stack.complete(ask("say four words"))
    await stack.complete(ask("say four words"))
    assert [piece async for piece in stack.stream(ask("other"))] == ["one", " two", " three", ""]
    told = [(e.kind, e.model, e.prompt_tokens, e.completion_tokens, e.cached) for e in observer.of(ModelCalled)]
    assert told == [("llm", "fake-llm", 3, 3, False), ("llm", "fake-llm", 0, 0, True), ("llm", "fake-llm", 1, 3, False)]


async def test_a_kept_answer_is_given_again_and_the_prompt_is_not_kept(store: MemoryKVStorage) -> None:
    model = FakeLLMService(lambda messages: f"answer to {messages[-1].content}")
    stack = llm_stack(model, cache=store)
    first = await stack.complete(ask("canary"), max_tokens=5)
    again = await stack.complete(ask("canary"), max_tokens=5)
    assert (first.cached, again.cached, first.text, again.text) == (False, True, "answer to canary", "answer to canary")
    assert again.usage == Usage(cached_calls=1)
    assert [piece async for piece in llm_stack(model, cache=store).stream(ask("canary"), max_tokens=5)] == [first.text, ""]
    assert not [key for key in await rows(store) if "canary" in key]
    await stack.complete(ask("canary"))
    await stack.complete(ask("canary"), max_tokens=5, json_schema={"type": "object"})
    await llm_stack(FakeLLMService(["x"], model="other"), cache=store).complete(ask("canary"), max_tokens=5)
    assert model.calls == 3
    assert len(await rows(store)) == 4


async def test_a_streamed_answer_is_kept_when_it_came_to_its_end(store: MemoryKVStorage) -> None:
    model, budget = FakeLLMService(["one two three"] * 2), Budget()
    stack = llm_stack(model, cache=store, till=Till(budget))
    async with aclosing(stack.stream(ask("q"))) as pieces:  # type: ignore[type-var]
        assert await anext(pieces) == "one"
    assert await rows(store) == {}
    assert "".join([piece async for piece in stack.stream(ask("q"))]) == "one two three"
    whole = await stack.complete(ask("q"))
    again = [piece async for piece in stack.stream(ask("q"))]
    assert (whole.text, whole.cached, again) == ("one two three", True, ["one two three", ""])
    assert isinstance(again[-1], Ending)
    assert (again[-1].cached, again[-1].usage) == (True, Usage(cached_calls=1))
    assert (model.calls, budget.llm_calls) == (2, 2)


class Cut(FakeLLMService):
    """A model that never comes to an end."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        return Completion(await self._answer(messages), "length")


@pytest.mark.parametrize("model", [FakeLLMService(["rubbish", "good", "never"]), Cut(["good, but cut", "good", "never"])])
async def test_only_a_whole_accepted_answer_is_kept(store: MemoryKVStorage, model: FakeLLMService) -> None:
    stack = llm_stack(model, cache=store, accept=lambda text: "good" in text)
    await stack.complete(ask("q"))
    assert await rows(store) == {}
    await stack.complete(ask("q"))
    assert len(await rows(store)) == (0 if isinstance(model, Cut) else 1)


async def test_a_budget_refuses_before_the_call(store: MemoryKVStorage) -> None:
    model, budget = FakeLLMService(lambda messages: "answer"), Budget(max_llm_calls=2)
    stack = llm_stack(model, till=Till(budget), cache=store)
    for _ in range(3):
        await stack.complete(ask("the same"))
    assert budget.llm_calls == 1
    await stack.complete(ask("another"))
    with pytest.raises(BudgetExceeded, match="2 model calls"):
        await stack.complete(ask("a third"))
    with pytest.raises(BudgetExceeded):
        _ = [piece async for piece in stack.stream(ask("a third"))]
    assert (model.calls, budget.llm_calls) == (2, 2)
    unlimited = Budget()
    await llm_stack(model, till=Till(unlimited)).complete(ask("x"))
    assert unlimited.llm_calls == 1


async def test_only_tries_that_may_be_billed_count() -> None:
    faults = {1: UpstreamUnavailable("refused"), 2: BadResponse("no text"), 3: RateLimited("later")}
    model, budget = FakeLLMService(lambda messages: "answer", faults=faults), Budget()
    await llm_stack(model, till=Till(budget), policy=FAST).complete(ask("q"))
    assert (model.calls, budget.llm_calls) == (4, 2)


async def test_no_try_goes_beyond_the_ceiling() -> None:
    model, budget = (
        FakeLLMService(lambda messages: "", faults=dict.fromkeys(range(1, 9), BadResponse("no text"))),
        Budget(None, 2),
    )
    with pytest.raises(BudgetExceeded):
        await llm_stack(model, till=Till(budget), policy=FAST).complete(ask("q"))
    assert (model.calls, budget.llm_calls) == (2, 2)


async def test_one_who_waits_for_another_try_holds_no_slot() -> None:
    model = Limited(lambda messages: "answer", faults={1: UpstreamUnavailable("down", retry_after=0.02)})
    model.limiter.narrow(1)
    seen: list[int] = []
    stack = llm_stack(model, policy=FAST)

    async def look() -> None:
        await asyncio.sleep(0.01)
        seen.append(model.limiter.in_flight)

    async with asyncio.TaskGroup() as group:
        group.create_task(stack.complete(ask("q")))
        group.create_task(look())
    assert seen == [0]
    assert model.calls == 2


async def test_a_stream_is_tried_again_until_its_first_piece() -> None:
    model = Limited(["one two"], faults={1: RateLimited("x"), 2: BadResponse("y")})
    pieces = [piece async for piece in llm_stack(model, policy=FAST).stream(ask("q"))]
    assert (pieces, model.calls) == (["one", " two", ""], 3)


class BreaksOff(LLMService):
    """Streams one piece and fails."""

    calls = 0

    @property
    def model(self) -> str:
        return "breaks-off"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        return Completion("")

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        self.calls += 1
        yield "half"
        raise UpstreamUnavailable("broke off")


async def test_a_stream_that_has_begun_is_not_tried_again() -> None:
    model, pieces = BreaksOff(), []
    with pytest.raises(UpstreamUnavailable):
        async for piece in llm_stack(model, policy=FAST).stream(ask("q")):
            pieces.append(piece)  # noqa: PERF401
    assert (pieces, model.calls) == (["half"], 1)


async def test_a_stream_left_half_way_frees_its_slot() -> None:
    model = Limited(["one two three"])
    stream = llm_stack(model).stream(ask("q"))
    async with aclosing(stream) as pieces:  # type: ignore[type-var]
        async for _ in pieces:
            assert model.limiter.in_flight == 1
            break
    assert model.limiter.in_flight == 0


async def test_closing_the_stack_closes_the_model() -> None:
    model, embedding = FakeLLMService(), FakeEmbeddingService()
    await llm_stack(model).aclose()
    await embedding_stack(embedding).aclose()
    assert model.closed
    assert embedding.closed
    assert llm_stack(model).model == "fake-llm"


class Batching(FakeEmbeddingService):
    """A fake that takes three texts a request."""

    batch_num = 3


async def test_embeddings_are_batched_retried_and_told() -> None:
    observer = RecordingObserver()
    model = Batching(16, faults={2: RateLimited("x")})
    stack = embedding_stack(embedding_stack(model, observer=observer, policy=FAST))
    texts = [f"word{number}" for number in range(8)]
    vectors = await stack.embed(texts, "document")
    np.testing.assert_allclose(vectors, await FakeEmbeddingService(16).embed(texts, "document"))
    assert model.calls == 4
    assert [(event.kind, event.model) for event in observer.of(ModelCalled)] == [("embedding", "fake-bag-of-words/16")] * 3
    assert (stack.embedding_dim, stack.fingerprint) == (16, "fake-bag-of-words/16")
    assert (await stack.embed([], "query")).shape == (0, 16)


async def test_a_local_embedding_model_gets_the_texts_whole() -> None:
    model = FakeEmbeddingService(16)
    assert (await embedding_stack(model).embed([f"word{number}" for number in range(100)], "document")).shape == (100, 16)
    assert model.calls == 1
