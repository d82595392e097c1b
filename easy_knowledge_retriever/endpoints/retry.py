"""The one place where a failed request is sent again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from easy_knowledge_retriever.endpoints.faults import OutOfRoom
from easy_knowledge_retriever.endpoints.limiter import LONGEST_PAUSE
from easy_knowledge_retriever.errors import BadResponse, ContentRefused, RateLimited, UpstreamTimeout, UpstreamUnavailable

__all__ = ["RetryPolicy", "retrying"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is tried. Refused requests (400, 401 …) are never tried again."""

    tries: int = 5
    seconds: float = 120.0
    """No try begins later than this, and no more is slept in total."""
    first_wait: float = 0.5
    """Doubled for each further try, with jitter."""
    longest_wait: float = 8.0
    bad_responses: int = 2
    """How often an answer against the protocol is asked for again."""
    refusals: int = 1
    """How often an answer the model declined is asked for again."""


async def retrying(policy: RetryPolicy, call: Callable[[], Awaitable[T]]) -> T:
    """What ``call`` gives, tried again as the policy allows.

    A wait the endpoint asks for is kept up to two minutes; beyond that the error is raised at once, with the number.

    Raises:
        UpstreamError: The last failure.
    """
    # Imported here: a process that calls no endpoint does not pay for it.
    import tenacity  # noqa: PLC0415

    async def attempt() -> T:
        return await call()

    def again(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        return _curable(policy, error, state.attempt_number)

    def over(state: tenacity.RetryCallState) -> bool:
        spent = state.seconds_since_start or 0.0
        late = spent >= policy.seconds or state.idle_for + state.upcoming_sleep > policy.seconds
        return state.attempt_number >= policy.tries or late

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        told = error.retry_after if isinstance(error, RateLimited | UpstreamUnavailable) else None
        if told is not None:
            return told
        backoff = min(policy.longest_wait, policy.first_wait * 2 ** (state.attempt_number - 1))
        return float(backoff * random.uniform(0.5, 1.0))

    tries = tenacity.AsyncRetrying(retry=again, stop=over, wait=wait, reraise=True, sleep=asyncio.sleep)
    return await tries(attempt)


def _curable(policy: RetryPolicy, error: BaseException | None, attempt: int) -> bool:
    match error:
        case RateLimited() | UpstreamUnavailable():
            return (error.retry_after or 0.0) <= LONGEST_PAUSE
        case UpstreamTimeout():
            return True
        case OutOfRoom():
            return False  # the service asked for more room already
        case BadResponse():
            return attempt <= policy.bad_responses
        case ContentRefused():
            return attempt <= policy.refusals
        case _:
            return False
