"""Adapts a chat request to what its endpoint takes: the names of fields, the room for an answer, the reasoning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from easy_knowledge_retriever.endpoints.faults import OutOfRoom, RequestRefused
from easy_knowledge_retriever.endpoints.features import Features
from easy_knowledge_retriever.errors import UpstreamError

__all__ = ["Sending", "adapted", "learn", "merged"]

logger = logging.getLogger("easy_knowledge_retriever")

_LEAST_ROOM = 4096
"""Tokens asked for when an answer had too little room."""
_MORE_ROOM = 4
"""How many times the room it had."""
_WITHOUT_THINKING: Mapping[str, Mapping[str, Any]] = {
    "shown": {"reasoning_effort": "none", "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    "hidden": {"reasoning_effort": "low"},
}
"""Fields that turn reasoning off, or down where it cannot be: of servers that show it, and of those that hide it."""


@dataclass(frozen=True, slots=True)
class Sending:
    """A request as it is sent, and what was changed since its first try. Each change is made once."""

    body: Mapping[str, Any]
    loud: Mapping[str, Any] | None = None
    """The same request with reasoning, if it was turned off for this try."""
    widened: bool = False


def adapted(sending: Sending, error: UpstreamError, known: Features) -> Sending | None:
    """The request as the endpoint may take it after this failure; None if there is nothing to change.

    Args:
        sending: What was sent.
        error: What came of it.
        known: Is told what the endpoint does not take.
    """
    body = sending.body
    if isinstance(error, OutOfRoom):
        return None if sending.widened else _with_room(body, error, known)
    if not isinstance(error, RequestRefused):
        return None
    if "max_tokens" in error.message and "max_tokens" in body:
        known.token_field = "max_completion_tokens"
        return replace(sending, body={**_without(body, "max_tokens"), known.token_field: body["max_tokens"]})
    if sending.loud is not None and error.is_about_content:
        known.keeps_thinking = True
        return Sending(sending.loud, widened=True)
    unwanted = next((field for field in ("stream_options", "temperature") if field in error.message and field in body), None)
    if unwanted is None:
        return None
    known.counts_streams &= unwanted != "stream_options"
    known.fixed_temperature |= unwanted == "temperature"
    return replace(sending, body=_without(body, unwanted))


def _with_room(body: Mapping[str, Any], error: OutOfRoom, known: Features) -> Sending:
    """The request once more with room for an answer, and without reasoning where that took it all."""
    had = int(body.get(known.token_field) or error.usage.completion_tokens)
    wider = {**body, known.token_field: max(_LEAST_ROOM, _MORE_ROOM * had)}
    fields = _WITHOUT_THINKING.get(error.thought)
    chosen = "reasoning_effort" in body or "chat_template_kwargs" in body.get("extra_body", {})
    if not fields or known.keeps_thinking or chosen:
        return Sending(wider, widened=True)
    return Sending(merged(wider, fields), loud=wider, widened=True)


def learn(sending: Sending, known: Features, where: str) -> None:
    """Remembers what made a model answer at last, so that the attempt that failed is paid for once only.

    Args:
        sending: What was answered.
        known: Is told.
        where: Model and address, for the log.
    """
    if sending.loud is not None:
        known.thinks = True
        known.without_thinking = {name: value for name, value in sending.body.items() if name in _WITHOUT_THINKING["shown"]}
        logger.warning("%s spent all its tokens on reasoning; documents are read without it from now on", where)
    elif sending.widened:
        known.room = max(known.room or 0, int(sending.body[known.token_field]))


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body with further fields, into ``extra_body`` beside what is there."""
    extra = {**body.get("extra_body", {}), **fields.get("extra_body", {})}
    return {**body, **fields} | ({"extra_body": extra} if extra else {})


def _without(body: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != field}
