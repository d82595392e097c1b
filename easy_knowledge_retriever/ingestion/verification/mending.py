"""The rows that a base should have, made from what cannot be derived: texts, chunks, extractions, decisions of users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from easy_knowledge_retriever.ingestion.extracting import one_a_source
from easy_knowledge_retriever.ingestion.planning import GraphChange
from easy_knowledge_retriever.ingestion.progress import now
from easy_knowledge_retriever.ingestion.verification.graph import counted_names, told_by
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.operations.base import Extractor
from easy_knowledge_retriever.operations.name_rows import recounted
from easy_knowledge_retriever.operations.naming import naming_of
from easy_knowledge_retriever.operations.resolution import Groups
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.text.variants import group_key
from easy_knowledge_retriever.types import Chunk, DocRecord, DocStatus, Document, Extraction, NameRow, Naming

__all__ = ["Means", "mend_documents", "mend_ledger", "mend_names"]


@dataclass(frozen=True, slots=True)
class Means:
    """How what can be derived is derived; as an ingest does it."""

    settings: Settings
    chunk: Callable[[Document], Awaitable[tuple[Chunk, ...]]]
    extractors: Sequence[Extractor]
    """Those that cost nothing."""
    mark: Callable[[GraphChange], GraphChange]
    """Marks what wants a summary."""


async def mend_documents(kb: KnowledgeBase, state: State, means: Means) -> None:
    """Records, manifests and chunks. A document whose text is lost is left as it is."""
    for document in state.documents.values():
        chunks = await _chunks(state, document, means)
        if chunks is None:
            continue
        kept = {chunk.id for chunk in chunks}
        await kb.chunks.put_many({chunk.id: chunk for chunk in chunks if state.chunks.get(chunk.id) != chunk})
        await kb.chunks.delete_many([key for key, c in state.chunks.items() if c.document_id == document.id and key not in kept])
        await kb.manifests.put_many({document.id: tuple(chunk.id for chunk in chunks)})
        await kb.status.put([_record(state, document, len(chunks))])
    known = state.documents.keys() | state.records.keys()
    await kb.chunks.delete_many([key for key, chunk in state.chunks.items() if chunk.document_id not in known])
    await kb.manifests.delete_many([key for key in state.manifests if key not in known])


async def _chunks(state: State, document: Document, means: Means) -> Sequence[Chunk] | None:
    """The chunks of a document in order; None if one is lost and cannot be cut out again.

    An id is a hash of document, version, place and text: what is cut again and has the ids of what was there is the same.
    """
    rows = [chunk for chunk in state.chunks.values() if chunk.document_id == document.id]
    live = sorted((chunk for chunk in rows if chunk.version == document.digest), key=lambda chunk: (chunk.order, chunk.id))
    ids = state.manifests.get(document.id) or tuple(chunk.id for chunk in live)
    if _is_whole(state, document, rows, ids):
        return [state.chunks[key] for key in ids]
    again = await means.chunk(document)
    if {chunk.id for chunk in again} == set(ids):
        return again
    if any(key not in state.chunks for key in ids):
        return None
    return [
        replace(state.chunks[key], version=document.digest, order=order, next_id=ids[order + 1] if order + 1 < len(ids) else "")
        for order, key in enumerate(ids)
    ]


def _is_whole(state: State, document: Document, rows: Collection[Chunk], ids: Sequence[str]) -> bool:
    if len(rows) != len(ids) or any(key not in state.chunks for key in ids):
        return False
    return all(
        (chunk.version, chunk.order, chunk.next_id) == (document.digest, order, ids[order + 1] if order + 1 < len(ids) else "")
        and document.text[chunk.start : chunk.end] == chunk.text
        and [span.page for span in chunk.pages] == sorted(span.page for span in chunk.pages)
        and all(chunk.start <= span.start <= span.end <= chunk.end for span in chunk.pages)
        for order, chunk in enumerate(state.chunks[key] for key in ids)
    )


def _record(state: State, document: Document, chunks: int) -> DocRecord:
    lost = DocRecord(document.id, document.name, DocStatus.PROCESSED, document.collection, created_at=now(), updated_at=now())
    return replace(
        state.records.get(document.id, lost),
        version=document.digest,
        chunk_count=chunks,
        page_count=len(document.pages),
        title=document.title,
        metadata=document.metadata,
    )


async def mend_ledger(kb: KnowledgeBase, state: State, means: Means) -> None:
    """Drops what is said of chunks that are gone, and has read again what cost nothing and is lost."""
    listed = {chunk_id for ids in state.manifests.values() for chunk_id in ids} | state.chunks.keys()
    gone = [extraction_key(e.chunk_id, e.source) for e in state.ledger if e.chunk_id not in listed]
    await kb.extractions.delete_many(gone)
    there = {(e.chunk_id, e.source) for e in state.ledger}
    mentions = await kb.graph.mentions_in(list(state.chunks))
    for document_id, document in state.documents.items():
        chunks = state.chunks_of(document_id)
        lost = {(c.id, edge.source) for c in chunks for edge in mentions.get(c.id, ()) if edge.source != "llm"} - there
        if lost:
            read = await _read(document, chunks, means)
            await kb.extractions.put_many(
                {extraction_key(e.chunk_id, e.source): e for e in read if (e.chunk_id, e.source) not in there}
            )


async def _read(document: Document, chunks: Sequence[Chunk], means: Means) -> Iterable[Extraction]:
    outcomes = [await extractor.extract(document, chunks, lambda done, total: None) for extractor in means.extractors]
    return one_a_source([extraction for outcome in outcomes for extraction in outcome.extractions])


async def mend_names(kb: KnowledgeBase, state: State) -> None:
    """How documents use their names, and how often each name is used. What a user decided of a name in use stays."""
    namings = _namings(state)
    await kb.naming.delete_many([key for key in state.naming if key not in namings])
    await kb.naming.put_many({key: naming for key, naming in namings.items() if state.naming.get(key) != naming})
    groups = {
        group: {key: _decided(state.names.groups.get(group, {}), key, row) for key, row in rows.items()}
        for group, rows in counted_names(namings).items()
        if rows
    }
    await kb.names.delete_many([group for group in state.names.groups if group not in groups])
    await kb.names.put_many({group: rows for group, rows in groups.items() if state.names.groups.get(group) != rows})


def _namings(state: State) -> dict[str, Naming]:
    """How each document uses its names. One that was taken in without resolution has none: lost is what is still counted."""
    told = told_by(state)
    all_of_them = {key: naming_of(state.chunks_of(key), told.get(key, [])) for key in state.documents}
    found = {key: naming for key, naming in all_of_them.items() if key in state.naming and naming.uses}
    counted = counted_names(found)
    for key, naming in all_of_them.items():
        if key not in state.naming and naming.uses and _is_counted(naming, state.names.groups, counted):
            found[key] = naming
            counted |= recounted(counted, Naming(), naming)
    return found


def _is_counted(naming: Naming, stored: Groups, counted: Groups) -> bool:
    """Whether more documents are counted for every name of a document than those that count without it."""

    def documents(groups: Groups, key: str) -> int:
        return groups.get(group_key(key), {}).get(key, NameRow()).documents

    return all(documents(stored, key) > documents(counted, key) for key in naming.uses)


def _decided(stored: Mapping[str, NameRow], key: str, row: NameRow) -> NameRow:
    decided = stored.get(key, row)
    return replace(row, apart=decided.apart, whole=decided.whole, into=decided.into, merged=decided.merged)
