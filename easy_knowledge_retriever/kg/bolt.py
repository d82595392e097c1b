"""Where a server that speaks Bolt is, how it is reached, and what its errors mean."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, StorageError

__all__ = ["BoltServer", "neo4j_package"]

_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
Driver = Any
"""An ``AsyncDriver``; the package is there only with the extra."""


@dataclass(frozen=True, slots=True)
class BoltServer:
    """A database of a server, as whom we come, and how long we wait. Times are in seconds."""

    uri: str
    database: str
    """Empty for the one the server gives by default."""
    username: str
    password: str = field(repr=False)
    pool_size: int
    connection_timeout: float
    acquisition_timeout: float
    retry_time: float

    def __post_init__(self) -> None:
        parts = urlsplit(self.uri)
        if parts.scheme not in _SCHEMES:
            raise ConfigError(f"neo4j_uri begins with {parts.scheme!r}", hint=f"one of {', '.join(_SCHEMES)}")
        if "@" in parts.netloc:
            raise ConfigError("neo4j_uri holds a login", hint="give it as neo4j_username and neo4j_password")
        if self.pool_size < 1:
            raise ConfigError(f"neo4j_connection_pool_size is {self.pool_size!r}", hint="at least 1")
        for name in ("connection_timeout", "acquisition_timeout", "retry_time"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint="a positive number of seconds")

    async def connect(self) -> Driver:
        """A driver that has reached the server. It belongs to the running event loop.

        Raises:
            StorageError: The server cannot be reached, refuses the login, or has no such database.
        """
        with self.translated():
            driver = neo4j_package().AsyncGraphDatabase.driver(
                self.uri,
                auth=(self.username, self.password) if self.username or self.password else None,
                max_connection_pool_size=self.pool_size,
                connection_timeout=self.connection_timeout,
                connection_acquisition_timeout=self.acquisition_timeout,
                max_transaction_retry_time=self.retry_time,
                notifications_min_severity="OFF",
            )
            try:
                await driver.verify_connectivity()
            except BaseException:
                await driver.close()
                raise
            return driver

    def session(self) -> dict[str, str]:
        """Arguments of a session."""
        return {"database": self.database} if self.database else {}

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns errors of the package into ours."""
        errors = neo4j_package().exceptions
        try:
            yield
        except errors.AuthError as failure:
            hint = "check neo4j_username and neo4j_password"
            raise StorageError(f"{self._where} refuses the login of {self.username!r}", hint=hint) from failure
        except (errors.ServiceUnavailable, errors.SessionExpired) as failure:
            hint = "start it, or set neo4j_uri or NEO4J_URI"
            raise StorageError(f"{self._where} cannot be reached: {' '.join(str(failure).split())}", hint=hint) from failure
        except errors.Neo4jError as failure:
            if failure.code == "Neo.ClientError.Database.DatabaseNotFound":
                hint = "create it, or give another neo4j_database"
                raise StorageError(f"{self._where} has no database {self.database!r}", hint=hint) from failure
            raise StorageError(f"{self._where} failed: {failure.message} ({failure.code})", hint=_KEPT) from failure
        except errors.DriverError as failure:
            raise StorageError(f"{self._where} failed: {failure}", hint=_KEPT) from failure

    @property
    def _where(self) -> str:
        return f"Neo4j at {self.uri!r}"

    def turn(self, space: str) -> asyncio.Lock:
        """Whoever writes to this space in this event loop holds it, so that writers do not make each other try again."""
        place = (asyncio.get_running_loop(), self.uri, self.database, space)
        return _TURNS.setdefault(place, asyncio.Lock())


_KEPT = "nothing of this call was written; what was written before is there"
_TURNS: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str, str, str], asyncio.Lock] = WeakValueDictionary()


def neo4j_package() -> Any:
    """The package ``neo4j``.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module("neo4j")
    except ModuleNotFoundError as missing:
        raise MissingExtraError("neo4j", "neo4j") from missing
