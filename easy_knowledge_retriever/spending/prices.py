"""What models cost, as the user says: this library knows no price of its own."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.types import Usage

__all__ = ["FREE", "Price", "PriceChoice", "price_table"]

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs, in whatever currency the user counts.

    Raises:
        ConfigError: A number is negative, infinite or none.
    """

    input: float = 0.0
    """A million tokens sent: prompts, or the texts an embedding model reads."""
    output: float = 0.0
    """A million tokens answered."""
    cached_input: float | None = None
    """A million prompt tokens that the provider had in its own cache; None: the same as ``input``."""
    rerank_call: float = 0.0
    """One request to a reranker."""

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
            if not usable and not (spec.name == "cached_input" and value is None):
                raise ConfigError(f"the price {spec.name} is {value!r}", hint="give a number of at least 0")

    def of(self, usage: Usage) -> float:
        """What this usage of the model costs."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.prompt_tokens - usage.cached_prompt_tokens + usage.embedding_tokens
        tokens = self.input * fresh + cached * usage.cached_prompt_tokens + self.output * usage.completion_tokens
        return tokens / _MILLION + self.rerank_call * usage.rerank_calls


FREE: Final = Price()
"""The price of a model that runs here."""

PriceChoice = Mapping[str, Price | Mapping[str, float]] | str | Path | None
"""Model → price, or a TOML or JSON file that says the same."""


def price_table(prices: PriceChoice) -> Mapping[str, Price]:
    """Model → price.

    A file has a table for each model, with the fields of :class:`Price`::

        ["some-model"]
        input = 0.5
        output = 1.5

    Raises:
        ConfigError: The file cannot be read, or something in it is no price.
    """
    if prices is None:
        return MappingProxyType({})
    said = _read(Path(prices)) if isinstance(prices, str | Path) else prices
    return MappingProxyType({model: _price(model, price) for model, price in said.items()})


def _price(model: str, said: object) -> Price:
    if isinstance(said, Price):
        return said
    known = {spec.name for spec in fields(Price)}
    if not isinstance(said, Mapping) or not said.keys() <= known:
        raise ConfigError(f"the price of {model!r} cannot be used: {said!r}", hint=f"give {', '.join(sorted(known))}")
    return Price(**said)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        said = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as cause:  # both formats raise kinds of ValueError, as does text that is no UTF-8
        raise ConfigError(f"the prices in {str(path)!r} cannot be read: {cause}", hint="give a TOML or JSON file") from cause
    if not isinstance(said, Mapping):
        raise ConfigError(f"the prices in {str(path)!r} are no table of models", hint="a table for each model")
    return said
