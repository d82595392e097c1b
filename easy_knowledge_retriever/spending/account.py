"""What one document or one question has spent, and how a model call finds the account it is to be put on.

A flow opens an account; every model call made inside, by whatever task, is put on it. The account in force is a context
variable: it goes with the tasks that a flow starts and is never shared by two flows. Ports of models need no argument for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from easy_knowledge_retriever.spending.kept import KeptReplies, KeptVectors
from easy_knowledge_retriever.spending.prices import Price
from easy_knowledge_retriever.types import Usage

__all__ = ["Account", "Amount", "Kind", "Line", "account_in_force", "charged", "charging", "note_usage", "noted_usage"]

T = TypeVar("T")
Kind = Literal["llm", "embedding", "rerank"]


@dataclass(frozen=True, slots=True)
class Line:
    """What is counted together: the calls of one model for one purpose."""

    purpose: str
    """Such as ``extract``, ``answer`` or ``embed``."""
    model: str
    kind: Kind
    local: bool = False
    """A model that runs here: it costs nothing."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What a line comes to."""

    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    """Of the calls whose model has a price."""
    unpriced_calls: int = 0
    """Calls whose model has none."""
    seconds: float = 0.0
    """Waiting for the model, added up over calls that ran side by side."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.usage + other.usage,
            self.cost + other.cost,
            self.unpriced_calls + other.unpriced_calls,
            self.seconds + other.seconds,
        )

    @property
    def known_cost(self) -> float | None:
        """The cost; None if it is not known."""
        return None if self.unpriced_calls else self.cost


class Account:
    """What one document or one question has spent so far. What models that run here did is counted, but not written down."""

    def __init__(self) -> None:
        self.vectors: KeptVectors | None = None
        """The vectors that were paid for, while a document is on its way in."""
        self.replies: KeptReplies | None = None
        """The replies about it, for the cache."""
        self.lines: dict[Line, Amount] = {}
        self.is_known = False
        """Whether something of it was written down already."""
        self._unwritten: dict[Line, Amount] = {}

    def add(self, line: Line, usage: Usage, price: Price | None, seconds: float = 0.0) -> float:
        """Puts calls on the account.

        Args:
            line: What they belong to.
            usage: What they took.
            price: Of the model, if it is known.
            seconds: How long they took.

        Returns:
            What they cost, as far as it is known.
        """
        calls = usage.llm_calls + usage.embedding_calls + usage.rerank_calls
        cost = 0.0 if price is None else price.of(usage)
        amount = Amount(usage, cost, calls if price is None else 0, seconds)
        for lines in (self.lines,) if line.local else (self.lines, self._unwritten):
            lines[line] = lines.get(line, _NOTHING) + amount
        return cost

    @property
    def total(self) -> Amount:
        """All lines together."""
        return sum(self.lines.values(), _NOTHING)

    @property
    def usage(self) -> Usage:
        """What was used."""
        return self.total.usage

    @property
    def cost(self) -> float | None:
        """What it cost; None if a model without a price was called."""
        return self.total.known_cost

    @property
    def has_unwritten(self) -> bool:
        """Whether there is something to be written down."""
        return bool(self._unwritten)

    @contextmanager
    def writing(self) -> Iterator[Callable[[], dict[Line, Amount]]]:
        """Gives what came since the last time, to be written down in the block; a block that raises did not write it."""
        taken: dict[Line, Amount] = {}

        def take() -> dict[Line, Amount]:
            taken.update(self._unwritten)
            self._unwritten = {}
            return taken

        try:
            yield take
        except BaseException:
            for line, amount in taken.items():
                self._unwritten[line] = self._unwritten.get(line, _NOTHING) + amount
            raise


_NOTHING: Final = Amount()
_account: ContextVar[Account | None] = ContextVar("account", default=None)
_noted: ContextVar[list[Usage] | None] = ContextVar("noted", default=None)


def account_in_force() -> Account | None:
    """The account that a call made here is put on."""
    return _account.get()


@contextmanager
def charging(account: Account) -> Iterator[Account]:
    """Puts every model call made in the block, and in tasks started in it, on this account."""
    before = _account.set(account)
    try:
        yield account
    finally:
        _account.reset(before)


async def charged(account: Account, items: AsyncIterator[T]) -> AsyncGenerator[T]:
    """The same items, with the account in force while each is made, and not while the consumer looks at it."""
    try:
        while True:
            with charging(account):
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            with charging(account):
                await items.aclose()


def note_usage(usage: Usage) -> None:
    """Says what one request took: for services whose answer has no room for it, and for requests that failed after all."""
    noted = _noted.get()
    if noted is not None:
        noted.append(usage)


@contextmanager
def noted_usage() -> Iterator[list[Usage]]:
    """What the services called in the block say of their requests."""
    noted: list[Usage] = []
    before = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(before)
