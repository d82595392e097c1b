"""What the chunks of a document say, from every source; what was paid for is kept before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from easy_knowledge_retriever.ingestion.failpoints import failpoint
from easy_knowledge_retriever.ingestion.progress import Run
from easy_knowledge_retriever.ingestion.sharing import Twin
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.merging import with_ends
from easy_knowledge_retriever.types import Chunk, Document, Extraction

__all__ = ["extract"]

_KEPT_AT_ONCE: Final = 64
"""Chunks whose paid extractions are made durable together."""


async def extract(
    run: Run,
    document: Document,
    chunks: Sequence[Chunk],
    extractors: Sequence[Extractor],
    llm_extractor: Extractor | None,
    twin: Twin | None = None,
) -> tuple[Extraction, ...]:
    """The extractions of a version, one a chunk and source, each with an entity for every end of its relations.

    Args:
        run: Is told of warnings, failed chunks and usage.
        document: The version.
        chunks: Its chunks.
        extractors: Cost nothing.
        llm_extractor: Is paid for: what it found in an attempt that failed later is not asked for again.
        twin: The same content under another name: what was paid for there is not asked for again either.
    """
    found: list[Extraction] = []
    with run.stage("extract", len(chunks)) as progress:
        for extractor in extractors:
            found += _taken(run, await extractor.extract(document, chunks, progress))
    if llm_extractor is not None:
        with run.stage("extract_llm", len(chunks)) as progress:
            found += await _paid(run, document, chunks, llm_extractor, twin, progress)
    complete = _one_a_source(found)
    if chunks and not any(e.source == "llm" or llm_extractor is None for e in complete):
        run.warnings.append("no_entities")
    return complete


async def _paid(
    run: Run,
    document: Document,
    chunks: Sequence[Chunk],
    extractor: Extractor,
    twin: Twin | None,
    progress: Progress,
) -> list[Extraction]:
    keys = [extraction_key(chunk.id, "llm") for chunk in chunks]
    found = [*(await run.kb.staged.get_many(keys)).values()]
    if twin is not None and not found:
        found = await twin.paid(run.kb, chunks)
    done = {extraction.chunk_id for extraction in found}
    missing = [chunk for chunk in chunks if chunk.id not in done]
    for at in range(0, len(missing), _KEPT_AT_ONCE):
        part = missing[at : at + _KEPT_AT_ONCE]
        outcome = await extractor.extract(document, part, _from(len(done) + at, len(chunks), progress))
        extractions = _taken(run, outcome)
        failpoint("extraction-paid")
        await _keep(run.kb, document, part, extractions, outcome.failed_chunks)
        failpoint("extraction-durable")
        found += extractions
    return found


def _from(before: int, total: int, progress: Progress) -> Progress:
    return lambda done, _: progress(before + done, total)


async def _keep(
    kb: KnowledgeBase,
    document: Document,
    chunks: Sequence[Chunk],
    extractions: Sequence[Extraction],
    failed: Sequence[str],
) -> None:
    """Stages what was found, and that nothing was found where it was not; a chunk that failed is tried again."""
    rows = {
        extraction_key(chunk.id, "llm"): Extraction(chunk.id, document.id, "llm") for chunk in chunks if chunk.id not in failed
    }
    rows |= {extraction_key(extraction.chunk_id, "llm"): extraction for extraction in extractions}
    await kb.staged.put_many(rows)


def _taken(run: Run, outcome: ExtractionOutcome) -> tuple[Extraction, ...]:
    run.warnings += outcome.warnings
    run.failed_chunks += outcome.failed_chunks
    run.usage += outcome.usage
    return outcome.extractions


def _one_a_source(extractions: Iterable[Extraction]) -> tuple[Extraction, ...]:
    by_key: dict[str, Extraction] = {}
    for extraction in extractions:
        key = extraction_key(extraction.chunk_id, extraction.source)
        first = by_key.get(key)
        by_key[key] = extraction if first is None else _joined(first, extraction)
    return tuple(complete for extraction in by_key.values() if (complete := with_ends(extraction)) is not None)


def _joined(one: Extraction, other: Extraction) -> Extraction:
    return replace(one, entities=(*one.entities, *other.entities), relations=(*one.relations, *other.relations))
