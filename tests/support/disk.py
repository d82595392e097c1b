"""The calls a file layer makes of the system, told to a test before they happen."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["SYSTEM_CALLS", "watch"]

SYSTEM_CALLS = ("open", "write", "fsync", "replace", "mkdir", "ftruncate")


def watch(monkeypatch: pytest.MonkeyPatch, before: Callable[[str, tuple[Any, ...]], None]) -> None:
    """Tells ``before`` of every call of the system that writing makes; what it raises, the call raises.

    Args:
        monkeypatch: Undoes it.
        before: Is given the name and the arguments.
    """
    for name in SYSTEM_CALLS:
        original = getattr(os, name)

        def watched(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
            before(_name, args)
            return _original(*args, **kwargs)

        monkeypatch.setattr(os, name, watched)
