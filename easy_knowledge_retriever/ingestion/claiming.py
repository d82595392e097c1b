"""Who may work at what, over all processes that have the base open.

A document is claimed by whoever ingests, retries or deletes it, from beginning to end. The commit is claimed from the check of
a plan to its transaction: whoever finds the base changed plans anew while nobody else can change it, so everybody gets on.
Whoever takes both takes the document first.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase

__all__ = ["claimed_commit", "claimed_document"]


def claimed_commit(kb: KnowledgeBase) -> AbstractAsyncContextManager[bool]:
    """The right to change what documents share, for the block.

    Raises:
        WorkingDirLockedError: The process that has it is stuck.
    """
    return kb.claim("commit")


def claimed_document(kb: KnowledgeBase, document_id: str, *, wait: float | None = None) -> AbstractAsyncContextManager[bool]:
    """The right to work at a document, for the block, which is told whether it has it.

    Args:
        kb: The base.
        document_id: Its id.
        wait: Seconds; as long as another one works at it if not given.

    Raises:
        WorkingDirLockedError: The process that has it is stuck.
    """
    return kb.claim(f"document/{document_id}", wait=wait)
