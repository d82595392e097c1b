"""A follow-up as a question that can be searched with: by the names of the question before it, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from easy_knowledge_retriever.operations.base import Rewriter, Rewritten
from easy_knowledge_retriever.operations.keywords import follow_up_names

__all__ = ["LocalRewriter", "with_earlier_names"]


class LocalRewriter(Rewriter):
    """Puts the names of the last question of the user before a follow-up that leaves them out."""

    async def rewrite(self, question: str, history: Sequence[Mapping[str, str]]) -> Rewritten:
        """The question with those names before it; itself where it stands alone."""
        return Rewritten(with_earlier_names(question, history))


def with_earlier_names(question: str, history: Sequence[Mapping[str, str]]) -> str:
    """A follow-up with the names of the last question before it, so that it can be searched with.

    Args:
        question: What is asked now.
        history: Turns of ``role`` and ``content``.
    """
    earlier = next((turn["content"] for turn in reversed(history) if turn["role"] == "user"), "")
    names = follow_up_names(question, earlier) if earlier else ()
    return f"{', '.join(names)}: {question}" if names else question
