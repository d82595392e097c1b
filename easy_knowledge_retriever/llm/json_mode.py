"""How a model is asked for JSON: by schema, as any object, or in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from easy_knowledge_retriever.llm.base import Completion, Message

__all__ = ["LADDER", "LAST_RUNG", "asked_for_json", "ignored_json", "response_format"]

LADDER = ("json_schema", "json_object", "text")
"""The ways, most exact first."""
LAST_RUNG = len(LADDER) - 1


def response_format(schema: Mapping[str, Any], rung: int) -> dict[str, Any]:
    """The field of the request that asks for JSON; none on the last rung."""
    kind = LADDER[rung]
    if kind == "json_schema":
        return {"response_format": {"type": kind, "json_schema": {"name": "answer", "schema": schema, "strict": True}}}
    return {"response_format": {"type": kind}} if kind == "json_object" else {}


def asked_for_json(messages: Sequence[Message], schema: Mapping[str, Any], rung: int) -> Sequence[Message]:
    """The messages, with the schema in words where the endpoint does not take it as data."""
    if LADDER[rung] == "json_schema":
        return messages
    wish = f"Answer with one JSON object and nothing else. It matches this JSON schema:\n{json.dumps(schema)}"
    return [*messages[:-1], Message(messages[-1].role, f"{messages[-1].content}\n\n{wish}")]


def ignored_json(completion: Completion) -> bool:
    """Whether a whole answer holds no object at all: the server passed over the wish. A cut one shows nothing."""
    return completion.finish_reason != "length" and "{" not in completion.text
