"""Where each request to a model is paid: reserved before it is sent, settled with what it took, put on the account in force."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from easy_knowledge_retriever.errors import BadResponse, ConfigError, UpstreamTimeout
from easy_knowledge_retriever.events import ModelCharged, Observer, ignore
from easy_knowledge_retriever.spending.account import Kind, Line, account_in_force, noted_usage
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.prices import FREE, Price
from easy_knowledge_retriever.types import Usage

__all__ = ["DEFAULT_COMPLETION", "Bill", "Meter", "Till"]

DEFAULT_COMPLETION: Final = 2000
"""Tokens that an answer is taken to have before one of its purpose was seen, where the request sets no ceiling."""
_MESSAGE: Final = 4
"""Tokens a chat message has besides its text, as chat formats go."""
_COUNTED: Final = 8
"""Texts of one embedding request whose tokens are counted at most."""
_PAID_ALL_THE_SAME: Final = (BadResponse, UpstreamTimeout, asyncio.CancelledError, GeneratorExit)
"""Ends of a request that may stand on the bill of the endpoint: it was answered, or was being worked on."""

CountTokens = Callable[[str], int]


@dataclass(slots=True)
class Bill:
    """What one request takes, filled in while it is answered."""

    usage: Usage = field(default_factory=Usage)
    """As the endpoint says."""
    answer: list[str] = field(default_factory=list)
    """What was answered: counted where the endpoint does not say."""
    cached: bool = False
    """The service had the answer already: nothing was sent."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Fills in what the services called in the block note of their requests, however it ends."""
        with noted_usage() as noted:
            try:
                yield
            finally:
                self.usage = sum(noted, Usage())

    @property
    def says_tokens(self) -> bool:
        """Whether the endpoint said how many tokens it took."""
        return bool(self.usage.prompt_tokens or self.usage.completion_tokens or self.usage.embedding_tokens)


class Meter:
    """Pays the requests that one purpose makes to one model.

    Args:
        line: The purpose and the model.
        price: Of the model; None if it is not known.
        till: Holds what all meters of a retriever share.
    """

    def __init__(self, line: Line, price: Price | None, till: Till) -> None:
        self.line = line
        self.price = price
        self._till = till
        self._longest = 0

    @asynccontextmanager
    async def request(
        self, texts: Sequence[str], max_tokens: int | None = None, *, ends_soon: bool = True
    ) -> AsyncIterator[Bill]:
        """One request, which the block sends. A failed one is taken off again, unless it may be billed all the same.

        Args:
            texts: What is sent.
            max_tokens: Ceiling of the answer.
            ends_soon: False for a stream.

        Raises:
            BudgetExceeded: It would pass a ceiling; the block is not entered.
        """
        budget, chat = self._till.budget, self.line.kind == "llm"
        calls = 1 if chat else 0
        reservation = await budget.reserve(calls, self._may_cost(texts, max_tokens), ends_soon=ends_soon)
        bill, usage, cost, began = Bill(), Usage(), 0.0, time.perf_counter()
        try:
            yield bill
            usage = self._taken(bill, texts)
        except BaseException as error:
            if bill.usage or bill.answer or isinstance(error, _PAID_ALL_THE_SAME):
                usage = self._taken(bill, texts, max_tokens or self._expected)
            raise
        finally:
            if usage:
                self._longest = max(self._longest, usage.completion_tokens // max(usage.llm_calls, 1))
                cost = self._charge(usage, time.perf_counter() - began)
            budget.settle(reservation, usage.llm_calls, cost)

    def cached(self) -> None:
        """A reply was given again from our cache."""
        self._charge(Usage(cached_calls=1), 0.0)

    @property
    def _expected(self) -> int:
        return self._longest or DEFAULT_COMPLETION

    def _may_cost(self, texts: Sequence[str], max_tokens: int | None) -> float:
        """What a request may come to; tokens are counted only where a ceiling depends on it."""
        if self._till.budget.max_cost is None or self.price in (None, FREE):
            return 0.0
        return self.price.of(self._counted(texts, max_tokens or self._expected))

    def _taken(self, bill: Bill, texts: Sequence[str], unseen: int = 0) -> Usage:
        """What a request took: as the endpoint says, else counted. ``unseen`` tokens if no text of an answer came."""
        usage = bill.usage
        if bill.cached:
            return Usage(cached_calls=1)
        if self.line.local or self.line.kind == "rerank" or bill.says_tokens:
            return usage or self._one_call()
        answered = self._till.count_tokens("".join(bill.answer)) if bill.answer else unseen
        counted = replace(self._counted(texts, answered), cached_prompt_tokens=usage.cached_prompt_tokens)
        calls = max(usage.llm_calls, usage.embedding_calls, 1)
        return replace(counted + Usage(estimated_calls=calls), **{_CALLS[self.line.kind]: calls})

    def _counted(self, texts: Sequence[str], answered: int) -> Usage:
        if self.line.kind == "rerank":
            return self._one_call()
        if self.line.kind == "llm":
            tokens = sum(map(self._till.count_tokens, texts))
            return self._one_call() + Usage(prompt_tokens=tokens + _MESSAGE * len(texts), completion_tokens=answered)
        return self._one_call() + Usage(embedding_tokens=self._in_all(texts))

    def _in_all(self, texts: Sequence[str]) -> int:
        """Tokens of texts: of many some are counted, and the others taken to have as many a character."""
        some = texts[:: -(-len(texts) // _COUNTED) or 1]
        tokens, characters = sum(map(self._till.count_tokens, some)), sum(map(len, some))
        return tokens if len(some) == len(texts) else round(tokens * sum(map(len, texts)) / max(characters, 1))

    def _one_call(self) -> Usage:
        return Usage(**{_CALLS[self.line.kind]: 1})

    def _charge(self, usage: Usage, seconds: float) -> float:
        account = account_in_force()
        cost = 0.0 if self.price is None else self.price.of(usage)
        if account is not None:
            account.add(self.line, usage, self.price, seconds)
        known = None if self.price is None else cost
        self._till.observer(ModelCharged(self.line.kind, self.line.model, self.line.purpose, usage, known))
        return cost


_CALLS: Final[Mapping[Kind, str]] = {"llm": "llm_calls", "embedding": "embedding_calls", "rerank": "rerank_calls"}


class Till:
    """What the meters of one retriever share.

    Args:
        budget: The ceilings; none if None.
        prices: Model → price.
        count_tokens: Counts what an endpoint does not.
        observer: Is told of each request that was paid.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        prices: Mapping[str, Price] = MappingProxyType({}),
        count_tokens: CountTokens = len,
        observer: Observer = ignore,
    ) -> None:
        self.budget = budget or Budget()
        self.prices = prices
        self.count_tokens = count_tokens
        self.observer = observer

    def meter(self, kind: Kind, model: str, purpose: str, *, local: bool = False) -> Meter:
        """The meter of one purpose and model.

        Args:
            kind: What the model does.
            model: Its name, as the prices know it.
            purpose: What for.
            local: It runs here and costs nothing.

        Raises:
            ConfigError: There is a ceiling of cost, and the price of the model is not known.
        """
        price = FREE if local else self.prices.get(model)
        if price is None and self.budget.max_cost is not None:
            raise ConfigError(
                f"max_cost is set, but the price of {model!r} is not known", hint=f"give prices={{{model!r}: Price(...)}}"
            )
        return Meter(Line(purpose, model, kind, local), price, self)
