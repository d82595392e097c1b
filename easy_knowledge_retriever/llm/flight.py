"""Whether a request is on its way or still waits for its turn, and what is done with its answer before the turn is passed on.

Who gives up on a group of requests lets those that were sent arrive, because they are paid for, and takes back the rest.
Who keeps answers for good wants no more of them at risk than may be under way. Only the wrapper that holds requests back
knows the moment for either; the two meet here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from easy_knowledge_retriever.llm.base import Completion

__all__ = ["Flight", "flight", "held_back", "landing"]


@dataclass(slots=True)
class Flight:
    """One request. A service that nothing holds back sends at once."""

    land: Callable[[Completion], Awaitable[None]]
    """Is given the answer, before another request takes its turn."""
    sent: bool = True
    landed: bool = False
    """Whether it was given the answer."""


_CURRENT: ContextVar[Flight | None] = ContextVar("ekr_flight", default=None)


@contextmanager
def flight(land: Callable[[Completion], Awaitable[None]]) -> Iterator[Flight]:
    """The request that is made in the block.

    Args:
        land: Is given the answer, if a wrapper holds requests back; else it is for the caller to do.
    """
    current = Flight(land)
    token = _CURRENT.set(current)
    try:
        yield current
    finally:
        _CURRENT.reset(token)


def held_back() -> None:
    """Says that the request made here waits: nothing is lost if it is cancelled."""
    if (current := _CURRENT.get()) is not None:
        current.sent = False


async def landing(request: Awaitable[Completion]) -> Completion:
    """The answer to a request that has its turn now, when whoever made it is done with what must be done first."""
    current = _CURRENT.get()
    if current is None:
        return await request
    current.sent = True
    try:
        completion = await request
    except BaseException:
        current.sent = False  # it may wait again, for another try
        raise
    await current.land(completion)
    current.landed = True
    return completion
