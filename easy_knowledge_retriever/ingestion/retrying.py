"""What a document is served with, so that only what is missing need be made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easy_knowledge_retriever.errors import ConfigError, NotFound
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.ledger import ledger_of
from easy_knowledge_retriever.types import Chunk, DocRecord, Document, Extraction, FloatVectors

__all__ = ["Served", "record_to_retry", "served"]


@dataclass(frozen=True, slots=True)
class Served:
    """The version of a document that a query sees."""

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: FloatVectors
    """Shape (len(chunks), dim)."""
    extractions: tuple[Extraction, ...]

    @property
    def read(self) -> dict[str, Extraction]:
        """What a language model found, by the ids of the chunks it has read."""
        return {extraction.chunk_id: extraction for extraction in self.extractions if extraction.source == "llm"}

    @property
    def others(self) -> tuple[Extraction, ...]:
        """What was found without one."""
        return tuple(extraction for extraction in self.extractions if extraction.source != "llm")


async def record_to_retry(kb: KnowledgeBase, document_id: str) -> DocRecord:
    """The status of a document whose missing parts may be made.

    Raises:
        NotFound: There is no such document, or no version of it is served.
        ConfigError: Another version of it failed and waits to be ingested again.
    """
    record = (await kb.status.get([document_id])).get(document_id)
    if record is None:
        raise NotFound(f"there is no document {document_id!r}")
    if not record.version:
        raise NotFound(f"no version of {record.name!r} is served", hint="ingest it again")
    if record.pending_version not in {"", record.version}:
        raise ConfigError(f"another version of {record.name!r} is not in yet: {record.error}", hint="ingest it again")
    return record


async def served(kb: KnowledgeBase, document_id: str) -> Served:
    """The version that is served; the document has one."""
    async with kb.snapshot() as seen:
        document = (await seen.documents.get_many([document_id]))[document_id]
        ids = (await seen.manifests.get_many([document_id])).get(document_id, ())
        chunks = await seen.chunks.get_many(ids)
        vectors = await seen.chunk_vectors.vectors(ids)
        ledger = await ledger_of(seen, ids)
    stacked = np.stack([vectors[key] for key in ids]) if ids else np.zeros((0, 0), np.float32)
    return Served(document, tuple(chunks[key] for key in ids), stacked, tuple(ledger.values()))
