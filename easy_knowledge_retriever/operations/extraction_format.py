"""Reads the list of entities and relations that a model wrote. Total: any text in, records and diagnostics out.

The form is one record a line (``E | name | type | description``), so that an answer cut anywhere keeps every line before
the cut. Models stray from it in known ways; those are read too, and what cannot be read is counted.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.types import EntityMention, RelationMention

__all__ = ["ParsedExtraction", "is_readable", "parse_extraction"]

LONGEST_TEXT = 2 * 1024 * 1024
LONGEST_NAME = 256
LONGEST_DESCRIPTION = 4000
MOST_RECORDS = 100
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 10.0

_SEPARATOR = re.compile(r"\s*(?:<\|>|\||｜|\t)\s*")
_OTHER_SEPARATOR = re.compile(r"\s*(?:;;|##|\s::\s|;)\s*")
_DECORATION = re.compile(r"^(?:[\s>*•`({\[\"'-]|\d{1,3}[.)]\s)+")
_KINDS = {"e": "entity", "entity": "entity", "r": "relation", "relation": "relation", "relationship": "relation"}
_END = re.compile(r"\W*(?:END|<\|COMPLETE\|>|DONE)\W*", re.IGNORECASE)
_TRAILING = "\"'`*)}] \t"
_QUOTES = "\"'`*“”«»‘’ \t"
_KEYWORD = re.compile(r"\s*[,;、，]\s*")
_TAGS = re.compile(r"<[^<>]{1,64}>")


@dataclass(frozen=True, slots=True)
class ParsedExtraction:
    """What could be read."""

    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    rejected: int = 0
    """Lines that look like records and are none, and records beyond the limits."""
    ended: bool = False
    """Whether the end mark was there."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no record."""
        return not self.entities and not self.relations


def parse_extraction(text: str, *, cut: bool = False) -> ParsedExtraction:
    """The records of a model's answer, in order. Never raises; linear in the length of the text.

    Entities of the same spelling are one. A relation to itself is dropped; an end that no record lists becomes an entity
    of type UNKNOWN.

    Args:
        text: The answer.
        cut: Whether it was cut off: a last line without its line break is then not trusted.
    """
    text = text[:LONGEST_TEXT].lstrip("\ufeff")
    lines = text.splitlines()
    if cut and lines and not text.endswith("\n"):
        lines.pop()
    reader = _Reader()
    for line in lines:
        if _END.fullmatch(line):
            reader.ended = True
        else:
            reader.read(line)
    return reader.result()


def is_readable(text: str) -> bool:
    """Whether an answer is worth keeping: it has records, or says itself that there are none."""
    parsed = parse_extraction(text)
    return not parsed.is_empty or parsed.ended


class _Reader:
    """Collects records line by line."""

    def __init__(self) -> None:
        self.entities: dict[str, EntityMention] = {}
        self.relations: list[RelationMention] = []
        self.rejected = 0
        self.ended = False

    def read(self, line: str) -> None:
        kind, fields = _fields(line)
        if not kind:
            return
        full = len(self.entities) + len(self.relations) >= MOST_RECORDS
        if full or not (self._entity(fields) if kind == "entity" else self._relation(fields)):
            self.rejected += 1

    def _entity(self, fields: Sequence[str]) -> bool:
        name = _name(fields[0]) if fields else ""
        if not name or len(fields) < 2:
            return False
        mention = EntityMention(name, _type(fields[1]), _description(fields[2:]))
        known = self.entities.get(name.casefold())
        if known is None or len(known.description) < len(mention.description):
            self.entities[name.casefold()] = mention
        return True

    def _relation(self, fields: Sequence[str]) -> bool:
        if len(fields) < 3:
            return False
        source, target = _name(fields[0]), _name(fields[1])
        if not source or not target or source.casefold() == target.casefold():
            return False
        keywords, weight, rest = _relation_fields(fields[2:])
        self.relations.append(RelationMention(source, target, _description(rest), keywords, weight))
        return True

    def result(self) -> ParsedExtraction:
        spellings = {name: mention.name for name, mention in self.entities.items()}
        entities = list(self.entities.values())
        for relation in self.relations:
            for end in (relation.source, relation.target):
                if end.casefold() not in spellings:
                    spellings[end.casefold()] = end
                    entities.append(EntityMention(end))
        relations = tuple(
            RelationMention(spellings[r.source.casefold()], spellings[r.target.casefold()], r.description, r.keywords, r.weight)
            for r in self.relations
        )
        return ParsedExtraction(tuple(entities), relations, self.rejected, self.ended)


def _fields(line: str) -> tuple[str, list[str]]:
    """Kind of a record and its fields; the kind is empty where the line is prose."""
    bare = _DECORATION.sub("", line).rstrip(_TRAILING)
    for separator in (_SEPARATOR, _OTHER_SEPARATOR):
        first, *fields = separator.split(bare)
        kind = _KINDS.get(first.strip(_QUOTES).rstrip(":").casefold(), "")
        if kind and fields:
            return kind, fields
    return "", []


def _clean(text: str) -> str:
    """The text on one line, without control and direction characters and tags."""
    if not text.isascii() or not text.isprintable():
        text = "".join(" " if c in "\t\u2028\u2029" else c for c in text if unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
    if "<" in text:
        text = _TAGS.sub(" ", text)
    return " ".join(text.split())


def _name(field: str) -> str:
    name = _clean(field).strip(_QUOTES)
    return name if len(name) <= LONGEST_NAME and any(c.isalnum() for c in name) else ""


def _type(field: str) -> str:
    kind = _clean(field).strip(_QUOTES)[:64]
    return kind if any(c.isalnum() for c in kind) else "UNKNOWN"


def _description(fields: Iterable[str]) -> str:
    """The rest of the fields as one text: a separator inside a description splits it."""
    return _clean(" | ".join(fields))[:LONGEST_DESCRIPTION]


def _relation_fields(fields: Sequence[str]) -> tuple[tuple[str, ...], float, Sequence[str]]:
    """Keywords, weight and description of a relation, whichever of them are there."""
    if len(fields) == 1:
        return (), 1.0, fields
    keywords = tuple(dict.fromkeys(word for word in _KEYWORD.split(_clean(fields[0])) if word))[:8]
    for position in (1, len(fields) - 1):
        weight = _weight(fields[position])
        if weight is not None:
            return keywords, weight, [field for place, field in enumerate(fields) if place not in {0, position}]
    return keywords, 1.0, fields[1:]


def _weight(field: str) -> float | None:
    try:
        value = float(field.strip(_QUOTES))
    except ValueError:
        return None
    return 1.0 if math.isnan(value) else min(MOST_WEIGHT, max(LEAST_WEIGHT, value))
