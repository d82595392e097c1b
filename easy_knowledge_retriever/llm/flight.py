"""Whether a request is on its way or still waits for its turn.

Who gives up on a group of requests lets those that were sent arrive, because they are paid for, and takes back the rest.
Only the wrapper that holds requests back knows which is which; it says so here, to whoever made the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Flight", "flight", "held_back", "sent"]


@dataclass(slots=True)
class Flight:
    """One request. A service that nothing holds back sends at once."""

    sent: bool = True


_CURRENT: ContextVar[Flight | None] = ContextVar("ekr_flight", default=None)


@contextmanager
def flight() -> Iterator[Flight]:
    """The request that is made in the block."""
    current = Flight()
    token = _CURRENT.set(current)
    try:
        yield current
    finally:
        _CURRENT.reset(token)


def held_back() -> None:
    """Says that the request made here waits: nothing is lost if it is cancelled."""
    if (current := _CURRENT.get()) is not None:
        current.sent = False


@contextmanager
def sent() -> Iterator[None]:
    """The request is on its way in the block. If it fails there it may wait again for another try."""
    current = _CURRENT.get()
    if current is not None:
        current.sent = True
    try:
        yield
    except BaseException:
        if current is not None:
            current.sent = False
        raise
