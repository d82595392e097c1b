"""What a language model behind an endpoint can do, found out by asking."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from easy_knowledge_retriever.endpoints.faults import OutOfRoom
from easy_knowledge_retriever.errors import ContextTooLong, UpstreamTimeout
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.json_mode import LADDER
from easy_knowledge_retriever.llm.service import OpenAILLMService

__all__ = ["ContextProbe", "ModelProbe", "probe_context", "probe_model"]

_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_ROOM = 200
_LINE = "Entry {number} of this list says nothing that matters, and is here to make it longer."
_TOKENS_A_LINE = 20
"""About, in the vocabularies in use."""
_FIRST, _LAST = "marzipan", "turpentine"
_SHARE = 0.6
"""Of the tokens sent: a server that counts fewer has cut the prompt."""


@dataclass(frozen=True, slots=True)
class ModelProbe:
    """How a model answers."""

    json: Literal["json_schema", "json_object", "text", "none"]
    """The way in which it gives JSON."""
    thinks: bool
    """Whether it was seen to reason before it answers."""
    token_field: str
    """Name of the ceiling of an answer."""


@dataclass(frozen=True, slots=True)
class ContextProbe:
    """What became of a long prompt."""

    tokens: int
    """About how many were sent."""
    outcome: Literal["read", "cut", "refused", "late", "unclear"]
    """``cut``: the server left out a part without a word."""
    counted: int = 0
    """How many the server says it read; 0 if it does not say."""


async def probe_model(service: OpenAILLMService) -> ModelProbe:
    """Asks for a word as JSON, and looks at how it comes. A few requests at most.

    Args:
        service: The model.

    Raises:
        UpstreamError: It does not answer.
    """
    asked = (Message("user", "Answer with the word yes."),)
    completion = await service.complete(asked, max_tokens=_ROOM, json_schema=_SCHEMA)
    known = service.features
    how = LADDER[known.json_rung] if _is_object(completion.text) else "none"
    return ModelProbe(how, known.thinks, known.token_field)  # type: ignore[arg-type]  # one of the ladder


def _is_object(text: str) -> bool:
    begin, end = text.find("{"), text.rfind("}")
    try:
        return isinstance(json.loads(text[begin : end + 1]), dict)
    except ValueError:
        return False


async def probe_context(service: OpenAILLMService, tokens: int) -> ContextProbe:
    """Sends a prompt of about so many tokens with a word at its beginning and one at its end, and asks for both.

    Some servers read a few thousand tokens by default and leave out the rest of a prompt, most often its beginning,
    without an error: instructions and passages are lost, and answers are worse for no visible reason.

    Args:
        service: The model.
        tokens: Length of the prompt.

    Raises:
        UpstreamError: It does not answer at all.
    """
    lines = [_LINE.format(number=number) for number in range(1, tokens // _TOKENS_A_LINE + 1)]
    wish = "Write the first code word and the last code word of this message, and nothing else."
    parts = (f"The first code word is {_FIRST}.", *lines, f"The last code word is {_LAST}.", wish)
    try:
        completion = await service.complete((Message("user", "\n".join(parts)),), max_tokens=_ROOM)
    except ContextTooLong:
        return ContextProbe(tokens, "refused")
    except UpstreamTimeout:
        return ContextProbe(tokens, "late")
    except OutOfRoom:
        return ContextProbe(tokens, "unclear")
    counted, text = completion.usage.prompt_tokens, completion.text.lower()
    if 0 < counted < _SHARE * tokens:
        return ContextProbe(tokens, "cut", counted)
    if _FIRST in text:
        return ContextProbe(tokens, "read", counted)
    return ContextProbe(tokens, "cut" if _LAST in text else "unclear", counted)
