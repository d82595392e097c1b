"""Structured concurrency: all or none, and many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

__all__ = ["map_bounded", "task_group"]

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
