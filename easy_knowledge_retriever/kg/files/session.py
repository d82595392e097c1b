"""A snapshot of a folder, or the transaction that is being written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from easy_knowledge_retriever.errors import StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.files.table import Changes, Key, Table, View

if TYPE_CHECKING:
    from easy_knowledge_retriever.kg.files.store import FileStore

__all__ = ["FileSession"]


class FileSession:
    """One view of every table of a store. Made by the store.

    Args:
        store: The store it belongs to.
        writable: Whether it is a transaction.
    """

    def __init__(self, store: FileStore, *, writable: bool) -> None:
        self.store = store
        self.active = False
        """Whether it has begun and not ended."""
        self._tables: dict[str, Table[Any]] = {}
        self._writable = writable
        self._views: dict[str, View[Any]] = {}

    @property
    def writable(self) -> bool:
        """Whether this is a transaction."""
        return self._writable

    def view(self, name: str) -> View[Any]:
        """How a table is seen.

        Args:
            name: ``kind_namespace``.

        Raises:
            StorageNotOpenError: The session has ended.
        """
        if not self.active:
            raise StorageNotOpenError(f"the session on {str(self.store.folder)!r} has ended", hint="begin another one")
        found = self._views.get(name)
        if found is None:
            table = self._tables.get(name)
            if table is None:  # opened since
                table = self._tables[name] = self.store.table(name)
            found = self._views[name] = View(table)
        return found

    def change(self, name: str, make: Callable[[View[Any]], Changes[Any]]) -> None:
        """Writes.

        Args:
            name: ``kind_namespace``.
            make: Gives the rows to write; if it raises, nothing was written.

        Raises:
            StorageError: This is a snapshot.
        """
        if not self._writable:
            raise StorageError("a snapshot cannot be written to", hint="write inside a transaction")
        view = self.view(name)
        with view.table.lock:
            view.put(make(view))

    def keep(self, name: str, table: Table[Any], keys: Iterable[Key]) -> None:
        """Goes on seeing rows that a commit is about to change; the caller holds the lock of the table.

        Args:
            name: ``kind_namespace``.
            table: What is about to change.
            keys: Its rows.
        """
        view = self.view(name)
        if view.table is table:
            view.keep(keys)

    def written(self) -> dict[str, View[Any]]:
        """The views that hold changes."""
        return {name: view for name, view in self._views.items() if view.changes}

    def payload(self) -> bytes:
        """The changes as a record of the journal."""
        return payload_of(
            {
                name: [(key, "null" if row is None else view.table.encode(row)) for key, row in view.changes.items()]
                for name, view in self.written().items()
            }
        )

    def begin(self, tables: Mapping[str, Table[Any]]) -> None:
        """Sees tables as they are now; for the store.

        Args:
            tables: All that are open.
        """
        self._tables.update(tables)
        self.active = True

    def end(self) -> None:
        """It can be used no more."""
        self.active = False
        self._views.clear()


def payload_of(changes: Mapping[str, Iterable[tuple[Key, str]]]) -> bytes:
    """Changes as a record of the journal.

    Args:
        changes: ``kind_namespace`` → keys and JSON of rows, ``null`` for a deleted one.
    """
    spaces = (
        f"[{json.dumps(name)},[{','.join(f'[{json.dumps(key)},{text}]' for key, text in rows)}]]"
        for name, rows in changes.items()
    )
    return f"[{','.join(spaces)}]".encode("ascii")
