"""A turn at an endpoint is passed on when the answer is safe; who waits for one can be told from who has one."""

from __future__ import annotations

import asyncio

import pytest

from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.errors import UpstreamUnavailable
from easy_knowledge_retriever.llm.base import Completion, Message
from easy_knowledge_retriever.llm.flight import Flight, flight
from easy_knowledge_retriever.llm.wrappers import LimitedLLM
from easy_knowledge_retriever.testing.fakes import FakeLLMService

ASKED = (Message("user", "x"),)


def narrow() -> Limiter:
    """A limiter of one."""
    limiter = Limiter()
    limiter.narrow(1)
    return limiter


async def test_the_next_request_waits_until_the_answer_is_safe() -> None:
    model, safe = FakeLLMService(["one", "two"]), asyncio.Event()
    limited = LimitedLLM(model, narrow())
    landed: list[str] = []

    async def land(completion: Completion) -> None:
        landed.append(completion.text)
        await safe.wait()

    async def ask() -> Flight:
        with flight(land) as request:
            await limited.complete(ASKED)
            return request

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (model.calls, landed) == (1, ["one"])
        safe.set()
    assert landed == ["one", "two"]
    assert all(task.result().landed for task in tasks)


async def test_who_waits_for_a_turn_is_not_sent() -> None:
    limiter = narrow()
    limited = LimitedLLM(FakeLLMService(["one"], faults={1: UpstreamUnavailable("down")}), limiter)
    seen: list[bool] = []

    async def land(completion: Completion) -> None:
        seen.append(True)

    with flight(land) as request:
        async with limiter.slot(), asyncio.TaskGroup() as group:
            task = group.create_task(limited.complete(ASKED))
            await asyncio.sleep(0.01)
            assert not request.sent
            task.cancel()
        with pytest.raises(UpstreamUnavailable):
            await limited.complete(ASKED)
        assert not request.sent
        await limited.complete(ASKED)
        assert (request.sent, request.landed, seen) == (True, True, [True])
    await LimitedLLM(FakeLLMService(["one"]), limiter).complete(ASKED)


async def test_a_service_that_nothing_holds_back_sends_at_once() -> None:
    async def land(completion: Completion) -> None:
        raise AssertionError("nobody lands it")

    with flight(land) as request:
        await FakeLLMService(["one"]).complete(ASKED)
    assert (request.sent, request.landed) == (True, False)
