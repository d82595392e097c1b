"""How many at once, in which order, across loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.endpoints.limiter import Limiter, LimiterRegistry
from easy_knowledge_retriever.errors import BadResponse, RateLimited, UpstreamTimeout, UpstreamUnavailable


def limiter_of(ceiling: int) -> Limiter:
    limiter = Limiter()
    limiter.narrow(ceiling)
    return limiter


async def test_never_more_than_the_ceiling() -> None:
    limiter, running, peak = limiter_of(3), 0, 0

    async def work() -> None:
        nonlocal running, peak
        async with limiter.slot():
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0.001)
            running -= 1

    async with task_group() as group:
        for _ in range(20):
            group.create_task(work())
    assert (peak, limiter.in_flight) == (3, 0)


async def test_queries_go_before_ingest_and_equals_in_order() -> None:
    limiter, order = limiter_of(1), []

    async def work(name: str, priority: str) -> None:
        async with limiter.slot(priority):
            order.append(name)
            await asyncio.sleep(0)

    async with task_group() as group:
        for name in ("i1", "i2", "i3"):
            group.create_task(work(name, "ingest"))
        await asyncio.sleep(0)
        for name in ("q1", "q2"):
            group.create_task(work(name, "query"))
    assert order == ["i1", "q1", "q2", "i2", "i3"]


async def test_one_who_gives_up_waiting_takes_no_slot() -> None:
    limiter = limiter_of(1)
    async with limiter.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), limiter.slot():
                raise AssertionError("there is no slot")
    assert limiter.in_flight == 0
    async with asyncio.timeout(1), limiter.slot():
        assert limiter.in_flight == 1


async def test_a_slot_granted_to_one_who_is_cancelled_is_given_back() -> None:
    limiter = limiter_of(1)

    async def work() -> None:
        async with limiter.slot():
            await asyncio.sleep(60)

    for pauses in range(4):
        task = asyncio.get_running_loop().create_task(work())
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert limiter.in_flight == 0


async def test_a_pause_holds_for_all() -> None:
    limiter, times = limiter_of(2), []

    async def refused() -> None:
        async with limiter.slot():
            raise RateLimited("later", retry_after=0.1)

    async def work() -> None:
        async with limiter.slot():
            times.append(time.monotonic())

    began = time.monotonic()
    with pytest.raises(RateLimited):
        await refused()
    async with task_group() as group:
        for _ in range(4):
            group.create_task(work())
    assert min(times) >= began + 0.09


async def test_a_pause_of_a_day_is_not_kept() -> None:
    limiter = limiter_of(1)
    with pytest.raises(RateLimited):
        async with limiter.slot():
            raise RateLimited("tomorrow", retry_after=86_400)
    async with asyncio.timeout(1), limiter.slot():
        pass


@pytest.mark.parametrize("error", [RateLimited("x"), UpstreamUnavailable("x"), UpstreamTimeout("x")])
async def test_without_a_ceiling_it_adapts(error: Exception) -> None:
    limiter = Limiter()
    assert limiter.ceiling == 8
    for _ in range(9):
        async with limiter.slot():
            pass
    assert limiter.ceiling == 9
    with pytest.raises(type(error)):
        async with limiter.slot():
            raise error
    assert limiter.ceiling == 4
    with pytest.raises(BadResponse):
        async with limiter.slot():
            raise BadResponse("tells nothing of load")
    assert limiter.ceiling == 4


async def test_requests_of_one_overload_halve_once() -> None:
    limiter = Limiter()
    ready = asyncio.Event()

    async def refused() -> None:
        async with limiter.slot():
            await ready.wait()
            raise RateLimited("x")

    tasks = [asyncio.get_running_loop().create_task(refused()) for _ in range(8)]
    await asyncio.sleep(0.01)
    ready.set()
    await asyncio.wait(tasks)
    assert all(isinstance(task.exception(), RateLimited) for task in tasks)
    assert limiter.ceiling == 4


async def test_it_never_falls_below_one() -> None:
    limiter = Limiter()
    for _ in range(10):
        with pytest.raises(RateLimited):
            async with limiter.slot():
                raise RateLimited("x")
    assert limiter.ceiling == 1


def test_loops_of_several_threads_share_one_ceiling() -> None:
    limiter, running, peak, lock = limiter_of(2), 0, 0, threading.Lock()

    async def work() -> None:
        nonlocal running, peak
        async with limiter.slot():
            with lock:
                running += 1
                peak = max(peak, running)
            await asyncio.sleep(0.002)
            with lock:
                running -= 1

    async def many() -> None:
        async with task_group() as group:
            for _ in range(10):
                group.create_task(work())

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (peak, limiter.in_flight) == (2, 0)


def test_a_loop_that_died_keeps_nothing() -> None:
    limiter = limiter_of(1)

    async def enter() -> None:
        slot = limiter.slot()
        await slot.__aenter__()
        kept.append(slot)

    kept: list[object] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(enter())
    loop.close()
    assert limiter.in_flight == 1

    async def again() -> None:
        async with asyncio.timeout(1), limiter.slot():
            assert limiter.in_flight == 1

    asyncio.run(again())


def test_a_registry_has_one_limiter_an_endpoint_as_long_as_it_is_used() -> None:
    registry = LimiterRegistry()
    first = registry.limiter("a", 8)
    assert registry.limiter("a") is first
    assert registry.limiter("b") is not first
    assert registry.limiter("a", 3).ceiling == 3
    assert registry.limiter("a", 5).ceiling == 3
    del first
    gc.collect()
    assert registry.limiter("a").ceiling == 8
