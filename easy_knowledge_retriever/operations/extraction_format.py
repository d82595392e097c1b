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

__all__ = ["ParsedExtraction", "Records", "as_weight", "parse_extraction"]

LONGEST_TEXT = 2 * 1024 * 1024
LONGEST_NAME = 256
LONGEST_DESCRIPTION = 4000
MOST_RECORDS = 100
MOST_KEYWORDS = 8
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
    """Whether the answer came to its end: the end mark was there, or the JSON was whole."""
    mended: tuple[str, ...] = ()
    """What had to be mended to read it."""

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
    records, ended = Records(), False
    for line in lines:
        if _END.fullmatch(line):
            ended = True
        else:
            _read_line(line, records)
    return records.parsed(ended=ended)


def _read_line(line: str, records: Records) -> None:
    kind, fields = _fields(line)
    if kind == "entity":
        if len(fields) < 2:
            records.reject()
        else:
            records.entity(fields[0], fields[1], " | ".join(fields[2:]))
    elif kind:
        if len(fields) < 3:
            records.reject()
        else:
            keywords, weight, rest = _relation_fields(fields[2:])
            records.relation(fields[0], fields[1], keywords, weight, " | ".join(rest))


class Records:
    """Takes the records of one answer, whatever form they were written in, and makes them fit to be kept."""

    def __init__(self) -> None:
        self._entities: dict[str, EntityMention] = {}
        self._relations: list[RelationMention] = []
        self._rejected = 0

    def reject(self) -> None:
        """Counts something that should be a record and is none."""
        self._rejected += 1

    def entity(self, name: str, kind: str, description: str) -> None:
        """Takes an entity; of two of one name the longer description stays."""
        name = _name(name)
        if not name or self._is_full:
            self.reject()
            return
        mention = EntityMention(name, _type(kind), _description(description))
        known = self._entities.get(name.casefold())
        if known is None or len(known.description) < len(mention.description):
            self._entities[name.casefold()] = mention

    def relation(self, source: str, target: str, keywords: Iterable[str], weight: float, description: str) -> None:
        """Takes a relation between two names that differ."""
        source, target = _name(source), _name(target)
        if not source or not target or source.casefold() == target.casefold() or self._is_full:
            self.reject()
            return
        words = tuple(dict.fromkeys(word for part in keywords for word in _KEYWORD.split(_clean(part)) if word))[:MOST_KEYWORDS]
        bounded = 1.0 if math.isnan(weight) else min(MOST_WEIGHT, max(LEAST_WEIGHT, weight))
        self._relations.append(RelationMention(source, target, _description(description), words, bounded))

    @property
    def _is_full(self) -> bool:
        return len(self._entities) + len(self._relations) >= MOST_RECORDS

    def parsed(self, *, ended: bool, mended: Iterable[str] = ()) -> ParsedExtraction:
        """All of them, with an entity for each end of a relation."""
        spellings = {name: mention.name for name, mention in self._entities.items()}
        entities = list(self._entities.values())
        for relation in self._relations:
            for end in (relation.source, relation.target):
                if end.casefold() not in spellings:
                    spellings[end.casefold()] = end
                    entities.append(EntityMention(end))
        relations = tuple(
            RelationMention(spellings[r.source.casefold()], spellings[r.target.casefold()], r.description, r.keywords, r.weight)
            for r in self._relations
        )
        return ParsedExtraction(tuple(entities), relations, self._rejected, ended, tuple(mended))


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
        text = "".join(
            " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c) not in {"Cc", "Cf", "Cs"}
        )
    if "<" in text:
        text = _TAGS.sub(" ", text)
    return " ".join(text.split())


def _name(field: str) -> str:
    name = _clean(field).strip(_QUOTES)
    return name if len(name) <= LONGEST_NAME and any(c.isalnum() for c in name) else ""


def _type(field: str) -> str:
    kind = _clean(field).strip(_QUOTES)[:64]
    return kind if any(c.isalnum() for c in kind) else "UNKNOWN"


def _description(text: str) -> str:
    return _clean(text)[:LONGEST_DESCRIPTION]


def _relation_fields(fields: Sequence[str]) -> tuple[Sequence[str], float, Sequence[str]]:
    """Keywords, weight and description of a relation, whichever of them are there: a separator in a description splits it."""
    if len(fields) == 1:
        return (), 1.0, fields
    for position in (1, len(fields) - 1):
        weight = as_weight(fields[position])
        if weight is not None:
            return fields[:1], weight, [field for place, field in enumerate(fields) if place not in {0, position}]
    return fields[:1], 1.0, fields[1:]


def as_weight(text: str) -> float | None:
    """The number in a text; None if it holds none."""
    try:
        return float(text.strip(_QUOTES))
    except ValueError:
        return None
