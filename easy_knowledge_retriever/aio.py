"""Structured concurrency: all or none, and many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

__all__ = ["Grouped", "map_bounded", "task_group"]

T = TypeVar("T")
R = TypeVar("R")


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first failure cancels and awaits the other tasks, and is then raised as itself.

    Raises:
        BaseException: The first error of a task, not wrapped in an exception group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def map_bounded(function: Callable[[T], Awaitable[R]], items: Iterable[T], limit: int) -> list[R]:
    """Results of ``function`` for every item, in the order of the items, at most ``limit`` running at once.

    Args:
        function: Coroutine function of one item.
        items: What to work on.
        limit: How many run at the same time, at least 1.

    Raises:
        BaseException: The first failure; the others are cancelled and awaited.
    """
    permits = asyncio.Semaphore(limit)

    async def run(item: T) -> R:
        async with permits:
            return await function(item)

    async with task_group() as group:
        tasks = [group.create_task(run(item)) for item in items]
    return [task.result() for task in tasks]


class Grouped(Generic[T]):
    """Writes of many tasks in few calls: while one call runs, what comes meanwhile is collected for the next.

    Args:
        write: Writes rows; it is never called twice at the same time.
    """

    def __init__(self, write: Callable[[Mapping[str, T]], Awaitable[None]]) -> None:
        self._write = write
        self._turn = asyncio.Lock()
        self._waiting: dict[str, T] = {}

    async def put(self, key: str, value: T) -> None:
        """Writes a row; returns when it is written. Of two values of one key that wait, the later one is.

        A cancellation does not take the row back: :meth:`drain` writes what is left.

        Raises:
            BaseException: What ``write`` raises. The row waits on.
        """
        self._waiting[key] = value
        async with self._turn:
            if key in self._waiting:
                await self._write_waiting()

    async def drain(self) -> None:
        """Writes what still waits."""
        async with self._turn:
            await self._write_waiting()

    async def _write_waiting(self) -> None:
        rows, self._waiting = self._waiting, {}
        try:
            if rows:
                await self._write(rows)
        except BaseException:
            self._waiting = rows | self._waiting
            raise
