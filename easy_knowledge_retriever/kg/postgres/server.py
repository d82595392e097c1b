"""Where the database is, how it is reached, and what its errors mean."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from easy_knowledge_retriever.errors import (
    ConfigError,
    MissingExtraError,
    StorageError,
    StoreCorruptError,
    WorkingDirLockedError,
)

__all__ = ["PGServer", "asyncpg_package"]

# Beginnings of SQLSTATE → error, what happened, and what to do.
_TOLD: tuple[tuple[tuple[str, ...], type[StorageError], str, str], ...] = (
    (("28",), StorageError, "{server} refuses the login of {user!r}", "check user and password"),
    (("3D000",), StorageError, "{server} does not exist", "create it with createdb"),
    (
        ("55P03",),
        WorkingDirLockedError,
        "another transaction has been writing to this workspace of {server} for too long",
        "wait for it to finish, or raise lock_timeout",
    ),
    (("22021",), StorageError, "{reason}", "clean the text first; nothing was written"),
    (("XX",), StoreCorruptError, "{server} is damaged: {reason}", "see the log of the server; restore a backup"),
    (("08", "57P0"), StorageError, "{server} went away: {reason}", "what was committed before is there; try again"),
    (("53100", "53200"), StorageError, "{server} has no room: {reason}", "the last commit is intact; make room"),
    (("53300",), StorageError, "{server} takes no more connections", "lower max_connections, or raise that of the server"),
    (
        ("42501",),
        StorageError,
        "{server} does not allow {user!r} this: {reason}",
        "see the guide to PostgreSQL for what the role must be granted, or open the base once as the owner of its tables",
    ),
    (("40",), StorageError, "{server} undid the transaction: {reason}", "another one was in the way: try again"),
    (("",), StorageError, "{server} failed: {reason} (code {code})", ""),
)


@dataclass(frozen=True, slots=True)
class PGServer:
    """A database of a server, and as whom we come."""

    host: str
    port: int
    database: str
    user: str
    role: str
    """The role that works on the rows; empty: the one that logs in."""
    password: str = field(repr=False)
    ssl: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"the database {self.database!r} at {self.host}:{self.port}"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What asyncpg is told."""
        return {
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "password": self.password,
            "ssl": self.ssl,
        }

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises what the driver raises in the block as a :class:`StorageError` that names the database."""
        package = asyncpg_package()
        try:
            yield
        except package.PostgresError as failure:
            raise self._told(failure.sqlstate or "", failure.args[0] if failure.args else "") from failure
        except (package.InterfaceError, package.InternalClientError) as failure:
            raise self._interface(failure) from failure
        except (OSError, TimeoutError) as failure:
            raise StorageError(
                f"{self} cannot be reached: {failure or type(failure).__name__}", hint="start it, or check host and port"
            ) from failure
        except UnicodeEncodeError as failure:
            raise _bad_text(f"{failure.object!r} is not valid Unicode: {failure.reason}") from failure

    def _told(self, code: str, reason: str) -> StorageError:
        kind, what, hint = next((kind, what, hint) for codes, kind, what, hint in _TOLD if code.startswith(codes))
        return kind(what.format(server=self, user=self.role or self.user, reason=reason, code=code), hint=hint)

    def _interface(self, failure: Exception) -> StorageError:
        if isinstance(failure.__cause__, UnicodeEncodeError):
            return _bad_text("a text is not valid Unicode")
        return StorageError(f"the connection to {self} cannot be used: {failure}", hint="close the storage and open it again")


def _bad_text(reason: str) -> StorageError:
    return StorageError(reason, hint="clean the text first; nothing was written")


@cache
def asyncpg_package() -> Any:
    """The package ``asyncpg``.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module("asyncpg")
    except ModuleNotFoundError as missing:
        raise MissingExtraError("asyncpg", "postgres") from missing


def require_port(port: int) -> int:
    """The port itself, if there is one of this number."""
    if not 0 < port < 65536:
        raise ConfigError(f"port is {port!r}", hint="a number from 1 to 65535")
    return port
