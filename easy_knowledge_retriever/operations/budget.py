"""Fitting facts and passages into exact token budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from easy_knowledge_retriever.types import Chunk

__all__ = ["CountTokens", "TokenBudget", "cut_chunk", "longest_prefix"]

T = TypeVar("T")
CountTokens = Callable[[str], int]
"""Number of tokens of a text."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Ceilings of a context, tags and headings counted."""

    entities: int
    relations: int
    total: int


def longest_prefix(
    items: Sequence[T], count: Callable[[Sequence[T]], int], limit: int, likely: int | None = None
) -> tuple[T, ...]:
    """As many of the first items as fit: ``count(items) <= limit``.

    Where not all fit, the next number to try is interpolated from the last count.

    Args:
        items: Best first.
        count: Tokens of some first items as they will stand together; more items never have fewer.
        limit: Tokens.
        likely: How many to try first; all if None.
    """
    fits, beyond = 0, len(items) + 1
    tried = len(items) if likely is None else min(max(likely, 1), len(items))
    while beyond - fits > 1:
        tokens = count(items[:tried])
        if tokens <= limit:
            fits = tried
        else:
            beyond = tried
        tried = min(max(tried * limit // max(tokens, 1), fits + 1), beyond - 1)
    return tuple(items[:fits])


def cut_chunk(chunk: Chunk, count: Callable[[Chunk], int], limit: int) -> Chunk | None:
    """The longest head of a chunk that fits, ending at white space where it can; None if not even a word fits.

    Still a slice of its document. Better a part of the best passage than an empty context.

    Args:
        chunk: The chunk.
        count: Tokens of all that is shown with a head of it.
        limit: Tokens.
    """

    def head(length: int) -> Chunk:
        text = chunk.text[:length]
        end = chunk.start + length
        return replace(chunk, text=text, end=end, pages=tuple(page for page in chunk.pages if page.start < end))

    ends = [i for i, c in enumerate(chunk.text) if c.isspace() and i > 0] or list(range(1, len(chunk.text)))
    fitting = longest_prefix(ends, lambda some: count(head(some[-1])) if some else 0, limit)
    return head(fitting[-1]) if fitting else None
