"""A small HTTP client of our own, on whichever of httpx2 and httpx is installed, and things bound to an event loop."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from easy_knowledge_retriever.endpoints.faults import from_status, redacted
from easy_knowledge_retriever.errors import BadResponse, UpstreamError, UpstreamTimeout, UpstreamUnavailable

__all__ = [
    "LONGEST_BODY",
    "HttpClient",
    "LoopBound",
    "Reply",
    "bounded",
    "read_bounded",
    "transport_error",
    "transport_errors",
    "verification",
]

T = TypeVar("T")
_LIBRARIES = ("httpx2", "httpx")
LONGEST_BODY = 2 * 1024 * 1024
"""Bytes read of one answer, where nothing longer is expected."""
_LONGEST_REFUSAL = 64 * 1024
"""Bytes read of an answer that is no success: enough for any message."""
_LONGEST_TRANSFER = 256 * 1024 * 1024
"""Bytes that any answer may take on the wire, streams and the vectors of a large batch included."""


class LoopBound(Generic[T]):
    """One resource for each event loop that asks, made on the first use in it: connections belong to a loop.

    Args:
        build: Makes one.
        close: Frees one.
    """

    def __init__(self, build: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> None:
        self._build = build
        self._close = close
        self._held: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The one of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            for dead in [held for held in self._held if held.is_closed()]:
                del self._held[dead]
            self._held[loop] = self._build()
        return self._held[loop]

    async def aclose(self) -> None:
        """Frees all of them, each in its own loop. Those of loops that no longer run are let go."""
        here = asyncio.get_running_loop()
        while self._held:
            loop, resource = self._held.popitem()
            if loop is here:
                await self._close(resource)
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._closing(resource), loop))

    async def _closing(self, resource: T) -> None:
        await self._close(resource)


@functools.cache
def _library() -> ModuleType:
    for name in _LIBRARIES[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(_LIBRARIES[-1])


def transport_errors() -> tuple[type[Exception], ...]:
    """What the HTTP libraries in use raise when a connection fails."""
    loaded = [sys.modules[name] for name in _LIBRARIES if name in sys.modules]
    return tuple(module.HTTPError for module in loaded)


def transport_error(error: BaseException, where: str) -> UpstreamError:
    """The error a failed connection stands for. Its message is never empty, as that of a read time-out may be."""
    if "Timeout" in type(error).__name__:
        return UpstreamTimeout(f"{where} did not answer in time ({type(error).__name__})")
    detail = str(error) or type(error).__name__
    return UpstreamUnavailable(f"{where} cannot be reached: {detail}")


def verification(url: str) -> bool:
    """Whether certificates are to be checked: always, except that a plain http address has none and need not load them."""
    return not url.startswith("http://")


async def read_bounded(parts: AsyncIterable[bytes], most: int) -> tuple[bytes, bool]:
    """The first ``most`` bytes, and whether there were more. What comes after them is not read."""
    read = bytearray()
    async for part in parts:
        read += part
        if len(read) > most:
            return bytes(read[:most]), True
    return bytes(read), False


async def bounded(response: Any) -> None:
    """A response hook for httpx clients: no answer is read without end.

    The openai package reads the whole body of a refusal; only its beginning is given to it. A success that passes all
    bounds raises BadResponse while it is read.
    """
    success = 200 <= response.status_code < 300
    response.stream = _bounded_stream(response, _LONGEST_TRANSFER if success else _LONGEST_REFUSAL, cut=not success)


def _bounded_stream(response: Any, most: int, *, cut: bool) -> Any:
    inner = response.stream

    class Bounded(sys.modules[type(response).__module__.partition(".")[0]].AsyncByteStream):  # type: ignore[misc]  # of either library
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for part in inner:
                if len(part) > left and not cut:
                    raise BadResponse(f"the answer is longer than {most} bytes")
                yield part[:left]
                left -= len(part)
                if left <= 0 and cut:
                    return

        async def aclose(self) -> None:
            await inner.aclose()

    return Bounded()


@dataclass(frozen=True, slots=True)
class Reply:
    """What an endpoint answered."""

    status: int
    text: str
    headers: Mapping[str, str]


class HttpClient:
    """Posts JSON. Redirects are not followed, so a key goes to no other host; a pool of connections for each loop.

    Args:
        url: The whole address.
        headers: Sent with each request.
        timeout: Seconds for one request, all of it.
        secrets: Never to appear in an error.
        longest: Bytes read of an answer.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout: float, secrets: tuple[str, ...] = (), longest: int = LONGEST_BODY
    ) -> None:
        self._url = url
        self._headers = dict(headers)
        self._timeout = timeout
        self._secrets = secrets
        self._longest = longest
        self._clients: LoopBound[Any] = LoopBound(self._build, lambda client: client.aclose())

    def _build(self) -> Any:
        return _library().AsyncClient(
            headers=self._headers,
            timeout=self._timeout,
            follow_redirects=False,
            verify=verification(self._url),
            event_hooks={"response": [bounded]},
        )

    async def post(self, body: Mapping[str, object], where: str) -> Reply:
        """The answer, whatever its status.

        Raises:
            UpstreamTimeout: No answer in time.
            UpstreamUnavailable: No connection.
        """
        client = self._clients.get()
        try:
            async with asyncio.timeout(self._timeout), client.stream("POST", self._url, json=body) as response:
                raw, _ = await read_bounded(response.aiter_bytes(), self._longest)
        except TimeoutError as cause:
            raise UpstreamTimeout(f"{where} did not answer within {self._timeout:g} s") from cause
        except transport_errors() as cause:
            raise transport_error(cause, where) from cause
        return Reply(response.status_code, raw.decode("utf-8", "replace"), response.headers)

    def failure(self, reply: Reply, where: str) -> UpstreamError:
        """The error a reply that is not a success stands for."""
        return from_status(reply.status, redacted(reply.text, self._secrets), reply.headers, where)

    async def aclose(self) -> None:
        """Closes its connections. A second call does nothing."""
        await self._clients.aclose()
