"""A server that speaks Bolt and Cypher: ArcadeDB. Neo4j itself is not to be had as a package."""

from __future__ import annotations

import functools
import importlib.util
import secrets
import time
from pathlib import Path

from neo4j import Driver, GraphDatabase
from neo4j.exceptions import Neo4jError

from tests.support.servers import HOST, PATIENCE, data_folder, free_port, needs_linux_x86_64, serve

DATABASE, USER = "neo4j", "root"
PASSWORD = secrets.token_hex(8)


@functools.cache
def bolt_uri() -> str:
    """Address of the one server of this run, which is started at the first call."""
    port, folder = free_port(), data_folder()
    serve(bolt_command(folder, port), port, folder)
    uri = f"bolt://{HOST}:{port}"
    with GraphDatabase.driver(uri, auth=(USER, PASSWORD)) as driver:
        _wait(driver)
    return uri


def _wait(driver: Driver) -> None:
    """It listens some seconds before it has a database."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with driver.session(database=DATABASE) as session:
                session.run("RETURN 1").consume()
                return
        except Neo4jError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def bolt_command(folder: Path, port: int) -> list[str]:
    """How it is started, with the Java it brings along. Its own default is to listen on every interface."""
    needs_linux_x86_64()
    found = importlib.util.find_spec("arcadedb_embedded")
    assert found
    assert found.origin
    package = Path(found.origin).parent
    options = {
        "server.rootPath": folder,
        "server.rootPassword": PASSWORD,
        "server.mode": "production",
        "server.httpIncomingHost": HOST,
        "server.httpIncomingPort": free_port(),
        "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "server.defaultDatabases": f"{DATABASE}[{USER}]",
        "bolt.host": HOST,
        "bolt.port": port,
    }
    told = [f"-Darcadedb.{name}={value}" for name, value in options.items()]
    java = str(package / "jre" / "bin" / "java")
    return [
        java,
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *told,
        "-cp",
        str(package / "jars" / "*"),
        "com.arcadedb.server.ArcadeDBServer",
    ]


_last: list[Path] = []


def emptied(folder: Path) -> str:
    """Address of the server; what the tests before left in it is gone. The same folder is the same test."""
    uri = bolt_uri()
    if _last != [folder]:
        _last[:] = [folder]
        _empty(uri)
    return uri


def nodes() -> int:
    """How many nodes the server holds."""
    with GraphDatabase.driver(bolt_uri(), auth=(USER, PASSWORD)) as driver, driver.session(database=DATABASE) as session:
        return int(session.run("MATCH (n) RETURN count(n)").values()[0][0])


def _empty(uri: str) -> None:
    with GraphDatabase.driver(uri, auth=(USER, PASSWORD)) as driver, driver.session(database=DATABASE) as session:
        session.execute_write(lambda transaction: transaction.run("MATCH (n) DETACH DELETE n").consume())
