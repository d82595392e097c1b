"""Parent chunks: small chunks are searched, and the longer passage around a hit is given to the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from easy_knowledge_retriever.operations.chunking import pages_of
from easy_knowledge_retriever.operations.sectioning import HeadingPaths
from easy_knowledge_retriever.operations.table_heads import TableHeads
from easy_knowledge_retriever.types import Chunk, Document

__all__ = ["one_a_parent", "widened"]


def one_a_parent(ranked: Iterable[tuple[Chunk, float]]) -> list[tuple[Chunk, float]]:
    """The ranking with the best chunk of each parent; chunks without one all stay."""
    seen: set[tuple[str, tuple[int, int]]] = set()
    kept: list[tuple[Chunk, float]] = []
    for chunk, score in ranked:
        if chunk.parent is None or (chunk.document_id, chunk.parent) not in seen:
            kept.append((chunk, score))
        if chunk.parent is not None:
            seen.add((chunk.document_id, chunk.parent))
    return kept


def widened(ranked: Sequence[tuple[Chunk, float]], documents: Mapping[str, Document]) -> list[tuple[Chunk, float]]:
    """Each chunk that has a parent with the span, text, pages and headings of the parent, under its own id.

    Args:
        ranked: Chunks with their scores, one a parent.
        documents: By id; a chunk whose document is not among them in its version stays as it is.
    """
    frames: dict[str, tuple[HeadingPaths, TableHeads]] = {}
    wide: list[tuple[Chunk, float]] = []
    for chunk, score in ranked:
        document = documents.get(chunk.document_id)
        if chunk.parent is None or document is None or document.digest != chunk.version:
            wide.append((chunk, score))
            continue
        if document.id not in frames:
            frames[document.id] = HeadingPaths(document), TableHeads(document)
        paths, heads = frames[document.id]
        start, end = chunk.parent
        parent = replace(
            chunk,
            text=document.text[start:end],
            start=start,
            end=end,
            pages=pages_of(document, start, end),
            headings=paths.of(start, end),
            table_head=heads.of(start),
        )
        wide.append((parent, score))
    return wide
