"""What is kept beside the base, replies, summaries, parses and staged work: I9, I10, I12."""

from __future__ import annotations

from collections.abc import AsyncIterator

from easy_knowledge_retriever.ingestion.claiming import claimed_document
from easy_knowledge_retriever.ingestion.summarizing import WANTED, said
from easy_knowledge_retriever.ingestion.verification.findings import Finding
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.reply_cache import owners_of_replies
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.types import DocStatus, Entity, FactKey, Relation

__all__ = ["check_jobs", "check_parses", "check_replies", "check_staged", "check_summaries", "lost_owners", "lost_parses"]


async def check_summaries(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I9 of summaries."""
    there: list[Entity | Relation] = [*state.entities.values(), *state.relations.values()]
    facts = {fact.key: fact for fact in there}
    wanted = set()
    async for key, summary in kb.summaries.scan():
        if key.startswith(WANTED):
            wanted.add(summary.of)
        elif not said(facts.get(summary.of)).issuperset(summary.covers):
            yield Finding("I9", key, "a summary of what is not said any more is kept")
    pending = {key for key, fact in facts.items() if fact.pending}
    for fact in sorted(map(_id, wanted ^ pending)):
        yield Finding("I9", fact, "it waits for a summary and is not listed so, or the other way round")


def _id(key: FactKey) -> str:
    return key if isinstance(key, str) else key.id


async def lost_owners(kb: KnowledgeBase, state: State) -> list[str]:
    """Owners of replies about documents that are gone."""
    owners = {KeptReplies(document_id).owner for document_id in state.records}
    return sorted(await owners_of_replies(kb.llm_cache) - owners)


async def check_replies(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I9 of replies."""
    for owner in await lost_owners(kb, state):
        yield Finding("I9", owner, "a reply about a document that is gone is kept")


async def lost_parses(kb: KnowledgeBase, state: State) -> list[str]:
    """Keys of parses that are of no version which their document has or waits for."""
    lost = []
    async for key, parse in kb.parses.scan():
        record = state.records.get(parse.id)
        if record is None or key.partition("/")[0] not in {record.version, record.pending_version}:
            lost.append(key)
    return lost


async def check_parses(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I10."""
    for key in await lost_parses(kb, state):
        yield Finding("I10", key, "a parse is kept of a version that its document neither has nor waits for")


async def check_jobs(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I12: somebody is at work at each document that is said to be processed at the moment. Give the base, not a view of it."""
    for key in [key for key, record in state.records.items() if record.status is DocStatus.PROCESSING]:
        async with claimed_document(kb, key, wait=0) as idle:
            now = (await kb.status.get([key])).get(key) if idle else None
        if now is not None and now.status is DocStatus.PROCESSING:
            yield Finding("I12", key, "it is said to be processed, and nobody is at it")


async def check_staged(kb: KnowledgeBase, state: State) -> AsyncIterator[Finding]:
    """I12: what is staged belongs to a version that is on its way in, or was and can be taken up again."""
    rows = [(key, row.document_id) async for key, row in kb.staged.scan()]
    rows += [(key, row.document_id) async for key, row in kb.staged_vectors.scan()]
    for key, document_id in rows:
        record = state.records.get(document_id)
        if record is None or not record.pending_version:
            yield Finding("I12", key, f"it is staged for {document_id!r}, which waits for no version")
