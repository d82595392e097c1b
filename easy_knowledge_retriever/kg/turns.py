"""Turns for one thing at a time: the writer of a store, the work on a document."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

__all__ = ["Turns", "turns_for"]


class Turns:
    """First come, first served, for tasks of any event loop in any thread (an ``asyncio.Lock`` belongs to one loop)."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, wait: float | None = None) -> AsyncIterator[bool]:
        """Waits for the turn and holds it for the block; the block is told whether it has it.

        Args:
            wait: Seconds; as long as it takes if not given.
        """
        try:
            async with asyncio.timeout(wait):
                await self._take()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._pass_on()

    async def _take(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            with self._guard:
                waited = place in self._waiting
                if waited:
                    self._waiting.remove(place)
            if not waited:  # it was our turn already when the cancellation came
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        with self._guard:
            while self._waiting:
                place = self._waiting.popleft()
                try:
                    place.get_loop().call_soon_threadsafe(_call, place)
                except RuntimeError:  # its loop was closed, so nobody waits there any more
                    continue
                return
            self._taken = False


def _call(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


_named: Final[WeakValueDictionary[Hashable, Turns]] = WeakValueDictionary()
_naming: Final = threading.Lock()


def turns_for(key: Hashable) -> Turns:
    """The turns of this process that go by a key; hold on to them while they are in use.

    Args:
        key: Whatever all who take these turns agree on. A fork takes none of them along.
    """
    with _naming:
        return _named.setdefault((os.getpid(), key), Turns())
