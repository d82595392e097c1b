"""Metadata as the command takes it: ``KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.types import MetadataValue

__all__ = ["parsed"]


def parsed(pairs: Iterable[str]) -> dict[str, MetadataValue]:
    """The pairs as metadata: numbers and ``true`` or ``false`` are taken as such, anything else is text.

    Raises:
        ConfigError: One is no pair.
    """
    found: dict[str, MetadataValue] = {}
    for text in pairs:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise ConfigError(f"{text!r} is not KEY=VALUE", hint="such as --meta year=2031")
        found[key] = _value(value)
    return found


def _value(text: str) -> MetadataValue:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
