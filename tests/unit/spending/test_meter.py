"""What a request is charged, however it ends."""

from __future__ import annotations

import asyncio

import pytest

from easy_knowledge_retriever.errors import BadResponse, BudgetExceeded, ConfigError, UpstreamTimeout, UpstreamUnavailable
from easy_knowledge_retriever.events import ModelCharged
from easy_knowledge_retriever.spending.account import Account, charging, note_usage
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.meter import DEFAULT_COMPLETION, Meter, Till
from easy_knowledge_retriever.spending.prices import Price
from easy_knowledge_retriever.testing.fakes import RecordingObserver
from easy_knowledge_retriever.types import Usage

MILLION = 1_000_000
PRICE = Price(input=MILLION, output=MILLION)
"""One a token: costs are tokens."""


def words(text: str) -> int:
    return len(text.split())


def till(budget: Budget | None = None, **prices: Price) -> Till:
    return Till(budget, prices, words)


async def pay(meter: Meter, usage: Usage | None = None, *texts: str, answer: str = "", max_tokens: int | None = None) -> None:
    async with meter.request(texts or ("one two three",), max_tokens) as bill:
        bill.usage = usage or Usage()
        bill.answer.append(answer)


async def test_a_request_is_charged_what_the_endpoint_says() -> None:
    account, observer = Account(), RecordingObserver()
    meter = Till(None, {"m": PRICE}, words, observer).meter("llm", "m", "answer")
    with charging(account):
        await pay(meter, Usage(llm_calls=1, prompt_tokens=10, completion_tokens=5))
    assert account.usage == Usage(llm_calls=1, prompt_tokens=10, completion_tokens=5)
    assert account.cost == 15
    assert [(event.purpose, event.cost) for event in observer.of(ModelCharged)] == [("answer", 15)]


async def test_what_the_endpoint_does_not_say_is_counted_and_marked() -> None:
    account = Account()
    meter, embed = till().meter("llm", "m", "answer"), till().meter("embedding", "e", "embed")
    with charging(account):
        await pay(meter, Usage(llm_calls=1), "one two", "three", answer="four five six seven")
        await pay(embed, Usage(embedding_calls=2), "one two", "three")
    assert account.lines[meter.line].usage == Usage(llm_calls=1, prompt_tokens=3 + 8, completion_tokens=4, estimated_calls=1)
    assert account.lines[embed.line].usage == Usage(embedding_calls=2, embedding_tokens=3, estimated_calls=2)


async def test_the_price_of_another_model_is_not_taken() -> None:
    account = Account()
    with charging(account):
        await pay(till(m=PRICE).meter("llm", "other", "answer"), Usage(llm_calls=1, prompt_tokens=10))
    assert account.cost is None
    with pytest.raises(ConfigError, match="'other' is not known"):
        till(Budget(max_cost=1), m=PRICE).meter("llm", "other", "answer")
    till(Budget(max_cost=1)).meter("embedding", "local", "embed", local=True)


@pytest.mark.parametrize("error", [BadResponse("no text"), UpstreamTimeout("late"), asyncio.CancelledError()])
async def test_a_request_that_failed_after_it_was_sent_is_charged_as_expected(error: BaseException) -> None:
    account, budget = Account(), Budget(max_cost=10_000)
    meter = till(budget, m=PRICE).meter("llm", "m", "extract")
    with charging(account), pytest.raises(type(error)):
        async with meter.request(("one two",)):
            raise error
    wanted = Usage(llm_calls=1, prompt_tokens=6, completion_tokens=DEFAULT_COMPLETION, estimated_calls=1)
    assert account.usage == wanted
    assert (budget.llm_calls, budget.cost) == (1, 6 + DEFAULT_COMPLETION)


async def test_a_request_that_was_refused_is_not_charged() -> None:
    account, budget = Account(), Budget()
    with charging(account), pytest.raises(UpstreamUnavailable):
        async with till(budget).meter("llm", "m", "extract").request(("one two",)):
            raise UpstreamUnavailable("refused")
    assert not account.lines
    assert budget.llm_calls == 0


async def test_what_a_service_noted_before_it_failed_is_charged() -> None:
    account = Account()
    with charging(account), pytest.raises(BadResponse):
        async with till(m=PRICE).meter("llm", "m", "extract").request(("one two",)) as bill:
            with bill.listening():
                note_usage(Usage(llm_calls=1, prompt_tokens=7, completion_tokens=1))
                raise BadResponse("no text")
    assert (account.usage.prompt_tokens, account.cost) == (7, 8)


async def test_a_stream_that_broke_off_is_charged_what_came() -> None:
    account = Account()
    with charging(account), pytest.raises(UpstreamUnavailable):
        async with till().meter("llm", "m", "answer").request(("one two",), ends_soon=False) as bill:
            bill.answer += ["three", " four"]
            raise UpstreamUnavailable("broke off")
    assert (account.usage.completion_tokens, account.usage.estimated_calls) == (2, 1)


async def test_an_answer_of_unknown_length_is_reserved_with_what_was_needed_so_far() -> None:
    budget = Budget(max_cost=DEFAULT_COMPLETION + 7)
    meter = till(budget, m=PRICE).meter("llm", "m", "extract")
    await pay(meter, Usage(llm_calls=1, prompt_tokens=7, completion_tokens=100))
    await pay(meter, Usage(llm_calls=1, prompt_tokens=7, completion_tokens=50))
    spent = 7 + 100 + 7 + 50
    budget.max_cost = spent + 7 + 100
    await pay(meter, Usage(llm_calls=1, prompt_tokens=7, completion_tokens=50))
    with pytest.raises(BudgetExceeded, match=f"{spent + 57} is spent, the next call may cost 107"):
        await pay(meter)
    await pay(meter, Usage(llm_calls=1, prompt_tokens=7, completion_tokens=1), max_tokens=20)


async def test_embeddings_and_reranks_count_towards_the_cost() -> None:
    budget = Budget(max_cost=10)
    drawer = till(budget, e=PRICE, r=Price(rerank_call=4))
    await pay(drawer.meter("embedding", "e", "embed"), Usage(embedding_calls=1, embedding_tokens=3))
    await pay(drawer.meter("rerank", "r", "rerank"))
    assert budget.cost == 7
    with pytest.raises(BudgetExceeded):
        await pay(drawer.meter("rerank", "r", "rerank"))
    assert budget.llm_calls == 0


async def test_a_cached_reply_costs_nothing() -> None:
    account, budget = Account(), Budget(max_llm_calls=0)
    meter = till(budget, m=PRICE).meter("llm", "m", "extract")
    with charging(account):
        meter.cached()
    assert (account.usage, account.cost, budget.llm_calls) == (Usage(cached_calls=1), 0, 0)


async def test_of_many_texts_without_usage_some_are_counted() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 2

    account = Account()
    meter = Till(count_tokens=count).meter("embedding", "e", "embed")
    with charging(account):
        async with meter.request(["four", "sixsix"] * 50):
            pass
    assert len(counted) <= 8
    assert account.lines[meter.line].usage == Usage(embedding_calls=1, embedding_tokens=250, estimated_calls=1)
