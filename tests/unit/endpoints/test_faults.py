"""What an endpoint says when it fails."""

from __future__ import annotations

import pytest

from easy_knowledge_retriever.endpoints.faults import (
    RequestRefused,
    check_url,
    from_status,
    is_too_long,
    public_url,
    redacted,
    retry_after,
)
from easy_knowledge_retriever.errors import (
    BadResponse,
    ConfigError,
    ContextTooLong,
    RateLimited,
    UpstreamAuth,
    UpstreamTimeout,
    UpstreamUnavailable,
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=10.0) == seconds


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, BadResponse),
        (301, RequestRefused),
        (400, RequestRefused),
        (401, UpstreamAuth),
        (403, UpstreamAuth),
        (404, RequestRefused),
        (408, UpstreamTimeout),
        (422, RequestRefused),
        (429, RateLimited),
        (500, UpstreamUnavailable),
        (503, UpstreamUnavailable),
        (529, UpstreamUnavailable),
    ],
)
def test_a_status_stands_for_an_error(status: int, expected: type[Exception]) -> None:
    error = from_status(status, "no", {"retry-after": "7"}, "the model 'm' at http://h")
    assert type(error) is expected
    assert "the model 'm' at http://h" in str(error)
    assert getattr(error, "retry_after", 7.0) == 7.0


def test_an_empty_account_is_not_waited_for() -> None:
    error = from_status(429, "You exceeded your current quota, insufficient_quota", {}, "m")
    assert isinstance(error, RequestRefused)
    assert "credit" in str(error)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "context_length_exceeded",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input is too large",
        "Requested tokens (5000) exceed context window of 4096",
        "input length exceeds the context length",
    ],
)
def test_a_request_may_be_too_long(message: str) -> None:
    assert is_too_long(message)
    assert isinstance(from_status(400, message, {}, "m"), ContextTooLong)


@pytest.mark.parametrize("message", ["unknown field response_format", "the model does not exist", "invalid temperature"])
def test_or_wrong_in_another_way(message: str) -> None:
    assert not is_too_long(message)


def test_a_key_and_a_novel_are_not_repeated() -> None:
    assert redacted("wrong key  abc123,\n abc123!", ("abc123",)) == "wrong key ***, ***!"
    assert len(redacted("x" * 5000, ())) == 301


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert public_url("https://h.example:8443/v1?api-key=secret#x") == "https://h.example:8443/v1"
    assert public_url("http://[::1]:8000/v1") == "http://[::1]:8000/v1"


def test_an_address_is_checked() -> None:
    assert check_url("http://localhost:8000/v1/") == "http://localhost:8000/v1"
    for url in ("", "localhost", "file:///etc", "http://:80", "http://h:99999", "http://u:p@h", "http://[::1"):
        with pytest.raises(ConfigError):
            check_url(url)
