"""A small base with a graph, written into memory storages by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key, knowledge_base
from easy_knowledge_retriever.operations.answering import ExtractiveAnswerer
from easy_knowledge_retriever.operations.keywords import LocalKeywords
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.retrieval.pipeline import Retrieving, Services
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    DocStatus,
    Entity,
    EntityMention,
    Extraction,
    Fragment,
    LexicalRecord,
    MentionEdge,
    Metadata,
    PageSpan,
    Relation,
    RelationKey,
    RelationMention,
    VectorRecord,
)


@dataclass(frozen=True)
class Page:
    """One document of one page a chunk: what it is about, its texts, the names in them."""

    name: str
    texts: tuple[str, ...]
    collection: str = ""
    metadata: Metadata = field(default_factory=dict)


PAGES = (
    Page("river.md", ("The Verdel is a river of Ostrania. It rises near Mount Kell.", "The Verdel floods every April.")),
    Page("kell.md", ("Mount Kell is a mountain. It was first climbed by Ida Brandt in 1902.",), metadata={"year": 2020}),
    Page("brandt.md", ("Ida Brandt was a botanist born in Lund.",), "people", {"year": 2021}),
    Page("bread.md", ("Bread is baked from flour, water and salt.", "A sour dough rests overnight."), "kitchen"),
)
RELATED = (("Verdel", "Mount Kell", "river.md#0"), ("Mount Kell", "Ida Brandt", "kell.md#0"))
TITLES = {"river.md": "Verdel", "kell.md": "Mount Kell", "brandt.md": "Ida Brandt", "bread.md": "Bread"}


def words(text: str) -> int:
    """A token counter: words and single punctuation characters."""
    return len(re.findall(r"\w+|[^\w\s]", text))


async def small_base(pages: Sequence[Page] = PAGES) -> KnowledgeBase:
    """The base of these documents, open."""
    kb = knowledge_base(
        MemoryKVStorage(), MemoryDocStatusStorage(), MemoryVectorStorage(), MemoryLexicalStorage(), MemoryGraphStorage()
    )
    await kb.open()
    chunks = [chunk for page in pages for chunk in chunks_of(page)]
    embedder = FakeEmbeddingService()
    async with kb.transaction() as writing:
        if chunks:
            await _put_chunks(writing, chunks, embedder)
            await _put_graph(writing, chunks, embedder)
        await writing.status.put(
            DocRecord(
                page.name, page.name, DocStatus.PROCESSED, page.collection, "v1", metadata=page.metadata, created_at="2026-01-01"
            )
            for page in pages
        )
    return kb


def chunks_of(page: Page) -> list[Chunk]:
    """A chunk a text, on pages 1, 2, …"""
    chunks, start = [], 0
    for order, text in enumerate(page.texts):
        last = order == len(page.texts) - 1
        chunks.append(
            Chunk(
                id=f"{page.name}#{order}",
                document_id=page.name,
                document_name=page.name,
                version="v1",
                order=order,
                text=text,
                start=start,
                end=start + len(text),
                pages=(PageSpan(order + 1, start, start + len(text)),),
                headings=(TITLES.get(page.name, page.name),),
                collection=page.collection,
                next_id="" if last else f"{page.name}#{order + 1}",
            )
        )
        start += len(text) + 1
    return chunks


async def _put_chunks(kb: KnowledgeBase, chunks: Sequence[Chunk], embedder: FakeEmbeddingService) -> None:
    await kb.chunks.put_many({chunk.id: chunk for chunk in chunks})
    vectors = await embedder.embed([chunk.indexed_text for chunk in chunks], "document")
    await kb.chunk_vectors.put_many(
        [VectorRecord(c.id, vector, c.document_id, c.collection) for c, vector in zip(chunks, vectors, strict=True)]
    )
    await kb.lexical.put_many(
        [
            LexicalRecord(c.id, {"heading": analyze(c.heading), "text": analyze(c.text)}, c.document_id, c.collection)
            for c in chunks
        ]
    )


async def _put_graph(kb: KnowledgeBase, chunks: Sequence[Chunk], embedder: FakeEmbeddingService) -> None:
    names = sorted({name for name in TITLES.values() if any(name in chunk.indexed_text for chunk in chunks)})
    mentions = [
        MentionEdge(entity_key(name), c.id, c.document_id, c.collection, 3.0 if name == c.heading else 1.0)
        for c in chunks
        for name in names
        if name in c.indexed_text
    ]
    by_id = {chunk.id: chunk for chunk in chunks}
    entities, relations = [], []
    for name in names:
        ids = tuple(sorted(m.chunk_id for m in mentions if m.entity == entity_key(name)))
        fragments = tuple(Fragment(chunk_id, f"{name} in {by_id[chunk_id].document_name}") for chunk_id in ids)
        paths = tuple(sorted({by_id[chunk_id].document_name for chunk_id in ids}))
        entities.append(
            Entity(
                entity_key(name), ((name, len(ids)),), fragments=fragments, chunk_ids=ids, file_paths=paths, sources=("local",)
            )
        )
    for one, other, chunk_id in RELATED:
        if chunk_id in by_id and {one, other} <= set(names):
            key = RelationKey.of(entity_key(one), entity_key(other))
            first, second = sorted((one, other), key=entity_key)
            fragments = (Fragment(chunk_id, f"{one} and {other}"),)
            path = (by_id[chunk_id].document_name,)
            relations.append(
                Relation(key, first, second, fragments=fragments, weight=1.0, chunk_ids=(chunk_id,), file_paths=path)
            )
    await kb.extractions.put_many({extraction_key(c.id, "local"): _said(c, names) for c in chunks})
    await kb.graph.put_entities(entities)
    await kb.graph.put_relations(relations)
    await kb.graph.put_mentions(mentions)
    vectors = await embedder.embed([entity.indexed_text for entity in entities], "document")
    await kb.entity_vectors.put_many([VectorRecord(e.key, vector) for e, vector in zip(entities, vectors, strict=True)])
    if relations:
        vectors = await embedder.embed([relation.indexed_text for relation in relations], "document")
        await kb.relation_vectors.put_many([VectorRecord(r.key.id, v) for r, v in zip(relations, vectors, strict=True)])


def _said(chunk: Chunk, names: Sequence[str]) -> Extraction:
    """The line of the ledger that the facts of a chunk were merged from."""
    entities = tuple(
        EntityMention(name, description=f"{name} in {chunk.document_name}") for name in names if name in chunk.indexed_text
    )
    relations = tuple(
        RelationMention(one, other, f"{one} and {other}")
        for one, other, chunk_id in RELATED
        if chunk_id == chunk.id and {one, other} <= set(names)
    )
    return Extraction(chunk.id, chunk.document_id, "local", entities, relations)


def retrieving(
    kb: KnowledgeBase,
    settings: Settings | None = None,
    embedder: FakeEmbeddingService | None = None,
    reranker: RerankerService | None = None,
) -> Retrieving:
    """The flow over a base, with fakes."""
    embedder = embedder or FakeEmbeddingService()
    services = Services(embedder, LocalKeywords(), ExtractiveAnswerer(embedder), words, reranker)
    return Retrieving(kb, settings or Settings(cosine_better_than_threshold=-1.0), services)
