"""All checks of one base, in one snapshot."""

from __future__ import annotations

from easy_knowledge_retriever.ingestion.verification.documents import check_documents, check_texts
from easy_knowledge_retriever.ingestion.verification.findings import VerifyReport
from easy_knowledge_retriever.ingestion.verification.graph import check_graph, check_mentions, check_merged, check_names
from easy_knowledge_retriever.ingestion.verification.indexes import check_indexes, check_model, check_postings, check_vectors
from easy_knowledge_retriever.ingestion.verification.kept import (
    check_jobs,
    check_parses,
    check_replies,
    check_staged,
    check_summaries,
)
from easy_knowledge_retriever.ingestion.verification.state import read_state
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.settings import Settings

__all__ = ["verify"]


async def verify(
    kb: KnowledgeBase,
    *,
    deep: bool = False,
    settings: Settings | None = None,
    embedding: EmbeddingService | None = None,
) -> VerifyReport:
    """Checks the invariants in one snapshot of the base.

    Args:
        kb: The base.
        deep: Also merges everything again, counts all postings and reads all vectors and caches.
        settings: Those of the retriever, for what is shown of an entity.
        embedding: Its model, for the fingerprint.
    """
    async with kb.snapshot() as seen:
        state = await read_state(seen)
        findings = [*check_documents(state), *check_texts(state), *check_graph(state), *check_model(state, embedding)]
        checks = [check_indexes, check_summaries, check_staged]
        if deep:
            findings += [*check_merged(state, settings or Settings()), *check_names(state)]
            checks += [check_mentions, check_postings, check_vectors, check_replies, check_parses]
        for check in checks:
            findings += [finding async for finding in check(seen, state)]
    findings += [finding async for finding in check_jobs(kb, state)]
    return VerifyReport(tuple(findings), len(state.records), len(state.chunks), len(state.entities), len(state.relations))
