"""Reads and writes entities and relations as JSON, and any reply in whichever of the two forms it was written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from easy_knowledge_retriever.operations.extraction_format import (
    LONGEST_TEXT,
    ParsedExtraction,
    Records,
    as_weight,
    parse_extraction,
)
from easy_knowledge_retriever.operations.json_reading import Json, read_json
from easy_knowledge_retriever.settings import ExtractionFormat
from easy_knowledge_retriever.types import EntityMention, RelationMention

__all__ = ["SCHEMA", "is_readable", "parse_json_extraction", "parse_reply", "written"]

_TEXT: Final = {"type": "string"}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "entities": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _TEXT, "type": _TEXT, "description": _TEXT},
                "required": ["name", "type", "description"],
                "additionalProperties": False,
            },
        },
        "relations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "source": _TEXT,
                    "target": _TEXT,
                    "keywords": {"type": "array", "items": _TEXT},
                    "weight": {"type": "number"},
                    "description": _TEXT,
                },
                "required": ["source", "target", "keywords", "weight", "description"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["entities", "relations"],
    "additionalProperties": False,
}
"""What a model is asked for in JSON mode."""

_ENTITIES: Final = frozenset({"entities", "nodes"})
_RELATIONS: Final = frozenset({"relations", "relationships", "edges"})
_FIELDS: Final[Mapping[str, str]] = {
    "entity": "name", "entity_name": "name",
    "entity_type": "type",
    "from": "source", "subject": "source", "source_entity": "source", "head": "source",
    "to": "target", "object": "target", "target_entity": "target", "tail": "target",
    "keyword": "keywords", "relation": "keywords", "predicate": "keywords", "relationship": "keywords",
    "strength": "weight",
}  # fmt: skip
"""Names that models give to fields, and ours."""


def parse_reply(text: str, *, cut: bool = False, form: ExtractionFormat = "lines") -> ParsedExtraction:
    """The records of a reply. Never raises; linear in the length of the text.

    Args:
        text: The reply.
        cut: Whether it was cut off.
        form: What was asked for. A reply that holds nothing in this form is read in the other one.
    """
    readers: Sequence[Callable[..., ParsedExtraction]] = (parse_extraction, parse_json_extraction)
    first, second = readers if form == "lines" else readers[::-1]
    parsed = first(text, cut=cut)
    if not parsed.is_empty or parsed.ended:
        return parsed
    other = second(text, cut=cut)
    return parsed if other.is_empty and not other.ended else other


def is_readable(text: str) -> bool:
    """Whether a reply is worth keeping: it has records, or says itself that there are none."""
    parsed = parse_reply(text)
    return not parsed.is_empty or parsed.ended


def parse_json_extraction(text: str, *, cut: bool = False) -> ParsedExtraction:
    """The records of a reply in JSON: ``{"entities": [...], "relations": [...]}``, or a list of records.

    Args:
        text: The reply.
        cut: Whether it was cut off; that shows in the text itself.
    """
    read = read_json(text[:LONGEST_TEXT])
    records, known = Records(), False
    for number, value in enumerate(read.values, start=1):
        is_cut = read.cut and number == len(read.values)
        for kind, items in _lists(value, is_cut=is_cut):
            known = True
            for item in items:
                _take(records, kind, item)
    return records.parsed(ended=known and not read.cut and not cut, mended=read.mended)


def _lists(value: Json, *, is_cut: bool) -> Iterator[tuple[str, Sequence[Json]]]:
    """The lists of records in a value, each with what it says its records are; a single record is a list of one."""
    if isinstance(value, list):
        yield "", value
        return
    if not isinstance(value, dict):
        return
    found = [(_kind_of(key), items) for key, items in value.items() if _kind_of(key) and isinstance(items, list)]
    if found:
        yield from found
    elif inner := [one for one in value.values() if isinstance(one, dict) and any(map(_kind_of, one))]:
        for one in inner:
            yield from _lists(one, is_cut=is_cut)
    elif not is_cut and _fields(value).keys() & {"name", "source"}:
        yield "", [value]


def _kind_of(key: str) -> str:
    plain = key.strip().casefold()
    return "entity" if plain in _ENTITIES else "relation" if plain in _RELATIONS else ""


def _take(records: Records, kind: str, item: Json) -> None:
    if not isinstance(item, dict):
        records.reject()
        return
    fields = _fields(item)
    if kind == "relation" or (not kind and "source" in fields):
        said = [name for name in ("keywords", "weight", "description") if name in fields]
        if not said or not {"source", "target"} <= fields.keys():
            records.reject()
            return
        weight = as_weight(_text(fields.get("weight", 1.0)))
        records.relation(
            _text(fields["source"]),
            _text(fields["target"]),
            _texts(fields.get("keywords")),
            1.0 if weight is None else weight,
            _text(fields.get("description")),
        )
    elif "name" in fields and fields.keys() & {"type", "description"}:
        records.entity(_text(fields["name"]), _text(fields.get("type")), _text(fields.get("description")))
    else:
        records.reject()


def _fields(item: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of a record under our names; a field under its own name goes before one under another."""
    plain = {key.strip().casefold(): value for key, value in item.items()}
    return {_FIELDS[key]: value for key, value in plain.items() if key in _FIELDS} | {
        key: value for key, value in plain.items() if key not in _FIELDS
    }


def _text(value: Json) -> str:
    """A value as text; what is no scalar says nothing."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _texts(value: Json) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)]


def written(entities: Iterable[EntityMention], relations: Iterable[RelationMention], form: ExtractionFormat) -> str:
    """These records as a model should write them."""
    if form == "json":
        return json.dumps(
            {
                "entities": [{"name": e.name, "type": e.type, "description": e.description} for e in entities],
                "relations": [
                    {
                        "source": r.source,
                        "target": r.target,
                        "keywords": list(r.keywords),
                        "weight": _plain(r.weight),
                        "description": r.description,
                    }
                    for r in relations
                ],
            },
            ensure_ascii=False,
        )
    lines = [f"E | {e.name} | {e.type} | {e.description}" for e in entities]
    lines += [f"R | {r.source} | {r.target} | {', '.join(r.keywords)} | {_plain(r.weight)} | {r.description}" for r in relations]
    return "\n".join([*lines, "END"])


def _plain(weight: float) -> float:
    """A whole number without its point."""
    return int(weight) if math.isfinite(weight) and weight == int(weight) else weight
