"""Reads what a model answered to LightRAG, in the two forms its versions asked for, or as JSON. Any text in, records out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from easy_knowledge_retriever.operations.extraction_format import Records, as_weight
from easy_knowledge_retriever.operations.extraction_json import parse_json_extraction

__all__ = ["take_replies"]

_FIELD: Final = re.compile(r"<\|#?\|>|<\|#?>|<#?\|>|<SEP>")
"""``<|>`` up to 1.4.5, ``<|#|>`` since, and what models make of them."""
_RECORD: Final = re.compile(r"##|\n|<\|COMPLETE\|>")
_FRAME: Final = "()\"'`* \t\r"
_FIELDS_OF_AN_ENTITY: Final = 3
_FIELDS_OF_A_RELATION: Final = 4
_FIELDS_WITH_A_WEIGHT: Final = 5


def take_replies(replies: Iterable[str], records: Records) -> None:
    """Takes entities and relations from the replies about one chunk, the first and those of the gleaning. Never raises."""
    for reply in replies:
        if reply.lstrip().startswith(("{", "[", "```json")):
            _take_json(reply, records)
        else:
            for fields in _lines(reply):
                _take(fields, records)


def _lines(reply: str) -> Iterator[list[str]]:
    for line in _RECORD.split(reply):
        fields = [field.strip(_FRAME) for field in _FIELD.split(line)]
        if len(fields) > 1:
            yield fields


def _take(fields: Sequence[str], records: Records) -> None:
    kind, rest = fields[0].casefold(), fields[1:]
    if kind == "entity" and len(rest) >= _FIELDS_OF_AN_ENTITY:
        records.entity(rest[0], rest[1], " ".join(rest[2:]))
    elif kind in {"relation", "relationship"} and len(rest) >= _FIELDS_OF_A_RELATION:
        source, target, *said = rest
        weight = as_weight(said[-1]) if len(rest) >= _FIELDS_WITH_A_WEIGHT else None
        if weight is None:  # since 1.4.5: keywords, description
            records.relation(source, target, [said[0]], 1.0, " ".join(said[1:]))
        else:  # before: description, keywords, weight
            records.relation(source, target, [said[-2]], weight, " ".join(said[:-2]))
    elif kind in {"entity", "relation", "relationship"}:
        records.reject()


def _take_json(reply: str, records: Records) -> None:
    found = parse_json_extraction(reply)
    for entity in found.entities:
        records.entity(entity.name, entity.type, entity.description)
    for relation in found.relations:
        records.relation(relation.source, relation.target, relation.keywords, relation.weight, relation.description)
