"""A table that is a dictionary, with its keys in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, KeysView
from typing import TypeVar

from easy_knowledge_retriever.kg.files.table import Changes, Key, Table

__all__ = ["Rows"]

R = TypeVar("R")
FEW = 64
"""So many keys are put in their place one by one; more are sorted in."""


class Rows(Table[R]):
    """Rows by key."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, R] = {}
        self._order: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[str]:
        return self._rows.keys()

    def items(self) -> Iterator[tuple[str, R]]:
        """All rows, in any order."""
        return iter(self._rows.items())

    def get(self, key: Key) -> R | None:
        return self._rows.get(str(key))

    def between(self, first: str, end: str | None) -> list[str]:
        """The keys from one to before another, in order.

        Args:
            first: Where to begin.
            end: Where to end; after the last if None.
        """
        return self._order[bisect_left(self._order, first) : None if end is None else bisect_left(self._order, end)]

    def apply(self, changes: Changes[R]) -> None:
        fresh: list[str] = []
        gone: set[str] = set()
        for given, row in changes.items():
            key = str(given)
            if row is not None:
                if key not in self._rows:
                    fresh.append(key)
                self._rows[key] = row
            elif self._rows.pop(key, None) is not None:
                gone.add(key)
        self._reorder(fresh, gone)

    def _reorder(self, fresh: list[str], gone: set[str]) -> None:
        if len(gone) > FEW:
            self._order = [key for key in self._order if key not in gone]
        else:
            for key in gone:
                del self._order[bisect_left(self._order, key)]
        if len(fresh) > FEW:
            self._order = sorted(self._order + fresh)
        else:
            for key in fresh:
                insort(self._order, key)
