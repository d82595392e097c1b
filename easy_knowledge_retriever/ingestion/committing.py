"""The one place that writes a change of the base, in one transaction, the status last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.paid_vectors import drop_vectors
from easy_knowledge_retriever.ingestion.parses import drop_parses, parse_key
from easy_knowledge_retriever.ingestion.planning import GraphChange, Said
from easy_knowledge_retriever.ingestion.stamps import EmbeddingStamp, Stamps, Unembedded, generation_of, put_stamps
from easy_knowledge_retriever.ingestion.summarizing import put_marks
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key, staged_key
from easy_knowledge_retriever.kg.reply_cache import drop_replies, put_replies
from easy_knowledge_retriever.kg.usage_ledger import add_document_usage, drop_document_usage, fold_versions
from easy_knowledge_retriever.operations.indexing import chunk_vectors, has_vector, lexical_records
from easy_knowledge_retriever.spending.account import Account
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    Document,
    Extraction,
    FloatVector,
    FloatVectors,
    Naming,
    VectorRecord,
)

__all__ = ["Version", "commit_decision", "commit_deletion", "commit_version", "drop_staged"]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a document with everything derived from it alone."""

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: FloatVectors
    """Shape (len(chunks), dim)."""
    extractions: tuple[Extraction, ...]
    """Each with an entity for every end of its relations."""
    account: Account = field(default_factory=Account)
    """What it cost."""
    naming: Naming = field(default_factory=Naming)
    """How it uses its names; empty if names are not resolved."""

    @property
    def said(self) -> Said:
        """What it says."""
        return Said(self.document.name, self.chunks, self.extractions, self.naming)


async def commit_version(
    kb: KnowledgeBase,
    change: GraphChange,
    version: Version,
    record: DocRecord,
    graph_vectors: Mapping[str, FloatVector],
    model: EmbeddingStamp | None,
    *,
    standing: DocRecord | None,
    paid_for: bool,
) -> bool:
    """Puts a version in the place of the one before it; False, with nothing written, if the base has changed since the plan.

    Args:
        kb: The base.
        change: The plan.
        version: What comes.
        record: Its status from now on.
        graph_vectors: Text → vector for every text of the plan.
        model: The model that made the vectors; None if the base knows it.
        standing: The status before this ingest began.
        paid_for: Whether this ingest staged replies of a model.
    """
    with version.account.writing() as unwritten:
        async with kb.transaction() as inside:
            if await generation_of(inside) != change.stamps.generation:
                return False
            failpoint("tx-begin")
            await drop_parses(inside, version.document.id, _versions(standing))
            await _put_version(inside, version)
            waiting = await _put_graph(inside, change, graph_vectors)
            if paid_for or (standing is not None and standing.pending_version):
                await drop_staged(inside, version.document.id)
            await _put_stamps(inside, change, waiting, change.stamps.embedding or model)
            await add_document_usage(inside, version.document.id, version.document.digest, unwritten())
            await _put_replies(inside, version, standing)
            if standing is not None:
                await fold_versions(inside, version.document.id, version.document.digest)
            failpoint("tx-before-status")
            await inside.status.put([record])
            await _drop_version(inside, change, version.chunks, version.extractions)
            failpoint("tx-before-commit")
    failpoint("tx-after-commit")
    version.account.vectors = version.account.replies = None  # all is durable now
    return True


async def commit_deletion(
    kb: KnowledgeBase, change: GraphChange, standing: DocRecord, graph_vectors: Mapping[str, FloatVector]
) -> bool:
    """Takes a document away; False, with nothing written, if the base has changed since the plan.

    Entities and relations whose new text has no vector among ``graph_vectors`` are noted as waiting for it.
    """
    async with kb.transaction() as inside:
        if await generation_of(inside) != change.stamps.generation:
            return False
        document_id = standing.id
        failpoint("delete-begin")
        await inside.status.delete([document_id])
        waiting = await _put_graph(inside, change, graph_vectors)
        await _drop_version(inside, change, (), ())
        await drop_parses(inside, document_id, _versions(standing))
        await drop_staged(inside, document_id)
        await drop_document_usage(inside, document_id)
        await drop_replies(inside.llm_cache, KeptReplies(document_id))
        await inside.manifests.delete_many([document_id])
        await inside.naming.delete_many([document_id])
        await inside.documents.delete_many([document_id])
        await _put_stamps(inside, change, waiting, change.stamps.embedding)
        failpoint("delete-before-commit")
    failpoint("delete-after-commit")
    return True


async def commit_decision(kb: KnowledgeBase, change: GraphChange, graph_vectors: Mapping[str, FloatVector]) -> bool:
    """Writes what a user decided of names; False, with nothing written, if the base has changed since the plan."""
    async with kb.transaction() as inside:
        if await generation_of(inside) != change.stamps.generation:
            return False
        waiting = await _put_graph(inside, change, graph_vectors)
        await _put_stamps(inside, change, waiting, change.stamps.embedding)
    return True


