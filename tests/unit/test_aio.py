from __future__ import annotations

import asyncio

import pytest

from easy_knowledge_retriever.aio import map_bounded, task_group


class Broken(Exception):
    """A failure of a task."""


async def _fail() -> None:
    raise Broken


async def test_the_first_failure_is_raised_as_itself_and_the_others_are_cancelled() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(Broken) as caught:
        async with task_group() as group:
            group.create_task(wait())
            group.create_task(wait())
            await asyncio.sleep(0)
            group.create_task(_fail())
    assert ended == [True, True]
    assert caught.value.__cause__ is None


async def test_a_failure_in_a_group_in_a_group_is_raised_as_itself() -> None:
    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail())

    with pytest.raises(Broken):
        async with task_group() as group:
            group.create_task(inner())


async def test_a_failure_of_the_block_is_raised_as_itself() -> None:
    with pytest.raises(Broken):
        async with task_group():
            raise Broken


async def test_a_cancellation_stays_one() -> None:
    async def work() -> None:
        async with task_group() as group:
            group.create_task(asyncio.Event().wait())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()


async def test_results_are_in_the_order_of_the_items() -> None:
    async def late(number: int) -> int:
        for _ in range(10 - number):
            await asyncio.sleep(0)
        return number * number

    assert await map_bounded(late, range(8), 8) == [0, 1, 4, 9, 16, 25, 36, 49]
    assert await map_bounded(late, [], 3) == []


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_than_the_limit_run_at_once(limit: int) -> None:
    running = peak = 0

    async def work(_: int) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    await map_bounded(work, range(10), limit)
    assert peak == limit


async def test_a_failed_item_stops_the_rest() -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise Broken

    with pytest.raises(Broken):
        await map_bounded(work, range(100), 2)
    assert len(begun) < 10
