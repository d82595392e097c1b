"""The words by which texts refer to parts of themselves and of others, read from ``data/references.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

__all__ = ["RULES", "ReferenceRules"]


@dataclass(frozen=True, slots=True)
class ReferenceRules:
    """Words of all languages together; another language is more words in the file."""

    kinds: Mapping[str, str]
    """Kinds of numbered parts, as they are written in lower case → as their names begin."""
    ordinals: Mapping[str, str]
    """Words for a number behind a kind → the number."""
    joined_by: tuple[str, ...]
    """Words between two numbers."""
    either: tuple[str, ...]
    """Those of them that may stand behind a kind in the singular."""
    up_to: tuple[str, ...]
    """Words between the first and the last of a range."""
    inside: tuple[str, ...]
    """Kinds of smaller parts, between a part and its act."""
    of: tuple[str, ...]
    """Words between a part and its act."""
    acts: tuple[str, ...]
    act_bodies: tuple[str, ...]
    """Who made the act, as in ``(EU)``."""
    number_marks: tuple[str, ...]
    """Words for *number*."""
    treaties: tuple[str, ...]
    """Acts without a number."""
    means: tuple[str, ...]
    """Words between a term and its definition."""
    glossary_headings: tuple[str, ...]
    """Beginnings of folded words in headings of glossaries."""
    recitals: Mapping[str, str]
    """How a recital is called → the words that open the recitals."""
    adopted: tuple[str, ...]
    """Words that end them."""


def _read() -> ReferenceRules:
    file = resources.files("easy_knowledge_retriever.text") / "data" / "references.json"
    rules = json.loads(file.read_text(encoding="utf-8"))
    kinds = {written: name for name, forms in rules.pop("kinds").items() for written in forms}
    ordinals, recitals = MappingProxyType(rules.pop("ordinals")), MappingProxyType(rules.pop("recitals"))
    words = {key: tuple(value) for key, value in rules.items()}
    return ReferenceRules(kinds=MappingProxyType(kinds), ordinals=ordinals, recitals=recitals, **words)


RULES: Final = _read()
