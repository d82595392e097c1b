"""Where a base is that is to survive crashes: a folder, or a database of a server."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easy_knowledge_retriever.kg.graph_storage.postgres_impl import PGGraphStorage
from easy_knowledge_retriever.kg.kv_storage.postgres_impl import PGDocStatusStorage, PGKVStorage
from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.storages import storage_set
from tests.support.postgres import postgres

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


class FilePlaces(Folders):
    """Journal and snapshots in one folder."""

    store = "files"

    @staticmethod
    def storages(place: Place) -> dict[str, Any]:
        return {"working_dir": place.where, **storage_set("files")}


class PostgresPlaces(Places):
    """Each base has a database of its own, on a server that is started when it is first asked for."""

    store = "postgres"

    def fresh(self) -> Place:
        name = f"crash_{secrets.token_hex(6)}"
        asyncio.run(postgres().database(name))
        return Place(self.store, json.dumps(postgres().options(name)))

    def copy(self, place: Place) -> Place:
        name = f"crash_{secrets.token_hex(6)}"
        asyncio.run(postgres().execute("postgres", f"CREATE DATABASE {name} TEMPLATE {self._database(place)}"))
        return Place(self.store, json.dumps(postgres().options(name)))

    def drop(self, place: Place) -> None:
        asyncio.run(postgres().execute("postgres", f"DROP DATABASE {self._database(place)} WITH (FORCE)"))

    @staticmethod
    def _database(place: Place) -> str:
        return str(json.loads(place.where)["database"])

    @staticmethod
    def size(place: Place) -> int:
        async def asked() -> int:
            connection = await postgres().connect("postgres")
            try:
                return int(await connection.fetchval("SELECT pg_database_size($1)", PostgresPlaces._database(place)))
            finally:
                await connection.close()

        return asyncio.run(asked())

    @staticmethod
    def storages(place: Place) -> dict[str, Any]:
        options = json.loads(place.where)
        return {
            "kv_storage": PGKVStorage(**options),
            "doc_status_storage": PGDocStatusStorage(**options),
            "vector_storage": PGVectorStorage(**options),
            "lexical_storage": PGLexicalStorage(**options),
            "graph_storage": PGGraphStorage(**options),
        }


PLACES: dict[str, type[Places]] = {places.store: places for places in (SqlitePlaces, FilePlaces, PostgresPlaces)}
