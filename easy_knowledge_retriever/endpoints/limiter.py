"""How many requests an endpoint is sent at once.

A rate limit belongs to an endpoint, not to an object of ours: two services on one address share one limiter, whatever
loop or thread they run in. The registry below is the only thing of the library that a whole process shares. It holds
limiters weakly, so one lives as long as a service that uses it, and a limiter keeps numbers and waiting futures only:
no loop is stored beyond the requests that run in it, and what a loop that died still held is taken back.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from easy_knowledge_retriever.errors import RateLimited, UpstreamError, UpstreamTimeout, UpstreamUnavailable

__all__ = ["LONGEST_PAUSE", "Limiter", "LimiterRegistry", "limiter_for"]

LONGEST_PAUSE = 120.0
"""Seconds. An endpoint that asks for more is an error, not a pause."""
_FIRST_CEILING = 8.0
_HIGHEST_CEILING = 64.0
_RANK = {"query": 0, "ingest": 1}


@dataclass(order=True, slots=True)
class _Waiter:
    rank: int
    turn: int
    loop: asyncio.AbstractEventLoop = field(compare=False)
    future: asyncio.Future[None] = field(compare=False)
    granted: bool = field(default=False, compare=False)
    given_up: bool = field(default=False, compare=False)


class Limiter:
    """At most so many requests at once, queries before ingest; one pause for all when the endpoint asks for it.

    Without a fixed ceiling it adapts: one more for each full round of successes, half after a 429, a 5xx or a time-out
    (Chiu and Jain, 1989: additive increase, multiplicative decrease). Safe to use from several loops and threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._waiting: list[_Waiter] = []
        self._running: Counter[asyncio.AbstractEventLoop] = Counter()
        self._fixed: int | None = None
        self._adapted = _FIRST_CEILING
        self._pause_ends = 0.0
        self._last_cut = 0.0

    @property
    def ceiling(self) -> int:
        """How many may run now."""
        return self._fixed if self._fixed is not None else int(self._adapted)

    @property
    def in_flight(self) -> int:
        """How many run now."""
        return self._running.total()

    @property
    def paused(self) -> bool:
        """Whether the endpoint asked for a pause that is not over."""
        return self._pause_ends > time.monotonic()

    def narrow(self, max_async: int | None) -> None:
        """Sets a fixed ceiling. Of several, the lowest holds: each service was promised not to pass its own."""
        if max_async is not None:
            with self._lock:
                self._fixed = max_async if self._fixed is None else min(self._fixed, max_async)

    @asynccontextmanager
    async def slot(self, priority: str = "query") -> AsyncIterator[None]:
        """Waits for a turn and holds it for the block. The outcome of the block adapts the ceiling.

        Raises:
            UpstreamError: What the block raises.
        """
        loop = asyncio.get_running_loop()
        await self._wait(loop, priority)
        began = time.monotonic()
        try:
            while (rest := self._pause_ends - time.monotonic()) > 0:
                await asyncio.sleep(rest)
                began = time.monotonic()
            yield
            self._succeeded()
        except (RateLimited, UpstreamUnavailable, UpstreamTimeout) as error:
            self._failed(error, began)
            raise
        finally:
            self._release(loop)

    async def _wait(self, loop: asyncio.AbstractEventLoop, priority: str) -> None:
        waiter = _Waiter(_RANK[priority], next(self._turns), loop, loop.create_future())
        with self._lock:
            heapq.heappush(self._waiting, waiter)
        self._grant()
        try:
            await waiter.future
        except asyncio.CancelledError:
            with self._lock:
                waiter.given_up = True
            if waiter.granted:
                self._release(loop)
            raise

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._running[loop] -= 1
            if self._running[loop] <= 0:
                del self._running[loop]
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            for loop in [loop for loop in self._running if loop.is_closed()]:
                del self._running[loop]
            while self._waiting and self.in_flight < self.ceiling:
                waiter = heapq.heappop(self._waiting)
                if waiter.given_up or not _wake(waiter):
                    continue
                waiter.granted = True
                self._running[waiter.loop] += 1

    def _succeeded(self) -> None:
        with self._lock:
            self._adapted = min(_HIGHEST_CEILING, self._adapted + 1 / self._adapted)

    def _failed(self, error: UpstreamError, began: float) -> None:
        told = error.retry_after if isinstance(error, RateLimited | UpstreamUnavailable) else None
        with self._lock:
            # Requests sent before the last cut tell nothing new: one overload halves once.
            if began >= self._last_cut:
                self._last_cut = time.monotonic()
                self._adapted = max(1.0, self._adapted / 2)
            if told is not None and told <= LONGEST_PAUSE:
                self._pause_ends = max(self._pause_ends, time.monotonic() + told)


def _wake(waiter: _Waiter) -> bool:
    try:
        waiter.loop.call_soon_threadsafe(_resolve, waiter.future)
    except RuntimeError:  # its loop was closed while it waited
        return False
    return True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class LimiterRegistry:
    """The limiters in use, by endpoint."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limiters: weakref.WeakValueDictionary[Hashable, Limiter] = weakref.WeakValueDictionary()

    def limiter(self, endpoint: Hashable, max_async: int | None = None) -> Limiter:
        """The limiter of an endpoint, made if nobody uses one yet, and narrowed to ``max_async``."""
        with self._lock:
            limiter = self._limiters.get(endpoint)
            if limiter is None:
                limiter = self._limiters[endpoint] = Limiter()
        limiter.narrow(max_async)
        return limiter


_process = LimiterRegistry()


def limiter_for(kind: str, url: str, max_async: int | None = None) -> Limiter:
    """The limiter that every service of this process shares for one kind of call to one address."""
    return _process.limiter((kind, url), max_async)
