"""Where Milvus is, how it is reached, and what its errors mean."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, StorageError

__all__ = ["MilvusServer", "is_gone", "milvus_package", "turn_of"]

_SCHEMES = ("http", "https", "tcp", "unix")
_UNREACHED, _NO_COLLECTION, _NOT_LOADED, _NO_DATABASE = (1, 2), 100, 101, 800
"""Codes of Milvus."""


@dataclass(frozen=True, slots=True)
class MilvusServer:
    """A database of a server, and as whom we come."""

    uri: str
    """Without name and password."""
    db_name: str
    token: str = field(repr=False)
    user: str = field(repr=False)
    password: str = field(repr=False)

    @classmethod
    def at(cls, uri: str, db_name: str, token: str, user: str, password: str) -> MilvusServer:
        """A server; a name and a password inside the address are taken out of it, so that it can be shown."""
        parts = urlsplit(uri)
        if parts.username is None:
            return cls(uri, db_name, token, user, password)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return cls(shown, db_name, token, user or unquote(parts.username), password or unquote(parts.password or ""))

    def connect(self, timeout: float) -> Any:
        """A ``MilvusClient``.

        Raises:
            StorageError: It cannot be reached, or refuses the login.
        """
        with self.translated():
            return milvus_package().MilvusClient(
                uri=self.uri,
                user=self.user,
                password=self.password,
                token=self.token,
                db_name=self.db_name,
                timeout=timeout,
            )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns errors of the package into ours."""
        lost = importlib.import_module("grpc").RpcError
        try:
            yield
        except lost as failure:
            raise self._told(failure.code().name, failure.details()) from failure
        except milvus_package().MilvusException as failure:
            # Why a connection failed stands in the cause of "fail connecting".
            cause = failure.__cause__
            reason = f"{failure.message}: {cause.details()}" if isinstance(cause, lost) else failure.message
            raise self._told(failure.code, reason) from failure

    def _told(self, code: object, reason: str) -> StorageError:
        where = f"Milvus at {self.uri!r}"
        if code == "UNAUTHENTICATED" or "auth check" in reason:
            return StorageError(f"{where} refuses the login", hint="check milvus_token, or milvus_user and milvus_password")
        if code == _NO_DATABASE or reason.startswith("database "):
            return StorageError(f"{where} has no database {self.db_name!r}", hint="create it, or give another milvus_db_name")
        if code in _UNREACHED:
            return StorageError(f"{where} cannot be reached: {reason}", hint="start it, or set milvus_uri or MILVUS_URI")
        return StorageError(f"{where} failed: {reason} (code {code})", hint="what was written before is there")


def is_gone(failure: Any) -> bool:
    """Whether an error of the package says that a collection was dropped, or that the server forgot to load it."""
    return failure.code in {_NO_COLLECTION, _NOT_LOADED}


def milvus_package(address: str | None = None) -> Any:
    """The package ``pymilvus``.

    Args:
        address: What ``MILVUS_URI`` says, which the package reads when it is imported, and fails if it is a file.

    Raises:
        ConfigError: It is not an address of a server.
        MissingExtraError: The package is not installed.
    """
    if address and urlsplit(address).scheme not in _SCHEMES:
        raise ConfigError("MILVUS_URI is no address of a server: pymilvus cannot be imported", hint="give milvus_uri instead")
    try:
        return importlib.import_module("pymilvus")
    except ModuleNotFoundError as missing:
        raise MissingExtraError("pymilvus", "milvus") from missing


_TURNS: WeakValueDictionary[tuple[str, str, str], threading.Lock] = WeakValueDictionary()


def turn_of(server: MilvusServer, collection: str) -> threading.Lock:
    """Whoever writes to this collection in this process holds it: Milvus Lite has lost rows of concurrent writes."""
    return _TURNS.setdefault((server.uri, server.db_name, collection), threading.Lock())
