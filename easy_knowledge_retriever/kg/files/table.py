"""A namespace in memory, and how somebody sees it who must not see the latest commit, or sees his own changes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

__all__ = ["Changes", "Json", "Key", "Table", "View"]

R = TypeVar("R")
Key = str | tuple[str, ...]
Changes = Mapping[Key, R | None]
"""Key → row; None where it is deleted."""
Json = Any


class Table(ABC, Generic[R]):
    """The rows of one namespace as the last commit left them. Rows are never changed, only replaced.

    Whoever reads or changes it holds its ``lock``.
    """

    kind: ClassVar[str]
    """First part of the names of its files."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def keys(self) -> Iterable[Key]:
        """Of all rows, in any order."""

    @abstractmethod
    def get(self, key: Key) -> R | None:
        """The row, if there is one."""

    @abstractmethod
    def apply(self, changes: Changes[R]) -> None:
        """Takes what was committed."""

    @abstractmethod
    def encode(self, row: R) -> str:
        """A row as JSON in ASCII."""

    @abstractmethod
    def decode(self, key: Key, data: Json) -> R:
        """The row of JSON that :meth:`encode` wrote.

        Raises:
            AttributeError, LookupError, TypeError, ValueError: It is something else.
        """

    @abstractmethod
    def members(self) -> Iterator[str]:
        """All rows as members of a JSON object, in ASCII, in pieces."""

    @abstractmethod
    def restore(self, body: bytes) -> Json:
        """Takes the rows of a JSON object that has what :meth:`members` wrote, and gives its other members.

        Raises:
            AttributeError, LookupError, TypeError, ValueError: They are something else.
        """

    def places(self, key: Key) -> Iterable[Hashable]:
        """What a changed row is looked for by, besides its key."""
        return ()


class View(Generic[R]):
    """A table with some rows replaced: by those of a transaction, or by those that were there when a snapshot began.

    It costs what was changed, however large the table is.

    Args:
        table: What is seen where nothing was changed.
    """

    def __init__(self, table: Table[R]) -> None:
        self.table = table
        self.changes: dict[Key, R | None] = {}
        self._at: defaultdict[Hashable, dict[Key, None]] = defaultdict(dict)

    def get(self, key: Key) -> R | None:
        """The row, if there is one."""
        return self.changes[key] if key in self.changes else self.table.get(key)

    def put(self, changes: Changes[R]) -> None:
        """Rows that replace those of the table from now on."""
        for key, row in changes.items():
            if key not in self.changes:
                for place in self.table.places(key):
                    self._at[place][key] = None
            self.changes[key] = row

    def keep(self, keys: Iterable[Key]) -> None:
        """Goes on seeing these rows as they are now: the table is about to change them."""
        self.put({key: self.table.get(key) for key in keys if key not in self.changes})

    def changed_at(self, place: Hashable) -> Iterable[Key]:
        """The changed keys of which the table says that they are at a place."""
        return self._at.get(place, ())

    def changed(self) -> Iterator[tuple[Key, R]]:
        """The rows that replace others or are added."""
        return ((key, row) for key, row in self.changes.items() if row is not None)

    def keys(self) -> Iterator[Key]:
        """Of all rows, in any order."""
        yield from (key for key in self.table.keys() if key not in self.changes) if self.changes else self.table.keys()
        yield from (key for key, _ in self.changed())

    def __len__(self) -> int:
        return len(self.table) + sum((row is not None) - (self.table.get(key) is not None) for key, row in self.changes.items())
