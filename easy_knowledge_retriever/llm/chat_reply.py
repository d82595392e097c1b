"""Reads the answer to a chat request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from easy_knowledge_retriever.endpoints.faults import OutOfRoom
from easy_knowledge_retriever.errors import BadResponse, ContentRefused
from easy_knowledge_retriever.llm.base import Completion
from easy_knowledge_retriever.llm.reasoning import without_reasoning
from easy_knowledge_retriever.types import Usage

__all__ = ["LONGEST_ANSWER", "embedding_usage_of", "read_reply", "salvaged", "shows_reasoning", "storable", "usage_of"]

LONGEST_ANSWER = 2 * 1024 * 1024
"""Bytes read of one answer, and characters kept of it."""
_REASONING = ("reasoning_content", "reasoning")
_CONTENT = re.compile(r'"content"\s*:\s*"')
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


def read_reply(reply: Mapping[str, Any]) -> Completion:
    """The answer in a reply, without reasoning.

    Raises:
        ContentRefused: The model or its filter declined.
        OutOfRoom: Its budget was spent before it said anything.
        BadResponse: There is no text for another reason.
    """
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise BadResponse("the model answered no message")
    finish = str(choice.get("finish_reason") or "stop")
    content = message.get("content")
    if finish == "content_filter" or (message.get("refusal") and not content):
        raise ContentRefused("the model declined to answer")
    raw = content[:LONGEST_ANSWER] if isinstance(content, str) else ""
    text = without_reasoning(storable(raw))
    if text:
        if finish == "length" and raw.endswith("\n"):
            text += "\n"  # the last line is whole
        return Completion(text, finish, usage_of(reply))
    visible = bool(raw.strip()) or any(message.get(field) for field in _REASONING)
    if finish == "length":
        usage = usage_of(reply)
        raise OutOfRoom(
            f"the model answered no text within {usage.completion_tokens or 'its'} tokens",
            usage=usage,
            thought="shown" if visible else "hidden" if _reasoning_tokens(reply) else "no",
        )
    hint = "it ended while it was still reasoning: turn its reasoning off" if visible else ""
    raise BadResponse("the model answered no text", hint=hint)


def shows_reasoning(reply: Mapping[str, Any]) -> bool:
    """Whether a reply holds reasoning, or says that it was paid for."""
    match reply.get("choices"):
        case [{"message": {} as message}, *_]:
            content = message.get("content")
            begins = isinstance(content, str) and content.lstrip()[:7].lower() == "<think>"
            return begins or any(message.get(field) for field in _REASONING) or _reasoning_tokens(reply) > 0
        case _:
            return False


def usage_of(reply: Mapping[str, Any]) -> Usage:
    """What a reply says it cost; zero where it does not say."""
    counts = _mapping(reply.get("usage"))
    details = _mapping(counts.get("prompt_tokens_details"))
    return Usage(
        llm_calls=1,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        cached_prompt_tokens=_count(details.get("cached_tokens")) or _count(counts.get("prompt_cache_hit_tokens")),
    )


def embedding_usage_of(reply: Mapping[str, Any]) -> Usage:
    """What a reply of an embedding endpoint says it cost; zero where it does not say."""
    counts = _mapping(reply.get("usage"))
    tokens = _count(counts.get("prompt_tokens")) or _count(counts.get("total_tokens"))
    return Usage(embedding_calls=1, embedding_tokens=tokens)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def storable(text: str) -> str:
    """The text, where half a character (a lone surrogate, which JSON can spell) is replaced: nothing could store it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def salvaged(beginning: str) -> Mapping[str, Any]:
    """A reply made of the beginning of one that is too long to be read whole: its text so far, as if cut by the model.

    Raises:
        ValueError: The beginning holds no text.
    """
    found = _CONTENT.search(beginning)
    if not found:
        raise ValueError("the beginning of the answer holds no text")
    text, _ = json.JSONDecoder(strict=False).raw_decode(_HALF_ESCAPE.sub(r"\1", beginning) + '"', found.end() - 1)
    return {"choices": [{"message": {"content": text}, "finish_reason": "length"}]}


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _reasoning_tokens(reply: Mapping[str, Any]) -> int:
    match reply.get("usage"):
        case {"completion_tokens_details": {"reasoning_tokens": count}}:
            return _count(count)
        case _:
            return 0
