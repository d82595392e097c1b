"""What is done when a base is opened: nothing that ran when a process ended is running any more."""

from __future__ import annotations

from dataclasses import replace

from easy_knowledge_retriever.ingestion.progress import now
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import fold_days
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["recover"]


async def recover(kb: KnowledgeBase) -> tuple[DocRecord, ...]:
    """Turns every *processing* document into an *interrupted* one, and drops replies staged for none.

    The version before is served as it was. Ingesting the document again goes on where it stopped: what was paid for is
    still staged. Call it when no ingest runs.

    Returns:
        The records that were changed.
    """
    running = await kb.status.by_status(DocStatus.PROCESSING)
    stopped = tuple(
        replace(record, status=DocStatus.INTERRUPTED, error="the process ended", updated_at=now()) for record in running
    )
    staged = {key: transcript.document_id async for key, transcript in kb.staged.scan()}
    records = await kb.status.get(sorted(set(staged.values())))
    left = [key for key, document_id in staged.items() if document_id not in records or not records[document_id].pending_version]
    if stopped or left:
        async with kb.transaction() as inside:
            await inside.staged.delete_many(left)
            await inside.status.put(stopped)
    await fold_days(kb)
    return stopped
