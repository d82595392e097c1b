"""Failing on purpose, and only then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from easy_knowledge_retriever import failpoints
from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.failpoints import failpoint, torn
from easy_knowledge_retriever.settings import failpoints as asked_for


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def ask(text: str) -> None:
        monkeypatch.setenv("EKR_FAILPOINTS", text)
        monkeypatch.setattr(failpoints, "failpoints", asked_for.__wrapped__)
        failpoints._passed.clear()

    return ask


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    return sent


def test_nothing_fails_unasked() -> None:
    failpoint("chunked")
    assert torn("chunked", b"bytes") == b"bytes"


def test_a_name_fails_and_no_other(asked: Callable[[str], None]) -> None:
    asked("chunked=raise")
    failpoint("planned")
    with pytest.raises(StorageError, match="'chunked'"):
        failpoint("chunked")


@pytest.mark.parametrize(("action", "number"), [("enospc", 28), ("eio", 5)])
def test_the_system_fails(asked: Callable[[str], None], action: str, number: int) -> None:
    asked(f"planned=raise,journal={action}")
    with pytest.raises(OSError, match="journal") as caught:
        failpoint("journal")
    assert caught.value.errno == number


def test_killed(asked: Callable[[str], None], signals: list[int]) -> None:
    asked("chunked=kill")
    failpoint("chunked")
    assert signals == [signal.SIGKILL]


def test_the_third_time_only(asked: Callable[[str], None], signals: list[int]) -> None:
    asked("chunked=kill@3")
    seen = []
    for _ in range(5):
        failpoint("chunked")
        seen.append(len(signals))
    assert seen == [0, 0, 1, 1, 1]


def test_a_torn_write_lets_the_first_bytes_through_and_kills(asked: Callable[[str], None], signals: list[int]) -> None:
    asked("journal=torn:3")
    assert (torn("journal", b"record"), torn("snapshot", b"record")) == (b"rec", b"record")
    assert signals == []
    failpoint("journal")
    assert signals == [signal.SIGKILL]


def test_the_second_write_is_torn_and_no_other(asked: Callable[[str], None], signals: list[int]) -> None:
    asked("journal=torn:3@2")
    written = []
    for _ in range(3):
        written.append(torn("journal", b"record"))
        failpoint("journal")
    assert written == [b"record", b"rec", b"record"]
    assert signals == [signal.SIGKILL]


def test_slow(asked: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    asked("chunked=sleep:20")
    failpoint("chunked")
    assert slept == [0.02]


def test_what_is_no_action_is_refused(asked: Callable[[str], None]) -> None:
    asked("chunked=explode")
    with pytest.raises(ConfigError, match="explode"):
        failpoint("chunked")
