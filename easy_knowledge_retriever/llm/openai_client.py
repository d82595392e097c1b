"""The openai package, behind plain values: bodies in, JSON and pieces of text out, our errors."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from easy_knowledge_retriever.endpoints.faults import check_url, from_status, public_url, redacted
from easy_knowledge_retriever.endpoints.http import (
    LoopBound,
    bounded,
    read_bounded,
    transport_error,
    transport_errors,
    verification,
)
from easy_knowledge_retriever.errors import (
    BadResponse,
    ConfigError,
    RateLimited,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.llm.chat_reply import LONGEST_ANSWER, salvaged
from easy_knowledge_retriever.settings import Environment, environment

__all__ = ["ApiKey", "Connection", "OpenAIClient", "Piece", "connection"]

ApiKey = str | Callable[[], Awaitable[str]]
"""A key, or a coroutine function that gives a fresh one."""

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
_LONGEST_STREAM = 10
"""Time-outs that a whole stream may last."""
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_SECRET = re.compile(r"auth|key|token|secret|signature|cookie", re.IGNORECASE)
"""Names of headers and query parameters whose values are not to be repeated."""


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """Where to call and with what. Its repr shows no key."""

    url: str
    api_key: ApiKey
    timeout: float
    http_client: object | None = None
    """A client of the caller's own, handed to the openai package untouched."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of each request."""
    query: Mapping[str, object] = field(default_factory=dict)
    """Parameters of the address of each request."""
    key_header: str = ""
    """Header that holds the key where it is not ``Authorization``."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated anywhere."""
        key = [self.api_key] if isinstance(self.api_key, str) and self.api_key != _NO_KEY else []
        named = [str(value) for name, value in (*self.headers.items(), *self.query.items()) if _SECRET.search(name)]
        # A server that repeats a header may leave out the scheme before the key.
        return tuple(secret for whole in (*key, *named) for secret in (whole, whole.rpartition(" ")[2]) if secret)

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service."""
        return urlsplit(self.url).hostname == urlsplit(_OPENAI).hostname

    def __repr__(self) -> str:
        return f"Connection({public_url(self.url)!r})"


def connection(
    base_url: str | None,
    api_key: ApiKey | None,
    timeout: float,
    http_client: object | None = None,
    *,
    model: str = "",
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, object] | None = None,
) -> Connection:
    """The connection for what a service was given; the environment fills in what was not.

    A local server needs no key, OpenAI and Azure do. An Azure key is sent to Azure addresses only, in a header of its own.

    Args:
        base_url: Address; ``OPENAI_BASE_URL``, ``AZURE_OPENAI_ENDPOINT``, then OpenAI's, if None.
        api_key: The key.
        timeout: Seconds for one request.
        http_client: A client of the caller's own.
        model: The deployment, where the address names it.
        headers: Further headers.
        query: Further parameters of the address.

    Raises:
        ConfigError: The address is unusable, or a service is to be called without the key it needs.
    """
    variables = environment()
    azure = variables.azure_openai_endpoint
    parameters: dict[str, object] = {}
    url = check_url(base_url or variables.openai_base_url or _azure_url(variables, model) or _OPENAI)
    on_azure = _is_azure(url, azure)
    if on_azure and "/deployments/" in url and variables.openai_api_version:
        parameters = {"api-version": variables.openai_api_version}
    from_environment = variables.azure_openai_api_key if on_azure else variables.openai_api_key
    result = Connection(
        url,
        api_key or from_environment or _NO_KEY,
        timeout,
        http_client,
        dict(headers or {}),
        parameters | dict(query or {}),
        "api-key" if on_azure and not callable(api_key) else "",
    )
    named = {name.lower() for name in result.headers} & {"authorization", "api-key"}
    if (result.is_openai or on_azure) and result.api_key == _NO_KEY and not named:
        variable = "AZURE_OPENAI_API_KEY" if on_azure else "OPENAI_API_KEY"
        raise ConfigError(f"there is no API key for {urlsplit(url).hostname}", hint=f"give api_key, or set {variable}")
    return result


def _azure_url(variables: Environment, model: str) -> str:
    """Address of an Azure resource: with a version that of the deployment named like the model, else the one for all."""
    resource = (variables.azure_openai_endpoint or "").rstrip("/")
    if not resource or "/openai" in resource:
        return resource
    return f"{resource}/openai/deployments/{quote(model)}" if variables.openai_api_version else f"{resource}/openai/v1"


def _is_azure(url: str, endpoint: str | None) -> bool:
    host = urlsplit(url).hostname or ""
    if endpoint:
        return urlsplit(url)[:2] == urlsplit(endpoint)[:2]
    return host.endswith(_AZURE_HOSTS)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a streamed answer."""

    text: str = ""
    reasoning: int = 0
    """Characters of reasoning that came with it."""
    refusal: bool = False
    finish: str = ""
    usage: Mapping[str, Any] | None = None
    """What the answer took, in the words of the endpoint; near its end, if at all."""


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
        # A key that has a header of its own must not stand in the usual one too: Azure would refuse it there.
        self._further: dict[str, Any] = {"extra_headers": {"Authorization": openai.Omit()}} if link.key_header else {}
        self._clients: LoopBound[openai.AsyncOpenAI] = LoopBound(self._build, self._close)

    def _build(self) -> Any:
        link, openai = self._link, self._openai
        own: Any = link.http_client or openai.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=link.timeout,
            verify=verification(link.url),
            event_hooks={"response": [bounded]},
        )
        key = {link.key_header: link.api_key} if link.key_header else {}
        return openai.AsyncOpenAI(
            api_key=link.api_key,
            base_url=link.url,
            timeout=link.timeout,
            max_retries=0,
            http_client=own,
            default_headers={**key, **link.headers},
            default_query=link.query or None,
        )

    async def _close(self, client: Any) -> None:
        if self._link.http_client is None:
            await client.close()

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON object that answers a chat request; of one that does not end, the beginning of its text.

        Raises:
            UpstreamError: The request failed, or the answer is no JSON object.
        """
        raw, cut = await self._send(self._clients.get().chat.completions.with_streaming_response.create, body, LONGEST_ANSWER)
        return self._object(raw, salvaged if cut else json.loads)

    async def embeddings(self, body: Mapping[str, Any], longest: int) -> Mapping[str, Any]:
        """The JSON object that answers an embedding request.

        Args:
            body: The request.
            longest: Bytes that the answer may have.

        Raises:
            UpstreamError: The request failed, or the answer is no JSON object.
        """
        raw, cut = await self._send(self._clients.get().embeddings.with_streaming_response.create, body, longest)
        if cut:
            raise BadResponse(f"{self._where} answered more than {longest} bytes")
        return self._object(raw, json.loads)

    async def _send(self, create: Callable[..., Any], body: Mapping[str, Any], longest: int) -> tuple[bytes, bool]:
        with self._translated():
            # The client's own time-out restarts with each byte; this one does not.
            async with asyncio.timeout(self._link.timeout), create(**_as_it_is(body), **self._further) as response:
                return await read_bounded(response.iter_bytes(), longest)

    def _object(self, raw: bytes, read: Callable[[str], object]) -> Mapping[str, Any]:
        try:
            # A cut may have gone through the middle of a character.
            reply = read(raw.decode("utf-8-sig", "strict" if read is json.loads else "ignore"))
        except (ValueError, RecursionError) as cause:
            hint = "is base_url the address up to and with /v1?" if raw.lstrip()[:1] == b"<" else ""
            raise BadResponse(f"{self._where} did not answer JSON", hint=hint) from cause
        if not isinstance(reply, dict):
            raise BadResponse(f"{self._where} answered JSON that is no object")
        if reply.get("error"):
            raise BadResponse(f"{self._where} answered 200 with an error: {self._quote(reply['error'])}")
        return reply

    async def pieces(self, body: Mapping[str, Any]) -> AsyncGenerator[Piece]:
        """A streamed chat, as it comes.

        Raises:
            UpstreamError: The request or the stream failed.
        """
        ends = time.monotonic() + _LONGEST_STREAM * self._link.timeout
        with self._translated():
            async with asyncio.timeout(self._link.timeout):
                stream = await self._clients.get().chat.completions.create(**_as_it_is(body), **self._further, stream=True)
            async with stream:
                while (event := await self._next(stream, ends)) is not None:
                    yield _piece(event)

    async def _next(self, stream: Any, ends: float) -> Any:
        """The next event, None after the last. Neither one event nor the whole stream may take for ever."""
        if time.monotonic() >= ends:
            raise UpstreamTimeout(f"{self._where} did not come to an end within {_LONGEST_STREAM * self._link.timeout:g} s")
        async with asyncio.timeout(min(self._link.timeout, ends - time.monotonic())):
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


def _as_it_is(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with its messages or texts beside the typed fields: there the client sends them as they are.

    It looks through every part of a typed field for what it should rename, which costs more than all the rest of a request.
    """
    bulky = {name: body[name] for name in ("messages", "input") if name in body}
    return {**body, **dict.fromkeys(bulky, ()), "extra_body": {**bulky, **body.get("extra_body", {})}}


def _piece(event: Any) -> Piece:
    choices = getattr(event, "choices", None) or ()
    choice = choices[0] if choices else None
    delta = getattr(choice, "delta", None)
    text = getattr(delta, "content", None)
    thought = [getattr(delta, name, None) for name in ("reasoning_content", "reasoning")]
    usage = getattr(getattr(event, "usage", None), "__dict__", None)
    return Piece(
        text if isinstance(text, str) else "",
        max(len(part) if isinstance(part, str) else 0 for part in thought),
        bool(getattr(delta, "refusal", None)),
        str(getattr(choice, "finish_reason", None) or ""),
        usage,
    )
