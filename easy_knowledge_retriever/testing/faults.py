"""What can go wrong at an endpoint, ready to be told to the test server.

    server.fail("/v1/chat/completions", {1: faults.rate_limited(retry_after=3), 2: faults.reset()})

:data:`ALL` holds every one by its name, for a parametrised test or ``--fault`` on the command line.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ALL",
    "Fault",
    "bad_gateway",
    "content_filtered",
    "context_too_long",
    "declined",
    "dripping",
    "empty_choices",
    "empty_text",
    "error_with_200",
    "forbidden",
    "gateway_timeout",
    "half_closed",
    "html_page",
    "huge",
    "internal_error",
    "late",
    "no_choices",
    "no_room",
    "no_such_model",
    "null_content",
    "out_of_credit",
    "overloaded",
    "rate_limited",
    "redirected",
    "refusing",
    "reset",
    "reset_in_mid_body",
    "streamed",
    "streamed_error",
    "thought_only",
    "too_large",
    "unauthorized",
    "unavailable",
    "unprocessable",
]

_EVENTS = {"content-type": "text/event-stream"}
_HALF = b'{"choices": [{"message": {"role": "assistant", "content": "half of'


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens instead of an answer. Without anything but ``delay`` the answer is only late."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | str | Mapping[str, Any] | None = None
    """Sent as it is; with a status and no body, an error object."""
    delay: float = 0.0
    """Seconds before anything is sent."""
    reset: bool = False
    """The connection is cut instead of an answer, or after ``body``."""
    half_closed: bool = False
    """It is closed properly, but the answer is not there, or ends too early after ``body``."""
    stall: float = 0.0
    """Seconds of silence before the connection is cut or closed."""
    pieces: Iterable[bytes] | None = None
    """Sent one after the other instead of the body; may have no end."""
    pause: float = 0.0
    """Seconds between the pieces."""


class _Endless:
    """White space without end, anew for each who asks."""

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(b" ")


def _error(status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    body = {"error": {"message": message, "type": "test", "code": code}}
    return Fault(status, headers or {}, body)


def _reply(message: Mapping[str, Any], finish: str = "stop", **usage: Any) -> Fault:
    spent = {"prompt_tokens": 10, "completion_tokens": 0, **usage}
    whole = {"role": "assistant", **message}
    return Fault(body={"choices": [{"index": 0, "message": whole, "finish_reason": finish}], "usage": spent})


def rate_limited(retry_after: float | str | None = None, *, milliseconds: int | None = None) -> Fault:
    """429, with what it says of waiting.

    Args:
        retry_after: Seconds, or an HTTP date.
        milliseconds: For the header ``retry-after-ms``.
    """
    headers = {} if retry_after is None else {"retry-after": f"{retry_after}"}
    headers |= {} if milliseconds is None else {"retry-after-ms": f"{milliseconds}"}
    return _error(429, "Rate limit reached for requests", code="rate_limit_exceeded", headers=headers)


def out_of_credit() -> Fault:
    """429 of an account that is empty: waiting does not help."""
    return _error(429, "You exceeded your current quota, please check your plan", code="insufficient_quota")


def _down(status: int, retry_after: float | None) -> Fault:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after}"}
    return _error(status, "the server has a fault of its own", headers=headers)


def internal_error(retry_after: float | None = None) -> Fault:
    """500, perhaps with seconds to wait."""
    return _down(500, retry_after)


def bad_gateway(retry_after: float | None = None) -> Fault:
    """502, perhaps with seconds to wait."""
    return _down(502, retry_after)


def unavailable(retry_after: float | None = None) -> Fault:
    """503, perhaps with seconds to wait."""
    return _down(503, retry_after)


def gateway_timeout(retry_after: float | None = None) -> Fault:
    """504, perhaps with seconds to wait."""
    return _down(504, retry_after)


def overloaded(retry_after: float | None = None) -> Fault:
    """529, perhaps with seconds to wait."""
    return _down(529, retry_after)


def context_too_long(tokens: int = 4096) -> Fault:
    """400: the request is longer than the model reads."""
    return _error(400, f"This model's maximum context length is {tokens} tokens", code="context_length_exceeded")


def unauthorized() -> Fault:
    """401: the key is wrong."""
    return _error(401, "Incorrect API key provided", code="invalid_api_key")


def forbidden() -> Fault:
    """403: the key may not do this."""
    return _error(403, "You are not allowed to use this model")


def no_such_model() -> Fault:
    """404: the model is unknown."""
    return _error(404, "The model does not exist", code="model_not_found")


def too_large() -> Fault:
    """413: the request is too large."""
    return _error(413, "batch size is larger than the maximum allowed batch size")


def unprocessable() -> Fault:
    """422: a field of the request is wrong."""
    return _error(422, "Failed to deserialize the JSON body into the target type")


def redirected(location: str = "http://127.0.0.1:9/v1/chat/completions") -> Fault:
    """307 to another address.

    Args:
        location: The address.
    """
    return Fault(307, {"location": location}, b"")


def reset() -> Fault:
    """The connection is cut before anything is said."""
    return Fault(reset=True)


def reset_in_mid_body() -> Fault:
    """The connection is cut in the middle of an answer."""
    return Fault(body=_HALF, reset=True)


def half_closed() -> Fault:
    """The connection is closed in the middle of an answer, as if it were whole."""
    return Fault(body=_HALF, half_closed=True)


def late(seconds: float = 3600.0) -> Fault:
    """Nothing is said for a while.

    Args:
        seconds: How long.
    """
    return Fault(delay=seconds)


def dripping(seconds: float = 1.0, headers: Mapping[str, str] | None = None) -> Fault:
    """An answer that goes on for ever, a byte at a time.

    Args:
        seconds: Between two bytes.
        headers: Of the answer.
    """
    return Fault(headers=headers or {}, pieces=_Endless(), pause=seconds)


def huge(size: int = 10 * 1024 * 1024) -> Fault:
    """A whole answer of so many letters.

    Args:
        size: How many.
    """
    return _reply({"content": "E | Name | Concept | Something.\n" + "x" * size})


def html_page() -> Fault:
    """200 with the page of a proxy."""
    return Fault(body="<!doctype html><html><body>Welcome to nginx!</body></html>", headers={"content-type": "text/html"})


def error_with_200() -> Fault:
    """200 with an error object."""
    return Fault(body={"error": {"message": "upstream failed", "code": 502}})


def empty_text() -> Fault:
    """An answer of no letters."""
    return _reply({"content": ""})


def null_content() -> Fault:
    """An answer whose content is null."""
    return _reply({"content": None})


def no_choices() -> Fault:
    """An answer without the field ``choices``, and without ``usage``."""
    return Fault(body={"id": "chat-1", "object": "chat.completion"})


def empty_choices() -> Fault:
    """An answer with an empty list of choices."""
    return Fault(body={"choices": []})


def no_room() -> Fault:
    """The budget was spent before anything was said."""
    return _reply({"content": ""}, "length", completion_tokens=256)


def thought_only() -> Fault:
    """The whole budget was spent on reasoning."""
    return _reply({"content": None, "reasoning_content": "Let me think. " * 20}, "length", completion_tokens=256)


def declined() -> Fault:
    """The model declines, in the field for it."""
    return _reply({"content": None, "refusal": "I cannot help with that."})


def content_filtered() -> Fault:
    """A filter stopped the answer."""
    return _reply({"content": "The"}, "content_filter")


def streamed(parts: Sequence[bytes], *, pause: float = 0.0) -> Fault:
    """A stream of server-sent events, exactly in these pieces.

    Args:
        parts: The pieces; one may end within an event or a letter.
        pause: Seconds between them.
    """
    return Fault(headers=_EVENTS, pieces=tuple(parts), pause=pause)


def streamed_error(message: str = "the engine is overloaded") -> Fault:
    """A stream with a piece of text and then an error.

    Args:
        message: Of the error.
    """
    half = {"choices": [{"index": 0, "delta": {"content": "half"}}]}
    return streamed([f"data: {json.dumps(event)}\n\n".encode() for event in (half, {"error": {"message": message}})])


def refusing(name: str) -> Callable[[int, Mapping[str, Any]], Fault | None]:
    """For :meth:`OpenAITestServer.fail`: 400 to every request that has a field.

    Args:
        name: The field.
    """
    refused = _error(400, f"Unsupported parameter: {name!r}")
    return lambda _, body: refused if name in body else None


ALL: Mapping[str, Callable[[], Fault]] = {
    make.__name__: make
    for make in (
        rate_limited,
        out_of_credit,
        internal_error,
        bad_gateway,
        unavailable,
        gateway_timeout,
        overloaded,
        context_too_long,
        unauthorized,
        forbidden,
        no_such_model,
        too_large,
        unprocessable,
        redirected,
        reset,
        reset_in_mid_body,
        half_closed,
        late,
        dripping,
        huge,
        html_page,
        error_with_200,
        empty_text,
        null_content,
        no_choices,
        empty_choices,
        no_room,
        thought_only,
        declined,
        content_filtered,
        streamed_error,
    )
}
"""Makes every fault with its defaults, by name."""
