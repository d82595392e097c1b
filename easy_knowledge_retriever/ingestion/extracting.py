"""What the chunks of a document say, from every source; what was paid for is kept before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.ingestion.progress import Run
from easy_knowledge_retriever.ingestion.replies import StagedReplies
from easy_knowledge_retriever.kg.knowledge_base import extraction_key
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, PaidExtractor
from easy_knowledge_retriever.operations.merging import with_ends
from easy_knowledge_retriever.types import Chunk, Document, Extraction

__all__ = ["extract", "one_a_source"]

_NOTHING: Final[Mapping[str, Extraction]] = MappingProxyType({})


async def extract(
    run: Run,
    document: Document,
    chunks: Sequence[Chunk],
    extractors: Sequence[Extractor],
    llm_extractor: PaidExtractor | None,
    known: Mapping[str, Extraction] = _NOTHING,
) -> tuple[Extraction, ...]:
    """The extractions of a version, one a chunk and source, each with an entity for every end of its relations.

    A chunk that the model has answered about has an extraction of its even if it says nothing: what has none was not read.

    Args:
        run: Is told of warnings and failed chunks.
        document: The version.
        chunks: Its chunks.
        extractors: Cost nothing.
        llm_extractor: Is paid for, and runs beside the others: what it was told in an attempt that failed later is not
            asked for again.
        known: Chunk id → what a model found in it already, so that it is not asked.
    """
    async with task_group() as group:
        free = group.create_task(_free(run, document, chunks, extractors))
        paid = None if llm_extractor is None else group.create_task(_paid(run, document, chunks, llm_extractor, known))
    outcomes = [*free.result(), *([paid.result()] if paid is not None else [])]
    complete = one_a_source([extraction for outcome in outcomes for extraction in _taken(run, outcome)])
    if chunks and not any(e.entities and (e.source == "llm" or llm_extractor is None) for e in complete):
        run.warnings.append("no_entities")
    return complete


async def _free(
    run: Run, document: Document, chunks: Sequence[Chunk], extractors: Sequence[Extractor]
) -> list[ExtractionOutcome]:
    with run.stage("extract", len(chunks)) as progress:
        return [await extractor.extract(document, chunks, progress) for extractor in extractors]


async def _paid(
    run: Run, document: Document, chunks: Sequence[Chunk], extractor: PaidExtractor, known: Mapping[str, Extraction]
) -> ExtractionOutcome:
    with run.stage("extract_llm", len(chunks)) as progress:
        replies = await StagedReplies.open(run.kb, document, chunks, run.save_now_and_then)
        asked = [chunk for chunk in chunks if chunk.id not in known or not replies.of(chunk).is_empty]
        ready = len(chunks) - len(asked)
        try:
            outcome = await extractor.extract(document, asked, lambda done, _: progress(ready + done, len(chunks)), replies)
        finally:
            await replies.drain()
        return replace(outcome, extractions=_answered(document, chunks, known, outcome))


def _answered(
    document: Document, chunks: Sequence[Chunk], known: Mapping[str, Extraction], outcome: ExtractionOutcome
) -> tuple[Extraction, ...]:
    """One extraction a chunk that was read, in order, empty where nothing was found."""
    found = {**known} | {extraction.chunk_id: extraction for extraction in outcome.extractions}
    failed = frozenset(outcome.failed_chunks)
    return tuple(found.get(chunk.id, Extraction(chunk.id, document.id, "llm")) for chunk in chunks if chunk.id not in failed)


def _taken(run: Run, outcome: ExtractionOutcome) -> tuple[Extraction, ...]:
    run.warnings += outcome.warnings
    run.failed_chunks += outcome.failed_chunks
    run.refused_chunks += outcome.refused_chunks
    return outcome.extractions


def one_a_source(extractions: Iterable[Extraction]) -> tuple[Extraction, ...]:
    """The extractions of one document, one a chunk and source, each with an entity for every end of its relations."""
    by_key: dict[str, Extraction] = {}
    for extraction in extractions:
        key = extraction_key(extraction.chunk_id, extraction.source)
        first = by_key.get(key)
        by_key[key] = extraction if first is None else _joined(first, extraction)
    return tuple(complete for extraction in by_key.values() if (complete := _complete(extraction)) is not None)


def _complete(extraction: Extraction) -> Extraction | None:
    """The extraction with every end of its relations; None if it says nothing, unless that was paid for."""
    complete = with_ends(extraction)
    if complete is None and extraction.source == "llm":
        return replace(extraction, entities=(), relations=())
    return complete


def _joined(one: Extraction, other: Extraction) -> Extraction:
    return replace(one, entities=(*one.entities, *other.entities), relations=(*one.relations, *other.relations))
