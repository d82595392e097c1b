from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from easy_knowledge_retriever.aio import Grouped, map_bounded, task_group


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


class Slow:
    """A place to write to that takes a turn of the loop for each call, and breaks when told to."""

    def __init__(self) -> None:
        self.calls: list[dict[str, int]] = []
        self.gate = asyncio.Event()
        self.broken = False

    async def write(self, rows: Mapping[str, int]) -> None:
        self.calls.append(dict(rows))
        await self.gate.wait()
        if self.broken:
            self.broken = False
            raise Broken


async def test_writes_that_come_while_one_runs_are_one_call() -> None:
    slow = Slow()
    grouped = Grouped(slow.write)
    done: list[int] = []

    async def put(number: int) -> None:
        await grouped.put(f"k{number}", number)
        done.append(number)

    async with task_group() as group:
        for number in range(5):
            group.create_task(put(number))
            await asyncio.sleep(0)
        assert (slow.calls, done) == ([{"k0": 0}], [])
        slow.gate.set()
    assert slow.calls == [{"k0": 0}, {"k1": 1, "k2": 2, "k3": 3, "k4": 4}]
    assert sorted(done) == [0, 1, 2, 3, 4]


async def test_a_write_that_fails_is_everybodys_own_failure() -> None:
    slow = Slow()
    slow.gate.set()
    slow.broken = True
    grouped = Grouped(slow.write)
    with pytest.raises(Broken):
        await grouped.put("a", 1)
    await grouped.put("b", 2)
    assert slow.calls == [{"a": 1}, {"a": 1, "b": 2}]
    await grouped.drain()
    assert len(slow.calls) == 2


async def test_what_a_cancelled_task_wanted_to_write_is_written_at_the_end() -> None:
    slow = Slow()
    grouped = Grouped(slow.write)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(grouped.put(key, 1)) for key in "ab"]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
    assert slow.calls == [{"a": 1}]
    slow.gate.set()
    await grouped.drain()
    assert slow.calls[1:] == [{"a": 1, "b": 1}]
