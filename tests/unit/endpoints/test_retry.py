"""When a request is sent again, and how long it waits first."""

from __future__ import annotations

import asyncio

import pytest

from easy_knowledge_retriever.endpoints.retry import RetryPolicy, retrying
from easy_knowledge_retriever.errors import (
    BadResponse,
    BudgetExceeded,
    ContentRefused,
    ContextTooLong,
    EKRError,
    RateLimited,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)


class Endpoint:
    """Fails as told, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


async def test_a_good_answer_needs_one_try(waits: list[float]) -> None:
    endpoint = Endpoint()
    assert await retrying(RetryPolicy(), endpoint) == "answer"
    assert (endpoint.calls, waits) == (1, [])


async def test_waits_double_with_jitter_up_to_a_ceiling(waits: list[float]) -> None:
    endpoint = Endpoint(*[UpstreamUnavailable("down")] * 9)
    policy = RetryPolicy(tries=10, first_wait=0.5, longest_wait=8.0)
    assert await retrying(policy, endpoint) == "answer"
    ceilings = [0.5, 1, 2, 4, 8, 8, 8, 8, 8]
    assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True))


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (RateLimited("slow down"), 5),
        (UpstreamUnavailable("down"), 5),
        (UpstreamTimeout("late"), 5),
        (BadResponse("rubbish"), 3),
        (ContentRefused("no"), 2),
        (ContextTooLong("long"), 1),
        (UpstreamAuth("no"), 1),
        (UpstreamError("no"), 1),
        (BudgetExceeded("no"), 1),
    ],
)
async def test_tries_by_kind_of_failure(waits: list[float], error: EKRError, calls: int) -> None:
    endpoint = Endpoint(*[error] * 9)
    with pytest.raises(type(error)) as caught:
        await retrying(RetryPolicy(), endpoint)
    assert caught.value is error
    assert endpoint.calls == calls


@pytest.mark.parametrize("kind", [RateLimited, UpstreamUnavailable])
async def test_a_wait_that_is_asked_for_is_kept(waits: list[float], kind: type[RateLimited] | type[UpstreamUnavailable]) -> None:
    endpoint = Endpoint(kind("later", retry_after=3.0), kind("later", retry_after=100.0))
    assert await retrying(RetryPolicy(), endpoint) == "answer"
    assert waits == [3.0, 100.0]


async def test_a_wait_of_a_day_fails_at_once(waits: list[float]) -> None:
    endpoint = Endpoint(RateLimited("come back tomorrow", retry_after=86_400.0))
    with pytest.raises(RateLimited) as caught:
        await retrying(RetryPolicy(), endpoint)
    assert (caught.value.retry_after, endpoint.calls, waits) == (86_400.0, 1, [])


async def test_no_more_than_two_minutes_are_slept(waits: list[float]) -> None:
    endpoint = Endpoint(*[RateLimited("later", retry_after=50.0)] * 9)
    with pytest.raises(RateLimited):
        await retrying(RetryPolicy(), endpoint)
    assert waits == [50.0, 50.0]


async def test_no_try_begins_after_the_deadline(waits: list[float]) -> None:
    endpoint = Endpoint(*[UpstreamTimeout("late")] * 9)
    with pytest.raises(UpstreamTimeout):
        await retrying(RetryPolicy(seconds=0.0), endpoint)
    assert endpoint.calls == 1


async def test_a_cancellation_stays_one() -> None:
    async def hang() -> None:
        await asyncio.sleep(60)

    task = asyncio.get_running_loop().create_task(retrying(RetryPolicy(), hang))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
