"""Ceilings, and who waits for whom."""

from __future__ import annotations

import asyncio

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import BudgetExceeded
from easy_knowledge_retriever.spending.budget import Budget, Reservation


async def test_a_call_is_refused_before_it_would_pass_the_ceiling() -> None:
    budget = Budget(max_cost=1.0)
    budget.settle(await budget.reserve(1, 0.6), 1, 0.5)
    with pytest.raises(BudgetExceeded, match=r"0\.5 is spent, the next call may cost 0\.6, the ceiling is 1"):
        await budget.reserve(1, 0.6)
    budget.settle(await budget.reserve(1, 0.5), 1, 0.5)
    assert (budget.llm_calls, budget.cost) == (2, 1.0)
    await budget.reserve(1, 0.0)
    assert budget.cost == 1.0


async def test_tenths_add_up() -> None:
    budget = Budget(max_cost=0.3)
    for _ in range(3):
        budget.settle(await budget.reserve(1, 0.1), 1, 0.1)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(1, 0.1)


async def test_what_was_not_billed_is_given_back() -> None:
    budget = Budget(max_cost=1.0, max_llm_calls=1)
    for _ in range(3):
        budget.settle(await budget.reserve(1, 1.0))
    assert (budget.llm_calls, budget.cost) == (0, 0.0)


async def test_only_language_models_count_as_calls() -> None:
    budget = Budget(max_llm_calls=0)
    budget.settle(await budget.reserve(0, 5.0), 0, 5.0)
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await budget.reserve(1)


async def test_one_that_may_fit_waits_for_those_under_way() -> None:
    budget = Budget(max_llm_calls=2)
    first, second = await budget.reserve(1), await budget.reserve(1)
    got: list[Reservation] = []

    async def third() -> None:
        got.append(await budget.reserve(1))

    async with task_group() as group:
        group.create_task(third())
        await asyncio.sleep(0)
        assert got == []
        budget.settle(first)
    assert len(got) == 1
    budget.settle(second, 1)
    budget.settle(got[0], 1)
    assert budget.llm_calls == 2


async def test_when_one_is_refused_none_is_under_way() -> None:
    budget, refused_with = Budget(max_llm_calls=3), []

    async def call() -> None:
        try:
            reservation = await budget.reserve(1)
        except BudgetExceeded:
            refused_with.append(len(budget._under_way))
            return
        await asyncio.sleep(0.001)
        budget.settle(reservation, 1)

    async with task_group() as group:
        for _ in range(10):
            group.create_task(call())
    assert refused_with == [0] * 7
    assert budget.llm_calls == 3


async def test_nobody_waits_for_a_stream() -> None:
    budget = Budget(max_llm_calls=1)
    stream = await budget.reserve(1, ends_soon=False)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(1)
    budget.settle(stream, 1)


async def test_a_cancelled_one_waits_no_more() -> None:
    budget = Budget(max_llm_calls=1)
    first = await budget.reserve(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await budget.reserve(1)
    budget.settle(first)
    await budget.reserve(1)


async def test_time_runs_from_the_start() -> None:
    now = 0.0
    budget = Budget(max_minutes=2, clock=lambda: now)
    now = 119.0
    await budget.reserve(0)
    now = 120.0
    with pytest.raises(BudgetExceeded, match=r"2\.0 minutes"):
        await budget.reserve(0)
    budget.start()
    await budget.reserve(0)


async def test_a_new_start_forgets_what_was_under_way() -> None:
    budget = Budget(max_cost=1.0)
    old = await budget.reserve(1, 1.0)
    budget.start()
    new = await budget.reserve(1, 1.0)
    budget.settle(old, 1, 1.0)
    assert budget.cost == 0.0
    budget.settle(new, 1, 0.25)
    assert budget.cost == 0.25
