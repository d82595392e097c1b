"""The questions inside a question, found by a language model."""

from __future__ import annotations

import logging
import re

from easy_knowledge_retriever.errors import UpstreamError
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.base import Parts, Splitter
from easy_knowledge_retriever.operations.decomposition import MOST_PARTS, split_question
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["DECOMPOSITION_FAILED", "LLMSplitter", "read_parts"]

logger = logging.getLogger("easy_knowledge_retriever")

DECOMPOSITION_FAILED = "decomposition_failed"
"""Named in ``degraded`` when the model gave no usable questions and the local way stood in."""
_PROMPTS = PromptSet()
_BULLET = re.compile(r"^(?:[-*•–]|\(?\d{1,2}[.):]|\(?[a-d][.)])\s+")
_QUOTES = "\"'`*“”«» \t"


class LLMSplitter(Splitter):
    """Asks a language model. Where it fails or gives no usable questions, the local way stands in, and the outcome says so.

    Args:
        model: The language model, with its wrappers around it.
        prompts: The prompts.
    """

    def __init__(self, model: LLMService, prompts: PromptSet = _PROMPTS) -> None:
        self._model = model
        self._prompts = prompts

    async def split(self, question: str) -> Parts:
        """At most four questions; the question itself if it asks one thing."""
        asked = self._prompts.decomposition_question.render(tag=digest(question)[:8], question=question)
        messages = (Message("system", self._prompts.decomposition_system.render()), Message("user", asked))
        try:
            completion = await self._model.complete(messages)
        except UpstreamError as error:
            logger.warning("a question is split at its joints only: %s", error.code)
            return Parts(split_question(question), (DECOMPOSITION_FAILED,))
        parts = read_parts(completion.text, question)
        if not parts:
            return Parts(split_question(question), (DECOMPOSITION_FAILED,))
        return Parts(parts)


def read_parts(text: str, question: str) -> tuple[str, ...]:
    """The questions a model wrote, one a line; empty if none of the lines speaks of what was asked.

    Args:
        text: What the model wrote.
        question: What was asked.
    """
    wanted = set(analyze(question))
    parts = []
    for line in text[:20_000].splitlines():
        part = _BULLET.sub("", line.strip()).strip(_QUOTES)
        if part and len(part) <= len(question) + 200 and wanted.intersection(analyze(part)):
            parts.append(part)
    return tuple(dict.fromkeys(parts))[:MOST_PARTS]
