"""Places where a test makes the library fail, to see that nothing is lost. Off unless ``EKR_FAILPOINTS`` is set."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import Counter

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.settings import failpoints

__all__ = ["failpoint", "torn"]

_ERRORS = {"enospc": errno.ENOSPC, "eio": errno.EIO}
_passed: Counter[str] = Counter()


class _Refused(OSError):
    """The system refuses, because a test asked for it."""


def failpoint(name: str) -> None:
    """Fails here if it is asked for.

    ``kill`` ends the process at once, ``raise`` is a storage that fails, ``enospc`` and ``eio`` are a system that does,
    ``sleep:20`` waits so many milliseconds, ``torn:5`` kills after :func:`torn` let five bytes through. ``kill@3`` does it
    the third time only.

    Args:
        name: The place; ``docs/how-to/testing.md`` lists all.

    Raises:
        StorageError: It is asked for.
        OSError: It is asked for.
        ConfigError: What is asked for is none of these.
    """
    asked = failpoints().get(name)
    if asked is not None:
        _fail(name, asked)


def torn(name: str, data: bytes) -> bytes:
    """What of some bytes a file gets: all, or the first of them before :func:`failpoint` of the same name kills.

    Args:
        name: The place.
        data: What is to be written.
    """
    what, _, turn = failpoints().get(name, "").partition("@")
    action, _, amount = what.partition(":")
    is_due = not turn or _passed[name] + 1 == int(turn)
    return data[: int(amount)] if action == "torn" and is_due else data


def _fail(name: str, asked: str) -> None:
    what, _, turn = asked.partition("@")
    action, _, amount = what.partition(":")
    if turn:
        _passed[name] += 1
        if _passed[name] != int(turn):
            return
    if action in {"kill", "torn"}:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "raise":
        raise StorageError(f"failpoint {name!r}")
    elif action in _ERRORS:
        raise _Refused(_ERRORS[action], os.strerror(_ERRORS[action]), name)
    elif action == "sleep":
        time.sleep(int(amount) / 1000)
    else:
        raise ConfigError(f"EKR_FAILPOINTS: {asked!r} is no action", hint="kill, raise, sleep:ms, enospc, eio or torn:bytes")
