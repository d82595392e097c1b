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


def longest_prefix(items: Sequence[T], render: Callable[[Sequence[T]], str], limit: int, count: CountTokens) -> tuple[T, ...]:
    """As many of the first items as fit: ``count(render(items)) <= limit``.

    Counted over the rendered whole, so the count is that of the text as it will stand, not a sum of parts. The rendering
    must not get shorter with more items. Where not all fit, the next number to try is interpolated from the last count.
    """
    fits, beyond, tried = 0, len(items) + 1, len(items)
    while beyond - fits > 1:
        tokens = count(render(items[:tried]))
        if tokens <= limit:
            fits = tried
        else:
            beyond = tried
        tried = min(max(tried * limit // max(tokens, 1), fits + 1), beyond - 1)
    return tuple(items[:fits])


def cut_chunk(chunk: Chunk, render: Callable[[Chunk], str], limit: int, count: CountTokens) -> Chunk | None:
    """The longest head of a chunk that fits, ending at white space where it can; None if not even a word fits.

    Still a slice of its document. Better a part of the best passage than an empty context.
    """

    def head(length: int) -> Chunk:
        text = chunk.text[:length]
        end = chunk.start + length
        return replace(chunk, text=text, end=end, pages=tuple(page for page in chunk.pages if page.start < end))

    ends = [i for i, c in enumerate(chunk.text) if c.isspace() and i > 0] or list(range(1, len(chunk.text)))
    fitting = longest_prefix(ends, lambda some: render(head(some[-1])) if some else "", limit, count)
    return head(fitting[-1]) if fitting else None
