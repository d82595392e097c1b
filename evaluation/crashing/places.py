"""Where a base is that is to survive crashes: a folder, or a database of a server."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PLACES", "Folders", "Place", "Places"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one base is; another process finds it by this value."""

    store: str
    """Key of :data:`PLACES`."""
    where: str
    """Its folder, or what else the store calls it by."""


class Places(ABC):
    """Makes empty bases of one kind of store, and copies of them, in one folder of this run.

    Args:
        home: The folder.
    """

    store: str

    def __init__(self, home: Path) -> None:
        self.home = home

    @abstractmethod
    def fresh(self) -> Place:
        """Where no base is yet."""

    @abstractmethod
    def copy(self, place: Place) -> Place:
        """The same base once more. It must not be open."""

    @abstractmethod
    def drop(self, place: Place) -> None:
        """Takes a base away."""

    @staticmethod
    @abstractmethod
    def size(place: Place) -> int:
        """Bytes it takes."""

    @staticmethod
    @abstractmethod
    def storages(place: Place) -> dict[str, Any]:
        """Arguments of the retriever that opens it."""


class Folders(Places):
    """Each base has a folder of its own."""

    def fresh(self) -> Place:
        return Place(self.store, tempfile.mkdtemp(dir=self.home))

    def copy(self, place: Place) -> Place:
        made = self.fresh()
        shutil.copytree(place.where, made.where, dirs_exist_ok=True)
        return made

    def drop(self, place: Place) -> None:
        shutil.rmtree(place.where)

    @staticmethod
    def size(place: Place) -> int:
        return sum(path.stat().st_size for path in Path(place.where).rglob("*") if path.is_file())


class SqlitePlaces(Folders):
    """One SQLite file."""

    store = "sqlite"

    @staticmethod
    def storages(place: Place) -> dict[str, Any]:
        return {"working_dir": place.where}


PLACES: dict[str, type[Places]] = {places.store: places for places in (SqlitePlaces,)}
