"""What every test lives under: no network but this machine's own, and no setting from the developer's environment."""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address

import pytest

_LOCAL_NAMES = frozenset({"", "localhost"})
_READ_BY_US = ("EKR_", "OPENAI_", "AZURE_", "POSTGRES_", "MILVUS_", "NEO4J_", "NANO_VECTOR_DB_")


class NetworkShut(RuntimeError):
    """A test wanted to leave this machine."""


def _is_local(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in _LOCAL_NAMES:
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _shut(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not _is_local(address[0]):
            raise NetworkShut(f"tests reach this machine only, not {address[0]!r}")
    elif event == "socket.getaddrinfo" and not _is_local(arguments[0]):
        raise NetworkShut(f"tests resolve no names, {arguments[0]!r} neither")


sys.addaudithook(_shut)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(_READ_BY_US):
            monkeypatch.delenv(name)
