"""What is done when a base is opened: nothing that ran when a process ended is running any more."""

from __future__ import annotations

from dataclasses import replace

from easy_knowledge_retriever.ingestion.progress import now
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, Table
from easy_knowledge_retriever.kg.usage_ledger import fold_days
from easy_knowledge_retriever.types import DocRecord, DocStatus, StagedVectors, Transcript

__all__ = ["recover"]


async def recover(kb: KnowledgeBase) -> tuple[DocRecord, ...]:
    """Turns every *processing* document into an *interrupted* one, and drops what is staged for none.

    The version before is served as it was. Ingesting the document again goes on where it stopped: what was paid for is
    still staged. Call it when no ingest runs.

    Returns:
        The records that were changed.
    """
    running = await kb.status.by_status(DocStatus.PROCESSING)
    stopped = tuple(
        replace(record, status=DocStatus.INTERRUPTED, error="the process ended", updated_at=now()) for record in running
    )
    left = await _of_none(kb, kb.staged)
    vectors_left = await _of_none(kb, kb.staged_vectors)
    if stopped or left or vectors_left:
        async with kb.transaction() as inside:
            await inside.staged.delete_many(left)
            await inside.staged_vectors.delete_many(vectors_left)
            await inside.status.put(stopped)
    await fold_days(kb)
    return stopped


async def _of_none(kb: KnowledgeBase, table: Table[Transcript] | Table[StagedVectors]) -> list[str]:
    """Keys of what is staged for a document that is not on its way in."""
    staged = {key: row.document_id async for key, row in table.scan()}
    records = await kb.status.get(sorted(set(staged.values())))
    return [key for key, document_id in staged.items() if document_id not in records or not records[document_id].pending_version]
