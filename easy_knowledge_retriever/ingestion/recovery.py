"""What is done when a base is opened: nothing that ran when a process ended is running any more."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

from easy_knowledge_retriever.ingestion.claiming import claimed_document
from easy_knowledge_retriever.ingestion.progress import now
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, Table
from easy_knowledge_retriever.kg.usage_ledger import fold_days
from easy_knowledge_retriever.types import DocRecord, DocStatus, StagedVectors, Transcript

__all__ = ["recover"]


async def recover(kb: KnowledgeBase) -> tuple[DocRecord, ...]:
    """Turns every *processing* document that nobody works at into an *interrupted* one, and drops what is staged for none.

    The version before is served as it was. Ingesting the document again goes on where it stopped: what was paid for is
    still staged. Documents that another process is working at are left to it.

    Returns:
        The records that were changed.
    """
    running = await kb.status.by_status(DocStatus.PROCESSING)
    left = [*await _of_none(kb, kb.staged), *await _of_none(kb, kb.staged_vectors)]
    stopped: tuple[DocRecord, ...] = ()
    if running or left:
        async with AsyncExitStack() as claims:
            ours = [record.id for record in running if await claims.enter_async_context(claimed_document(kb, record.id, wait=0))]
            async with kb.transaction() as inside:  # all is looked at again: others may have been at it until now
                records = await inside.status.get(ours)
                stopped = tuple(_interrupted(record) for record in records.values() if record.status is DocStatus.PROCESSING)
                await inside.staged.delete_many(await _of_none(inside, inside.staged))
                await inside.staged_vectors.delete_many(await _of_none(inside, inside.staged_vectors))
                await inside.status.put(stopped)
    await fold_days(kb)
    return stopped


def _interrupted(record: DocRecord) -> DocRecord:
    return replace(record, status=DocStatus.INTERRUPTED, error="the process ended", updated_at=now())


async def _of_none(kb: KnowledgeBase, table: Table[Transcript] | Table[StagedVectors]) -> list[str]:
    """Keys of what is staged for a document that is not on its way in."""
    staged = {key: row.document_id async for key, row in table.scan()}
    records = await kb.status.get(sorted(set(staged.values())))
    return [key for key, document_id in staged.items() if document_id not in records or not records[document_id].pending_version]
