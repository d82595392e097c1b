"""Servers of other people that tests need: each in a process of its own, on this machine's loopback, ended with the run."""

from __future__ import annotations

import atexit
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds a server may take to listen."""


def needs_linux_x86_64() -> None:
    """Skips the test where the server has no wheel; elsewhere a server that is missing is a failure."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("the server comes for Linux on x86_64 only")


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def data_folder() -> Path:
    """An empty folder that is removed with the run."""
    folder = Path(tempfile.mkdtemp(prefix="ekr-server-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def serve(command: Sequence[str], port: int, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a server, waits until it listens on ``port``, and ends it with the run.

    Raises:
        RuntimeError: It ended, or does not listen; with what it said.
    """
    log = folder / "output.txt"
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
    atexit.register(_end, process)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return process
    raise RuntimeError(f"{command[0]!r} does not listen on port {port}:\n{log.read_text(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