async def _put_version(kb: KnowledgeBase, version: Version) -> None:
    """The rows that belong to this version alone."""
    document, chunks = version.document, version.chunks
    await kb.documents.put_many({document.id: document})
    await kb.parses.put_many({parse_key(document.digest, document.parser): _pointer(document)})
    await kb.manifests.put_many({document.id: tuple(chunk.id for chunk in chunks)})
    await kb.naming.delete_many([] if version.naming.uses else [document.id])
    await kb.naming.put_many({document.id: version.naming} if version.naming.uses else {})
    await kb.chunks.put_many({chunk.id: chunk for chunk in chunks})
    failpoint("tx-after-chunks")
    if chunks:
        await kb.chunk_vectors.put_many(chunk_vectors(chunks, version.vectors))
    failpoint("tx-after-vectors")
    await kb.lexical.put_many(lexical_records(chunks))
    failpoint("tx-after-postings")
    await kb.extractions.put_many({extraction_key(e.chunk_id, e.source): e for e in version.extractions})


async def _put_graph(kb: KnowledgeBase, change: GraphChange, vectors: Mapping[str, FloatVector]) -> Unembedded:
    """Names, entities, relations, mentions and their vectors; gives what has to wait for its vector."""
    await kb.names.put_many({group: rows for group, rows in change.names.items() if rows})
    await kb.names.delete_many([group for group, rows in change.names.items() if not rows])
    await kb.graph.delete_mentions([*change.old_chunks, *change.moved_chunks])
    await kb.graph.delete_relations(change.gone_relations)
    await kb.graph.delete_entities(change.gone_entities)
    await kb.graph.put_entities(change.entities)
    await kb.graph.put_relations(change.relations)
    await kb.graph.put_mentions(change.mentions)
    await put_marks(kb, change)
    failpoint("tx-after-graph")

    waiting_entities = tuple(sorted(key for key, text in change.entity_texts.items() if text not in vectors))
    waiting_relations = tuple(sorted(key for key, text in change.relation_texts.items() if text not in vectors))
    await kb.entity_vectors.delete_many([*change.gone_entities, *waiting_entities])
    await kb.relation_vectors.delete_many([key.id for key in (*change.gone_relations, *waiting_relations)])
    await kb.entity_vectors.put_many(
        [VectorRecord(key, vectors[text]) for key, text in change.entity_texts.items() if text in vectors]
    )
    await kb.relation_vectors.put_many(
        [VectorRecord(key.id, vectors[text]) for key, text in change.relation_texts.items() if text in vectors]
    )
    await kb.entity_vectors.delete_many([entity.key for entity in change.entities if not has_vector(entity)])
    await kb.relation_vectors.delete_many([relation.key.id for relation in change.relations if not has_vector(relation)])
    return Unembedded(waiting_entities, waiting_relations)


async def _drop_version(
    kb: KnowledgeBase, change: GraphChange, chunks: Sequence[Chunk], extractions: Sequence[Extraction]
) -> None:
    """The rows of the version before that the new one does not have as well."""
    kept = {chunk.id for chunk in chunks}
    said = {extraction_key(e.chunk_id, e.source) for e in extractions}
    gone = [chunk_id for chunk_id in change.old_chunks if chunk_id not in kept]
    failpoint("collect-start")
    await kb.extractions.delete_many([key for key in change.old_extractions if key not in said])
    await kb.lexical.delete_many(gone)
    failpoint("collect-half")
    await kb.chunk_vectors.delete_many(gone)
    await kb.chunks.delete_many(gone)


async def _put_stamps(kb: KnowledgeBase, change: GraphChange, waiting: Unembedded, model: EmbeddingStamp | None) -> None:
    await put_stamps(kb, change.stamps, Stamps(change.stamps.generation + 1, model, waiting))


def _versions(standing: DocRecord | None) -> tuple[str, ...]:
    """Every version the document had or was to have."""
    return (standing.version, standing.pending_version) if standing is not None else ()


async def _put_replies(kb: KnowledgeBase, version: Version, standing: DocRecord | None) -> None:
    """Caches the replies about a version, and forgets those about text that is gone.

    After an interruption the replies of the attempt before were not asked for, so all stay until the next version.
    """
    replies = version.account.replies
    if replies is not None:
        await put_replies(kb.llm_cache, replies.unsaved)
        if standing is not None and not standing.pending_version:
            await drop_replies(kb.llm_cache, replies, unused_only=True)


async def drop_staged(kb: KnowledgeBase, document_id: str) -> None:
    """Forgets what a version that is not live yet has paid for. Call it inside a transaction."""
    staged = [key async for key, row in kb.staged.scan(staged_key(document_id, "")) if row.document_id == document_id]
    await kb.staged.delete_many(staged)
    await drop_vectors(kb, document_id)


def _pointer(document: Document) -> Document:
    """The parse without what it says and what the caller knows: both stand among the documents."""
    return replace(document, text="", blocks=(), pages=(), links=(), metadata={})
