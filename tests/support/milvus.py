"""A server that speaks Milvus's protocol: Milvus Lite."""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from pathlib import Path

from tests.support.servers import HOST, data_folder, free_port, needs_linux_x86_64, serve


@functools.cache
def milvus_uri() -> str:
    """Address of the one server of this run, which is started at the first call."""
    port, folder = free_port(), data_folder()
    serve(milvus_command(folder, port), port, folder)
    return f"http://{HOST}:{port}"


def milvus_command(folder: Path, port: int) -> list[str]:
    """How it is started. Its own default is to listen on every interface."""
    needs_linux_x86_64()
    where = ["--data-dir", str(folder / "data"), "--host", HOST, "--port", str(port)]
    return [sys.executable, "-m", "milvus_lite.cmdline", "server", *where]


@functools.cache
def milvus_database(folder: Path) -> str:
    """Name of a database of that server for one test, known by its folder."""
    name = f"t{hashlib.blake2b(bytes(folder), digest_size=8).hexdigest()}"
    client = importlib.import_module("pymilvus").MilvusClient(milvus_uri())
    client.create_database(name)
    client.close()
    return name
