"""What an ingest would cost, as a number with an error bar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["NOTHING", "DocumentEstimate", "Estimate", "Range", "total_range"]


@dataclass(frozen=True, slots=True)
class Range:
    """A number that is not known yet: most likely ``expected``, hardly less than ``low``, hardly more than ``high``."""

    low: float
    expected: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A number that is known."""
        return cls(value, value, value)

    @classmethod
    def around(cls, value: float, least: float, most: float) -> Range:
        """A number of which factors are known."""
        return cls(value * least, value, value * most)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __mul__(self, other: Range | float) -> Range:
        """Both at their lowest, as expected, and at their highest."""
        by = other if isinstance(other, Range) else Range.exactly(other)
        return Range(self.low * by.low, self.expected * by.expected, self.high * by.high)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def at_least(self, other: Range) -> Range:
        """The greater of both, point by point."""
        return Range(max(self.low, other.low), max(self.expected, other.expected), max(self.high, other.high))


NOTHING = Range.exactly(0)


def total_range(parts: Iterable[Range]) -> Range:
    """All of them together."""
    return sum(parts, NOTHING)


@dataclass(frozen=True, slots=True)
class DocumentEstimate:
    """What one document would take."""

    name: str
    unchanged: bool = False
    """This version is in already: it costs nothing."""
    error: str = ""
    """Why it cannot be read; it costs nothing then."""
    pages: int = 0
    chunks: int = 0
    to_read: int = 0
    """Chunks a language model would be asked about: not those whose replies are there."""
    llm_calls: Range = NOTHING
    prompt_tokens: Range = NOTHING
    completion_tokens: Range = NOTHING
    embedding_calls: Range = NOTHING
    embedding_tokens: Range = NOTHING
    cost: Range | None = NOTHING
    """None if the price of a model is not known."""
    seconds: Range = NOTHING
    """Waiting for models."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an ingest would take. Nothing was sent and nothing written."""

    documents: tuple[DocumentEstimate, ...] = ()
    chunks: int = 0
    to_read: int = 0
    llm_calls: Range = NOTHING
    prompt_tokens: Range = NOTHING
    completion_tokens: Range = NOTHING
    embedding_calls: Range = NOTHING
    embedding_tokens: Range = NOTHING
    cost: Range | None = NOTHING
    """None if the price of a model is not known."""
    seconds: Range = NOTHING
    """Waiting for models, at the present limits of their endpoints."""
    seen_calls: int = 0
    """Earlier extraction calls of this model that the estimate learned from; 0: it rests on defaults."""
    warnings: tuple[str, ...] = ()
    """What cannot be read."""

    @classmethod
    def of(cls, documents: Iterable[DocumentEstimate], seen_calls: int, at_once: int) -> Estimate:
        """All documents together.

        Args:
            documents: Each by itself.
            seen_calls: What it rests on.
            at_once: Documents that are ingested side by side.
        """
        parts = tuple(documents)
        costs = [part.cost for part in parts]
        return cls(
            parts,
            sum(part.chunks for part in parts),
            sum(part.to_read for part in parts),
            total_range(part.llm_calls for part in parts),
            total_range(part.prompt_tokens for part in parts),
            total_range(part.completion_tokens for part in parts),
            total_range(part.embedding_calls for part in parts),
            total_range(part.embedding_tokens for part in parts),
            None if None in costs else total_range(cost for cost in costs if cost is not None),
            total_range(part.seconds for part in parts) * (1 / max(1, min(at_once, len(parts)))),
            seen_calls,
            tuple(f"{part.name}: {part.error}" for part in parts if part.error),
        )
