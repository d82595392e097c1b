"""Whose account a call is put on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.spending.account import (
    Account,
    Line,
    account_in_force,
    charged,
    charging,
    note_usage,
    noted_usage,
)
from easy_knowledge_retriever.spending.prices import Price
from easy_knowledge_retriever.types import Usage

EXTRACT = Line("extract", "model", "llm")
EMBED = Line("embed", "local", "embedding", local=True)


def test_an_account_adds_up() -> None:
    account = Account()
    account.add(EXTRACT, Usage(llm_calls=1, prompt_tokens=1000), Price(input=1.0), 2.0)
    account.add(EXTRACT, Usage(llm_calls=1, prompt_tokens=3000), Price(input=1.0), 1.0)
    account.add(EMBED, Usage(embedding_calls=1), Price())
    assert account.usage == Usage(llm_calls=2, prompt_tokens=4000, embedding_calls=1)
    assert account.cost == pytest.approx(0.004)
    assert account.lines[EXTRACT].seconds == 3.0


def test_a_model_without_a_price_makes_the_cost_unknown() -> None:
    account = Account()
    account.add(EXTRACT, Usage(cached_calls=1), None)
    account.add(EMBED, Usage(embedding_calls=1), Price())
    before = account.cost
    account.add(EXTRACT, Usage(llm_calls=1), None)
    assert (before, account.cost, account.total.unpriced_calls) == (0.0, None, 1)


def test_what_is_written_down_is_written_once() -> None:
    account = Account()
    account.add(EXTRACT, Usage(llm_calls=1), None)
    with pytest.raises(OSError, match="full"), account.writing() as unwritten:
        assert unwritten()[EXTRACT].usage.llm_calls == 1
        account.add(EXTRACT, Usage(llm_calls=1), None)
        raise OSError("the disk is full")
    with account.writing() as unwritten:
        assert unwritten()[EXTRACT].usage.llm_calls == 2
    assert not account.has_unwritten
    assert account.usage.llm_calls == 2


def test_what_local_models_do_is_not_written_down() -> None:
    account = Account()
    account.add(EMBED, Usage(embedding_calls=1), Price())
    assert (account.has_unwritten, account.usage.embedding_calls) == (False, 1)


async def test_the_account_goes_with_the_tasks_and_no_further() -> None:
    one, other = Account(), Account()

    async def spend(calls: int) -> None:
        account = account_in_force()
        assert account is not None
        account.add(EXTRACT, Usage(llm_calls=calls), None)

    async def flow(account: Account, calls: int) -> None:
        with charging(account):
            async with task_group() as group:
                group.create_task(spend(calls))
                group.create_task(spend(calls))

    async with task_group() as group:
        group.create_task(flow(one, 1))
        group.create_task(flow(other, 10))
    assert (one.usage.llm_calls, other.usage.llm_calls) == (2, 20)
    assert account_in_force() is None


async def test_a_stream_is_charged_while_it_is_made_and_not_while_it_is_read() -> None:
    account, closed = Account(), []

    async def items() -> AsyncGenerator[int]:
        try:
            for number in range(3):
                assert account_in_force() is account
                yield number
        finally:
            closed.append(account_in_force() is account)

    seen = []
    async for number in charged(account, items()):
        assert account_in_force() is None
        seen.append(number)
    assert seen == [0, 1, 2]
    left = charged(account, items())
    assert await anext(left) == 0
    await left.aclose()
    assert closed == [True, True]


def test_what_services_note_is_heard_by_the_innermost_listener() -> None:
    note_usage(Usage(llm_calls=1))
    with noted_usage() as outer:
        note_usage(Usage(llm_calls=1))
        with noted_usage() as inner:
            note_usage(Usage(llm_calls=2))
        note_usage(Usage(llm_calls=3))
    assert ([usage.llm_calls for usage in outer], [usage.llm_calls for usage in inner]) == ([1, 3], [2])
