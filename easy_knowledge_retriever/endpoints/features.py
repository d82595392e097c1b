"""What was found out about an endpoint: once a model and address, for every service of the process that calls it.

The limiters are the other thing a process shares, for the same reason: what an endpoint can do is a property of the
endpoint, and a second service should not pay to find it out again. An entry holds a few small values and no connection.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Features", "features_of", "forget_features"]

_MOST = 1000
"""Endpoints remembered; beyond it the one that was asked for longest ago is found out again."""


@dataclass(slots=True)
class Features:
    """What is known by now. The values it begins with are what is tried first."""

    json_rung: int = 0
    """How JSON is asked for: the place in ``llm.json_mode.LADDER``."""
    token_field: str = "max_tokens"
    """Name of the ceiling of an answer."""
    counts_streams: bool = True
    """Whether it takes the wish to tell at the end of a stream what it took."""
    fixed_temperature: bool = False
    """Whether a temperature is refused."""
    room: int | None = None
    """Tokens to ask for where the caller names no ceiling: what the server gives by itself was too little."""
    thinks: bool = False
    """Whether it was seen to reason before it answers."""
    without_thinking: Mapping[str, Any] | None = None
    """Fields that made a model answer that had spent its whole budget on reasoning."""
    keeps_thinking: bool = False
    """Whether it refused those fields."""
    batch: int | None = None
    """Most texts it takes in one request."""
    encoding: str | None = None
    """Encoding of vectors that it takes, where it refused the one asked for."""
    style: str | None = None
    """Shape of a rerank request that it takes."""
    longest_text: int | None = None
    """Characters of a text that it takes."""


_lock = threading.Lock()
_known: OrderedDict[tuple[str, str, str], Features] = OrderedDict()


def features_of(kind: str, url: str, model: str) -> Features:
    """What the process knows of a model at an address; the same object for all who ask.

    Args:
        kind: ``llm``, ``embedding`` or ``rerank``.
        url: Address.
        model: Name of the model.
    """
    key = (kind, url, model)
    with _lock:
        found = _known.setdefault(key, Features())
        _known.move_to_end(key)
        while len(_known) > _MOST:
            _known.popitem(last=False)
        return found


def forget_features() -> None:
    """Forgets all of it, as after a server was exchanged. A service that was built before keeps what it knows."""
    with _lock:
        _known.clear()
