"""The openai package, behind plain values: bodies in, JSON and pieces of text out, our errors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from easy_knowledge_retriever.endpoints.faults import check_url, from_status, public_url, redacted
from easy_knowledge_retriever.endpoints.http import LoopBound, transport_error, transport_errors, verification
from easy_knowledge_retriever.errors import (
    BadResponse,
    ConfigError,
    RateLimited,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.settings import environment

__all__ = ["ApiKey", "Connection", "OpenAIClient", "connection"]

ApiKey = str | Callable[[], Awaitable[str]]
"""A key, or a coroutine function that gives a fresh one."""

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
_LONGEST_STREAM = 10
"""Time-outs that a whole stream may last."""


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """Where to call and with what. Its repr shows no key."""

    url: str
    api_key: ApiKey
    timeout: float
    http_client: object | None = None
    """A client of the caller's own, handed to the openai package untouched."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated anywhere."""
        key = self.api_key
        return (key,) if isinstance(key, str) and key and key != _NO_KEY else ()

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service."""
        return urlsplit(self.url).hostname == urlsplit(_OPENAI).hostname

    def __repr__(self) -> str:
        return f"Connection({public_url(self.url)!r})"


def connection(base_url: str | None, api_key: ApiKey | None, timeout: float, http_client: object | None = None) -> Connection:
    """The connection for what a service was given; the environment fills in what was not.

    A local server needs no key, OpenAI does.

    Raises:
        ConfigError: The address is unusable, or OpenAI is to be called without a key.
    """
    variables = environment()
    url = check_url(base_url or variables.openai_base_url or _OPENAI)
    result = Connection(url, api_key or variables.openai_api_key or _NO_KEY, timeout, http_client)
    if result.is_openai and result.api_key == _NO_KEY:
        raise ConfigError("there is no API key for api.openai.com", hint="give api_key, or set OPENAI_API_KEY")
    return result


class OpenAIClient:
    """Chat and embedding requests over one pooled client for each event loop. It sends each request once.

    Args:
        link: Where to call.
        model: Named in errors.
    """

    def __init__(self, link: Connection, model: str) -> None:
        # Imported here and not at the top: it takes longer than the rest of the library together.
        import openai  # noqa: PLC0415

        self._openai = openai
        self._link = link
        self._where = f"the model {model!r} at {public_url(link.url)}"
        self._clients: LoopBound[openai.AsyncOpenAI] = LoopBound(self._build, self._close)

    def _build(self) -> Any:
        link, openai = self._link, self._openai
        own: Any = link.http_client or openai.DefaultAsyncHttpxClient(
            follow_redirects=False, timeout=link.timeout, verify=verification(link.url)
        )
        return openai.AsyncOpenAI(api_key=link.api_key, base_url=link.url, timeout=link.timeout, max_retries=0, http_client=own)

    async def _close(self, client: Any) -> None:
        if self._link.http_client is None:
            await client.close()

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON object that answers a chat request.

        Raises:
            UpstreamError: The request failed, or the answer is no JSON object.
        """
        return await self._json(self._clients.get().chat.completions.with_raw_response.create, body)

    async def embeddings(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON object that answers an embedding request.

        Raises:
            UpstreamError: The request failed, or the answer is no JSON object.
        """
        return await self._json(self._clients.get().embeddings.with_raw_response.create, body)

    async def _json(self, send: Callable[..., Awaitable[Any]], body: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._translated():
            # The client's own time-out restarts with each byte; this one does not.
            async with asyncio.timeout(self._link.timeout):
                raw = await send(**body)
            reply = json.loads(raw.text)
        if not isinstance(reply, dict):
            raise BadResponse(f"{self._where} answered JSON that is no object")
        if reply.get("error"):
            raise BadResponse(f"{self._where} answered 200 with an error: {self._quote(reply['error'])}")
        return reply

    async def pieces(self, body: Mapping[str, Any]) -> AsyncGenerator[str]:
        """The visible text of a streamed chat, as it comes. Reasoning fields are left out.

        Raises:
            UpstreamError: The request or the stream failed.
        """
        ends = time.monotonic() + _LONGEST_STREAM * self._link.timeout
        with self._translated():
            async with asyncio.timeout(self._link.timeout):
                stream = await self._clients.get().chat.completions.create(**body, stream=True)
            async with stream:
                while (event := await self._next(stream, ends)) is not None:
                    text = _delta(event)
                    if text:
                        yield text

    async def _next(self, stream: Any, ends: float) -> Any:
        """The next event, None after the last. Neither one event nor the whole stream may take for ever."""
        if time.monotonic() >= ends:
            raise UpstreamTimeout(f"{self._where} did not come to an end within {_LONGEST_STREAM * self._link.timeout:g} s")
        async with asyncio.timeout(self._link.timeout):
            return await anext(stream, None)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as cause:
            raise UpstreamTimeout(f"{self._where} did not answer within {self._link.timeout:g} s") from cause
        except self._openai.OpenAIError as cause:
            raise self._translate(self._scrubbed(cause)) from cause
        except transport_errors() as cause:
            raise transport_error(cause, self._where) from cause
        except ValueError as cause:  # JSON or UTF-8 that is none
            raise BadResponse(f"{self._where} did not answer JSON") from cause

    def _translate(self, cause: Exception) -> UpstreamError:
        openai = self._openai
        match cause:
            case openai.APITimeoutError():
                return UpstreamTimeout(f"{self._where} did not answer within {self._link.timeout:g} s")
            case openai.APIConnectionError():
                reason = cause.__cause__
                detail = f"{type(reason).__name__}: {self._quote(reason)}" if reason else str(cause)
                return UpstreamUnavailable(f"{self._where} cannot be reached: {detail}")
            case openai.APIStatusError():
                return from_status(cause.status_code, self._quote(cause.message), cause.response.headers, self._where)
            case openai.APIResponseValidationError():
                return BadResponse(f"{self._where} answered something else than its protocol says")
            case openai.APIError():  # an error event in the middle of a stream
                return self._stream_error(cause)
            case _:
                return UpstreamError(f"{self._where}: {self._quote(cause)}")

    def _stream_error(self, cause: Any) -> UpstreamError:
        text = f"{self._where} broke off: {self._quote(cause.message)}"
        limited = "rate_limit" in f"{cause.code} {cause.type}"
        return RateLimited(text) if limited else UpstreamUnavailable(text)

    def _scrubbed(self, cause: Exception) -> Exception:
        """The error, without a key that the server repeated: it stays in the chain and is printed with it."""
        if any(secret in f"{cause.args} {getattr(cause, 'body', '')}" for secret in self._link.secrets):
            cause.args = tuple(redacted(str(arg), self._link.secrets) for arg in cause.args)
            vars(cause).update(message=redacted(str(cause), self._link.secrets), body=None)
        return cause

    def _quote(self, value: object) -> str:
        return redacted(str(value), self._link.secrets)

    async def aclose(self) -> None:
        """Closes its connections. A second call does nothing."""
        await self._clients.aclose()


def _delta(event: Any) -> str:
    choices = getattr(event, "choices", None) or ()
    delta = getattr(choices[0], "delta", None) if choices else None
    text = getattr(delta, "content", None)
    return text if isinstance(text, str) else ""
