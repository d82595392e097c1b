"""What happened while one question was worked on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from easy_knowledge_retriever.operations.base import Keywords
from easy_knowledge_retriever.spending.account import Account

__all__ = ["Record"]


@dataclass(slots=True)
class Record:
    """Times, rankings, counts and what fell back, written down step by step."""

    timings: dict[str, float] = field(default_factory=dict)
    trace: dict[str, Any] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    keywords: Keywords = field(default_factory=Keywords)
    rewritten: str = ""
    """The question as it can be understood alone, if that differs."""
    parts: tuple[str, ...] = ()
    """The questions inside it, if they are several."""
    account: Account = field(default_factory=Account)
    """What was spent on the question."""

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Adds the seconds of the block to a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.timings[step] = self.timings.get(step, 0.0) + time.perf_counter() - began
