"""From what an endpoint answers when it fails to our error tree."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from easy_knowledge_retriever.errors import (
    BadResponse,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    RateLimited,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.types import Usage

__all__ = [
    "OutOfRoom",
    "RequestRefused",
    "check_url",
    "from_status",
    "is_too_long",
    "public_url",
    "redacted",
    "retry_after",
]

_LONGEST_MESSAGE = 300
_TOO_LONG = re.compile(
    r"context.{0,3}length|context.{0,20}(?:window|exceed)|maximum context|(?:prompt|input).{0,30}too (?:long|large)"
    r"|too many (?:input )?tokens|exceeds?.{0,60}tokens|reduce the length",
    re.IGNORECASE | re.DOTALL,
)
_FILTERED = re.compile(r"content.?filter|content management policy", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient.?quota|exceeded your current quota|billing", re.IGNORECASE)

_HINTS = dict.fromkeys(range(300, 400), "redirects are not followed: give the final address") | {
    404: "check the model name and the address",
    429: "the account has no credit left",
}


class RequestRefused(UpstreamError):
    """A request the endpoint does not take as it is: another try would fail alike, another request may not.

    Args:
        message: What was refused.
        status: The HTTP status, 3xx or 4xx.
    """

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status

    @property
    def is_about_content(self) -> bool:
        """Whether what was sent is at fault, and not the address or the method."""
        return self.status in {400, 413, 415, 422}


class OutOfRoom(BadResponse):
    """A model spent its whole budget before it said anything. The same request again would end alike.

    Args:
        message: What happened.
        usage: What the attempt cost.
        thought: Whether it spent it on reasoning that it showed, on reasoning that it hid, or on none that is known.
    """

    def __init__(
        self,
        message: str,
        *,
        usage: Usage | None = None,
        thought: Literal["shown", "hidden", "no"] = "no",
        hint: str = "raise max_tokens or turn its reasoning off",
    ) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage or Usage(llm_calls=1)
        self.thought = thought


def check_url(url: str) -> str:
    """The address itself without a final slash, if it is one that can be called.

    Raises:
        ConfigError: It is not a full http or https address, or holds credentials.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("the address of an endpoint cannot be used", hint="give a full URL, such as http://localhost:8000/v1")
    if parts.username or parts.password:
        # HTTP libraries log the address of each request.
        raise ConfigError("the address of an endpoint holds credentials", hint="give api_key or extra_headers instead")
    return url.rstrip("/")


def public_url(url: str) -> str:
    """The address without query and fragment, which may hold a key: what may be shown and logged."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text, cut to a readable length, without the secrets: some servers repeat a refused key."""
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def is_too_long(message: str) -> bool:
    """Whether a refusal says that the request is longer than the model reads. Each server says it in its own words."""
    return bool(_TOO_LONG.search(message))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the endpoint asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date.

    Args:
        headers: Of the answer; keys in lower case, or a mapping that ignores case.
        now: Seconds since the epoch, for a date; the clock's if None.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None


def from_status(status: int, message: str, headers: Mapping[str, str], where: str) -> UpstreamError:
    """The error an HTTP status stands for.

    Args:
        status: The status, not a 2xx.
        message: What the endpoint says, already free of secrets.
        headers: Of the answer.
        where: What was called, such as a model and an address.
    """
    text = f"{where} answered {status}: {message or 'nothing'}"
    if status >= 500:
        return UpstreamUnavailable(text, retry_after=retry_after(headers))
    if status == 429 and not _QUOTA.search(message):
        return RateLimited(text, retry_after=retry_after(headers))
    if status in {401, 403}:
        return UpstreamAuth(text, hint="check the key and what it may be used for")
    if status == 408:
        return UpstreamTimeout(text)
    return _refused(status, message, text)


def _refused(status: int, message: str, text: str) -> UpstreamError:
    if status < 400 and status // 100 != 3:
        return BadResponse(text)
    if _FILTERED.search(message):
        return ContentRefused(text)
    if is_too_long(message):
        return ContextTooLong(text, hint="use smaller chunks or a smaller max_total_tokens")
    return RequestRefused(text, status=status, hint=_HINTS.get(status, ""))
