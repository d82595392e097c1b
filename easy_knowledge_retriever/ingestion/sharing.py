"""Work that was done for the same content under another name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from easy_knowledge_retriever.ingestion.parses import parse_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.types import Chunk, Document, Extraction, FloatVectors

__all__ = ["Twin", "twin_of"]


@dataclass(frozen=True, slots=True)
class Twin:
    """Another document whose chunks say the same, one by one."""

    chunk_ids: tuple[str, ...]

    async def vectors(self, kb: KnowledgeBase) -> FloatVectors | None:
        """The vectors of its chunks, in order; None if one is missing."""
        found = await kb.chunk_vectors.vectors(self.chunk_ids)
        return np.stack([found[key] for key in self.chunk_ids]) if len(found) == len(self.chunk_ids) else None

    async def paid(self, kb: KnowledgeBase, chunks: Sequence[Chunk]) -> dict[str, Extraction]:
        """What a language model found in its chunks, as if found in these, by chunk id. It may not have read all of them."""
        keys = {extraction_key(own, "llm"): chunk for own, chunk in zip(self.chunk_ids, chunks, strict=True)}
        found = await kb.extractions.get_many(list(keys))
        return {keys[key].id: replace(e, chunk_id=keys[key].id, document_id=keys[key].document_id) for key, e in found.items()}


async def twin_of(kb: KnowledgeBase, document: Document, chunks: Sequence[Chunk]) -> Twin | None:
    """A living document with the same content, parser and chunks; None if there is none."""
    pointer = await parse_of(kb, document.digest, document.parser)
    if pointer is None or pointer.text or pointer.id == document.id:
        return None
    ids = (await kb.manifests.get_many([pointer.id])).get(pointer.id, ())
    found = await kb.chunks.get_many(ids)
    same = [found[key].indexed_text for key in ids if key in found] == [chunk.indexed_text for chunk in chunks]
    return Twin(ids) if ids and same else None
