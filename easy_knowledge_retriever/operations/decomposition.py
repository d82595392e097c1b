"""Splitting a question that asks several things, without a model."""

from __future__ import annotations

import re

from easy_knowledge_retriever.operations.base import Parts, Splitter

__all__ = ["MOST_PARTS", "LocalSplitter", "split_question"]

_SENTENCE = re.compile(r"(?<=[?;])\s+")
_ASKS = (
    r"what|when|where|which|who|whom|whose|why|how|is|are|was|were|does|do|did|can|must|should|"
    r"que|quel|quelle|quels|quelles|quand|où|qui|pourquoi|comment|combien|est-ce|doit|peut"
)
_JOINED = re.compile(rf",?\s+(?:and|et)\s+(?=(?:{_ASKS})\b)", re.IGNORECASE)
MOST_PARTS = 4


class LocalSplitter(Splitter):
    """Splits a question at its joints, see :func:`split_question`."""

    async def split(self, question: str) -> Parts:
        """Its parts."""
        return Parts(split_question(question))


def split_question(question: str) -> tuple[str, ...]:
    """The questions inside a question: at question marks, semicolons, and where "and" is followed by a question word.

    Args:
        question: What was asked.

    Returns:
        At most four parts, in order; the question itself if it asks one thing.
    """
    parts = [part.strip() for sentence in _SENTENCE.split(question) for part in _JOINED.split(sentence)]
    whole = tuple(dict.fromkeys(part for part in parts if len(part.split()) >= 2))
    return whole[:MOST_PARTS] if len(whole) > 1 else (question,)
