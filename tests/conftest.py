"""What every test lives under: no network but this machine's own, no setting from the developer's environment.

No object is revived from bytes by the package, and no task is left behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import is_hypothesis_test, settings

from easy_knowledge_retriever.endpoints.features import forget_features
from easy_knowledge_retriever.testing.server import OpenAITestServer
from tests.support.properties import THOROUGH, USUAL
from tests.support.verified import Verified

_LOCAL_NAMES = frozenset({"", "localhost"})
_PACKAGE = str(Path(__file__).resolve().parent.parent / "easy_knowledge_retriever")
_REVIVING = frozenset({"pickle.find_class", "marshal.loads", "marshal.load"})
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
    elif event in _REVIVING and sys._getframe(1).f_code.co_filename.startswith(_PACKAGE):
        raise RuntimeError(f"the package stores no objects: {event} {arguments!r}")
    elif event == "socket.getaddrinfo" and not _is_local(arguments[0]):
        raise NetworkShut(f"tests resolve no names, {arguments[0]!r} neither")


sys.addaudithook(_shut)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(_READ_BY_US):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    """Ports come back: what one test found out about a server is not true of the next."""
    forget_features()


@pytest.fixture
async def _no_task_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    running = asyncio.all_tasks() - before - {asyncio.current_task()}
    if running:  # such as the loop closing a generator nobody read to its end
        await asyncio.wait(running, timeout=1)
    assert [task for task in running if not task.done()] == []


@pytest.fixture(autouse=True)
def _bases(request: pytest.FixtureRequest) -> Iterator[Verified | None]:
    """What a test leaves of its bases is whole, unless it damages one on purpose: ``@pytest.mark.damages``."""
    if request.node.get_closest_marker("damages") is not None:
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        verified = Verified(patch)
        yield verified
    assert verified.findings == []


@pytest.fixture
async def _open_bases(_bases: Verified | None) -> AsyncIterator[None]:
    yield
    if _bases is not None:
        await _bases.look_at_open()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests that take minutes and the properties, and only these")
    parser.addoption("--minutes", type=float, default=10.0, help="how long the fuzzing goes on")


def pytest_configure(config: pytest.Config) -> None:
    """The same examples in every ordinary run, so that nobody's change fails by chance; new ones under ``--long``."""
    settings.register_profile("usual", max_examples=USUAL, derandomize=True, deadline=None)
    settings.register_profile("thorough", max_examples=THOROUGH, deadline=None, print_blob=True)
    settings.load_profile("thorough" if config.getoption("--long") else "usual")


def _wanted(item: pytest.Item, *, long: bool) -> bool:
    takes_minutes = item.get_closest_marker("long") is not None
    if not long:
        return not takes_minutes
    return takes_minutes or (isinstance(item, pytest.Function) and is_hypothesis_test(item.obj))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every coroutine test fails if it leaves a task behind. What takes minutes runs by itself or not at all."""
    left_out = [item for item in items if not _wanted(item, long=config.getoption("--long"))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if isinstance(item, pytest.Function) and pytest_asyncio.is_async_test(item):
            item.fixturenames[:0] = ["_no_task_left", "_open_bases"]


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Base URL of a server of this machine, in a loop of its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = OpenAITestServer(dimension=1536)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    yield server.base_url
    asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
async def server() -> AsyncIterator[OpenAITestServer]:
    """The test server, in the loop of the test."""
    async with OpenAITestServer() as running:
        yield running


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept between tries, without sleeping."""
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept
