"""A follow-up as a question that can be understood alone, written by a language model."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Mapping, Sequence

from easy_knowledge_retriever.errors import UpstreamError
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.base import Rewriter, Rewritten
from easy_knowledge_retriever.operations.rewriting import with_earlier_names
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["REWRITE_FAILED", "LLMRewriter", "read_rewritten"]

logger = logging.getLogger("easy_knowledge_retriever")

REWRITE_FAILED = "rewrite_failed"
"""Named in ``degraded`` when the model gave no usable question and the names of the last one stood in."""
_PROMPTS = PromptSet()
_TURNS = 6
"""Turns shown to the model, the last ones."""
_LONGEST_TURN = 1500
"""Characters shown of each."""
_KNOWN = 0.5
"""Share of the terms of a rewritten question that the question or the conversation must hold."""
_LABEL = re.compile(r"^(?:\w+ )?question\s*:", re.IGNORECASE)
_QUOTES = "\"'`*“”«» \t"
_QUESTION_MARKS = "?？؟;"
"""The last is the Greek one, where a question ends with it."""


class LLMRewriter(Rewriter):
    """Asks a language model. Where it fails or gives no usable question, the local way stands in, and the outcome says so.

    Args:
        model: The language model, with its wrappers around it.
        prompts: The prompts.
    """

    def __init__(self, model: LLMService, prompts: PromptSet = _PROMPTS) -> None:
        self._model = model
        self._prompts = prompts

    async def rewrite(self, question: str, history: Sequence[Mapping[str, str]]) -> Rewritten:
        """The question as it can be understood alone. Without a conversation no model is asked."""
        said = [turn for turn in history if turn["role"] in {"user", "assistant"} and turn["content"].strip()]
        if not said:
            return Rewritten(question)
        local = with_earlier_names(question, said)
        try:
            completion = await self._model.complete(self._prompt(question, said[-_TURNS:]))
        except UpstreamError as error:
            logger.warning("a follow-up is searched with the names of the question before it: %s", error.code)
            return Rewritten(local, (REWRITE_FAILED,))
        rewritten = read_rewritten(completion.text, question, " ".join(turn["content"] for turn in said))
        if not rewritten:
            return Rewritten(local, (REWRITE_FAILED,))
        return Rewritten(rewritten)

    def _prompt(self, question: str, history: Sequence[Mapping[str, str]]) -> tuple[Message, ...]:
        prompts = self._prompts
        turns = [
            prompts.rewriting_turn.render(role=turn["role"], text=html.escape(turn["content"][:_LONGEST_TURN], quote=False))
            for turn in history
        ]
        conversation = "\n".join(turns)
        tag = digest(f"{question}\n{conversation}")[:8]
        asked = prompts.rewriting_question.render(tag=tag, conversation=conversation, question=question)
        return (Message("system", prompts.rewriting_system.render()), Message("user", asked))


def read_rewritten(text: str, question: str, conversation: str) -> str:
    """The question a model wrote; empty if it is none: several lines, an answer, far too long, or about something else.

    Args:
        text: What the model wrote.
        question: What was asked.
        conversation: Everything said before.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) != 1:
        return ""
    rewritten = _LABEL.sub("", lines[0].strip(_QUOTES)).strip(_QUOTES)
    if not rewritten or len(rewritten) > 2 * len(question) + 300:
        return ""
    if question.rstrip().endswith(tuple(_QUESTION_MARKS)) and not rewritten.endswith(tuple(_QUESTION_MARKS)):
        return ""
    terms = set(analyze(rewritten))
    known = terms & {*analyze(question), *analyze(conversation)}
    return rewritten if terms and len(known) >= _KNOWN * len(terms) else ""
