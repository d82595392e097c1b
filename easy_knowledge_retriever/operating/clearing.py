"""Emptying a base, so that it is one that never held anything."""

from __future__ import annotations

from easy_knowledge_retriever.ingestion.stamps import Stamps, put_stamps, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase

__all__ = ["drop_all"]


async def drop_all(kb: KnowledgeBase) -> None:
    """Drops every row in one transaction; the base stays open and usable.

    What is about the store stays (which set of vectors is served, what is to be done again), and the number of changes goes on,
    so that a change that was planned before is not committed after.

    Raises:
        StorageError: A storage failed; where it has transactions, nothing was dropped.
    """
    async with kb.transaction() as inside:
        before = await stamps_of(inside)
        for storage in inside.storages():
            if storage not in (inside.vector_index, inside.redo):
                await storage.drop()
        if before.generation:
            await put_stamps(inside, Stamps(), Stamps(before.generation + 1))
