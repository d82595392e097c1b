"""Taking a document away, as if it had never been there."""

from __future__ import annotations

import logging
from collections.abc import Callable

from easy_knowledge_retriever.errors import UpstreamError
from easy_knowledge_retriever.ingestion.claiming import claimed_commit
from easy_knowledge_retriever.ingestion.committing import commit_deletion
from easy_knowledge_retriever.ingestion.embedding import GraphVectors
from easy_knowledge_retriever.ingestion.model_guard import model_of
from easy_knowledge_retriever.ingestion.planning import GraphChange, Said, plan_change
from easy_knowledge_retriever.ingestion.stamps import stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import DeletionResult

__all__ = ["delete_document"]

logger = logging.getLogger("easy_knowledge_retriever")


def _unmarked(change: GraphChange) -> GraphChange:
    return change


async def delete_document(
    kb: KnowledgeBase,
    document_id: str,
    settings: Settings,
    embedding: EmbeddingService | None = None,
    mark: Callable[[GraphChange], GraphChange] = _unmarked,
) -> DeletionResult:
    """Deletes a document with everything that only it says. The base is then what it would be had it never come.

    What it shares with others is merged again from what they say; no language model is asked. Where a text changes by that,
    it is embedded again. If that cannot be done now, the deletion still is, and the next ingest makes up for the vectors.

    Args:
        kb: The base.
        document_id: Its id.
        settings: Those the base was built with.
        embedding: The model of the base; None leaves vectors to the next ingest.
        mark: Says of a change what wants a summary: one of what is said no more is never shown.

    Raises:
        StorageError: The base could not be changed, and was not.
    """
    record = (await kb.status.get([document_id])).get(document_id)
    if record is None:
        return DeletionResult("not_found", document_id, f"there is no document {document_id!r}", 404)
    stamps = await stamps_of(kb)
    knows = embedding is not None and stamps.embedding == model_of(embedding)
    vectors = GraphVectors(embedding if knows else None)

    async def planned() -> GraphChange:
        change = mark(await plan_change(kb, document_id, Said(), settings))
        try:
            await vectors.embed(change)
        except UpstreamError as error:
            logger.warning("some entities wait for their vectors until the next ingest: %s", error)
        return change

    change = await planned()
    async with claimed_commit(kb):
        while not await commit_deletion(kb, change, record, vectors.by_text):
            change = await planned()
    return DeletionResult("success", document_id, f"{record.name!r} is deleted", 200, record.name)
