"""Reading the ledger of extractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.types import Extraction, ExtractionSource

__all__ = ["ledger_of"]

_SOURCES: Final[tuple[str, ...]] = get_args(ExtractionSource)
_READ_AT_ONCE: Final = 500


async def ledger_of(kb: KnowledgeBase, chunk_ids: Sequence[str]) -> dict[str, Extraction]:
    """The extractions of some chunks, by their keys."""
    found: dict[str, Extraction] = {}
    for at in range(0, len(chunk_ids), _READ_AT_ONCE):
        keys = [extraction_key(chunk_id, source) for chunk_id in chunk_ids[at : at + _READ_AT_ONCE] for source in _SOURCES]
        found |= await kb.extractions.get_many(keys)
    return found
