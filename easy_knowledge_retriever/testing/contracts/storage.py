"""What storages of every role promise: binding, opening, closing, dropping, and that rows stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import pytest
import pytest_asyncio

from easy_knowledge_retriever.errors import StorageNotOpenError
from easy_knowledge_retriever.kg.base import Storage

__all__ = ["StorageContract"]

S = TypeVar("S", bound=Storage)


class StorageContract(ABC, Generic[S]):
    """Base of the suites of the roles."""

    pytestmark: ClassVar = [pytest.mark.asyncio]
    persistent: ClassVar[bool] = True
    """Whether rows are there again after closing."""

    @abstractmethod
    async def make(self, tmp_path: Path) -> S:
        """An unbound, unopened storage; with the same folder, one on the same rows."""

    @abstractmethod
    async def write(self, storage: S, mark: str) -> None:
        """Writes one row that is known by ``mark``."""

    @abstractmethod
    async def marks(self, storage: S) -> set[str]:
        """The marks of all rows."""

    @pytest_asyncio.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[S]:
        """An open storage without rows."""
        opened = await self.opened(tmp_path)
        yield opened
        await opened.close()

    async def opened(self, tmp_path: Path, namespace: str = "rows", workspace: str = "contract") -> S:
        """A storage that is bound and open."""
        storage = (await self.make(tmp_path)).bind(namespace, workspace)
        await storage.open()
        return storage

    async def test_a_new_storage_is_empty(self, storage: S) -> None:
        assert await self.marks(storage) == set()

    async def test_opening_and_closing_twice_does_nothing(self, tmp_path: Path) -> None:
        storage = await self.opened(tmp_path)
        await self.write(storage, "a")
        await storage.open()
        assert await self.marks(storage) == {"a"}
        await storage.close()
        await storage.close()

    async def test_use_before_opening_is_refused(self, tmp_path: Path) -> None:
        storage = (await self.make(tmp_path)).bind("rows", "contract")
        await self._check_refused(storage)

    async def test_use_after_closing_is_refused(self, tmp_path: Path) -> None:
        storage = await self.opened(tmp_path)
        await storage.close()
        await self._check_refused(storage)

    async def test_namespaces_are_apart(self, storage: S) -> None:
        other = storage.bind("other", "contract")
        await other.open()
        await self.write(storage, "a")
        await self.write(other, "b")
        assert await self.marks(storage) == {"a"}
        assert await self.marks(other) == {"b"}
        await other.close()
        assert await self.marks(storage) == {"a"}

    async def test_workspaces_are_apart(self, storage: S) -> None:
        for workspace in ("", "Contract", "contract-2"):
            other = storage.bind("rows", workspace)
            await other.open()
            await self.write(other, "b")
            await self.write(storage, "a")
            assert await self.marks(other) == {"b"}
            await other.close()
        assert await self.marks(storage) == {"a"}

    async def test_drop_empties_this_namespace_only(self, storage: S) -> None:
        others = [storage.bind("other", "contract"), storage.bind("rows", "")]
        for other in others:
            await other.open()
            await self.write(other, "b")
        await self.write(storage, "a")
        await storage.drop()
        assert await self.marks(storage) == set()
        for other in others:
            assert await self.marks(other) == {"b"}
            await other.close()

    async def test_a_dropped_storage_stays_usable(self, storage: S) -> None:
        await self.write(storage, "a")
        await storage.drop()
        await self.write(storage, "b")
        await storage.flush()
        assert await self.marks(storage) == {"b"}

    async def test_rows_are_there_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await self.write(storage, "a")
        await self.write(storage, "b")
        await storage.close()
        await storage.open()
        assert await self.marks(storage) == {"a", "b"}
        await storage.close()
        again = await self.opened(tmp_path)
        assert await self.marks(again) == {"a", "b"}
        await again.close()

    async def test_flushed_rows_are_there_without_closing(self, storage: S, tmp_path: Path) -> None:
        self._needs_persistence()
        await self.write(storage, "a")
        await storage.flush()
        again = await self.opened(tmp_path)
        assert await self.marks(again) == {"a"}
        await again.close()

    async def test_dropped_rows_are_gone_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await self.write(storage, "a")
        await storage.flush()
        await storage.drop()
        await storage.close()
        again = await self.opened(tmp_path)
        assert await self.marks(again) == set()
        await again.close()

    async def _check_refused(self, storage: S) -> None:
        with pytest.raises(StorageNotOpenError):
            await self.marks(storage)
        with pytest.raises(StorageNotOpenError):
            await self.write(storage, "a")
        with pytest.raises(StorageNotOpenError):
            await storage.flush()
        with pytest.raises(StorageNotOpenError):
            await storage.drop()

    def _needs_persistence(self) -> None:
        if not self.persistent:
            pytest.skip("this backend keeps nothing")
