"""How many examples a property test tries."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["THOROUGH", "USUAL", "examples"]

USUAL, THOROUGH = 100, 2000
"""Examples of a property that names no number, in an ordinary run and under ``--long``."""


def examples(usual: int) -> settings:
    """So many in an ordinary run, and twenty times as many under ``--long``."""
    return settings(max_examples=usual * settings().max_examples // USUAL)
