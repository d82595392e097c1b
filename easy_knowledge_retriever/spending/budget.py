"""Ceilings of what one retriever may spend, enforced before a call is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from easy_knowledge_retriever.errors import BudgetExceeded

__all__ = ["Budget", "Reservation"]

_ROUNDING: Final = 1e-9
_GO_ON: Final = "to go on; what was paid for is kept and is not paid for again"


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """What a call that is under way may come to."""

    llm_calls: int
    cost: float
    ends_soon: bool
    """False: a stream ends when its reader wants, so nobody waits for it."""


class Budget:
    """Ceilings over everything that is spent from its start on; None is no ceiling. It may stand behind several models.

    A call is reserved with what it may cost before it is sent, and settled with what it did cost. One that would pass a
    ceiling, but may fit when those under way have cost less than was reserved for them, waits for them. So when a call is
    refused, no other is under way, and none is paid for and lost.

    Args:
        max_cost: In the currency of the prices.
        max_llm_calls: Requests to language models, repeated ones included.
        max_minutes: Since the start.
        clock: Tells seconds.
    """

    def __init__(
        self,
        max_cost: float | None = None,
        max_llm_calls: int | None = None,
        max_minutes: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_cost = max_cost
        self.max_llm_calls = max_llm_calls
        self.max_minutes = max_minutes
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()
        self.start()

    def start(self) -> None:
        """Begins anew: nothing is spent, the time runs from now on."""
        self.llm_calls = 0
        self.cost = 0.0
        self._began = self._clock()
        self._under_way: list[Reservation] = []

    @property
    def minutes(self) -> float:
        """Since the start."""
        return (self._clock() - self._began) / 60

    async def reserve(self, llm_calls: int = 0, cost: float = 0.0, *, ends_soon: bool = True) -> Reservation:
        """Makes room for a call, waiting for those under way if need be.

        Args:
            llm_calls: Requests to a language model it is.
            cost: What it may come to.
            ends_soon: Whether others may wait for its end.

        Raises:
            BudgetExceeded: It would pass a ceiling; it must not be sent.
        """
        wanted = Reservation(llm_calls, cost, ends_soon)
        while True:
            self._check_time()
            refused = self._refusal(wanted)
            if refused is None:
                self._under_way.append(wanted)
                return wanted
            if not any(call.ends_soon for call in self._under_way):
                raise refused
            await self._change()

    def settle(self, reservation: Reservation, llm_calls: int = 0, cost: float = 0.0) -> None:
        """Puts what a call really took in the place of its reservation: nothing if it was not billed."""
        if reservation in self._under_way:  # else the budget was started anew meanwhile
            self._under_way.remove(reservation)
            self.llm_calls += llm_calls
            self.cost += cost
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def _change(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    def _check_time(self) -> None:
        if self.max_minutes is not None and self.minutes >= self.max_minutes:
            raise BudgetExceeded(
                f"{self.minutes:.1f} minutes have passed since the retriever was opened, the ceiling is {self.max_minutes:g}",
                hint=f"raise max_minutes, or open it again, {_GO_ON}",
            )

    def _refusal(self, wanted: Reservation) -> BudgetExceeded | None:
        calls = self.llm_calls + sum(call.llm_calls for call in self._under_way) + wanted.llm_calls
        if self.max_llm_calls is not None and wanted.llm_calls and calls > self.max_llm_calls:
            return BudgetExceeded(
                f"{self.llm_calls} model calls are made, the ceiling is {self.max_llm_calls}",
                hint=f"raise max_llm_calls {_GO_ON}",
            )
        cost = self.cost + sum(call.cost for call in self._under_way) + wanted.cost
        if self.max_cost is not None and wanted.cost and cost > self.max_cost + _ROUNDING:
            return BudgetExceeded(
                f"{self.cost:.6g} is spent, the next call may cost {wanted.cost:.6g}, the ceiling is {self.max_cost:g}",
                hint=f"raise max_cost {_GO_ON}",
            )
        return None
