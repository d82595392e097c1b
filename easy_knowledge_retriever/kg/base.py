"""What every storage has in common: where it lives, how it is bound to a namespace, and what it promises to a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, runtime_checkable

from easy_knowledge_retriever.kg.locks import process_claim

__all__ = ["JsonObject", "JsonValue", "Session", "Storage", "Store"]

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
JsonObject = Mapping[str, JsonValue]


@runtime_checkable
class Session(Protocol):
    """One consistent view of a store: a snapshot to read from, or a transaction to write in. Opaque outside its backend."""

    @property
    def writable(self) -> bool:
        """Whether this is a transaction."""
        ...


class Store(ABC):
    """A file or server behind several storages that can show one snapshot and commit in one step."""

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Two stores with equal keys are the same database."""

    @abstractmethod
    async def open(self) -> None:
        """Opens it, creating what is missing. A second call does nothing.

        Raises:
            StorageError: It cannot be opened, is corrupt, locked or too new.
        """

    @abstractmethod
    async def close(self) -> None:
        """Closes it. A second call does nothing."""

    @abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[Session]:
        """A view that no later commit changes."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """A view to write in: committed when the block ends, undone if it raises. One at a time; others wait."""

    def claim(self, name: str, *, wait: float | None = None) -> AbstractAsyncContextManager[bool]:
        """A lock with a name, over all who use this store, that dies with its holder. The block is told whether it has it.

        It is no transaction: it says who may work at something, and nothing else. Not to be taken again by the task that
        has it. A store that other processes open as well overrides this one, which only this process sees.

        Args:
            name: What is claimed, such as ``commit``.
            wait: Seconds; as long as the holder is alive if not given, 0 tries once.

        Raises:
            StorageError: The lock cannot be taken, or its holder is stuck.
        """
        return process_claim(self.key, name, wait=wait)

    async def scrub(self) -> None:  # a store in memory, or on a server, has no files of its own
        """Writes its files anew, so that no byte of a deleted row is left in any of them.

        Raises:
            StorageError: Somebody reads it and does not stop; bytes may be left.
        """


class Storage(ABC):
    """One role (KV, vectors …) of one backend for one namespace.

    A storage is a description until it is bound and opened. It takes and gives values; it never embeds, prompts,
    retries or logs progress. Methods take and give many; an absent key is absent from the answer.
    """

    @abstractmethod
    def bind(self, namespace: str, workspace: str = "") -> Self:
        """A storage of the same backend and settings for ``namespace`` (such as ``chunks``) of ``workspace``."""

    def under(self, working_dir: str) -> Self:
        """The same storage with its files in ``working_dir``, unless its constructor was told where they are."""
        return self

    @property
    def store(self) -> Store | None:
        """The database behind it, if it can show snapshots and commit several storages at once."""
        return None

    def sharing(self, store: Store) -> Self:
        """The same storage on ``store``, which has the same key as its own: so that one transaction serves both."""
        return self

    def within(self, session: Session) -> Self:
        """The same storage seen through a session of its store. A backend without sessions returns itself."""
        return self

    @abstractmethod
    async def open(self) -> None:
        """Makes it usable. A second call does nothing.

        Raises:
            StorageError: It cannot be opened.
        """

    @abstractmethod
    async def flush(self) -> None:
        """Makes everything written so far durable."""

    @abstractmethod
    async def close(self) -> None:
        """Flushes and frees everything. A second call does nothing."""

    @abstractmethod
    async def drop(self) -> None:
        """Removes every row of this namespace, and only of this one. The storage stays usable."""
