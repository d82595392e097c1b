from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    DocStatus,
    Entity,
    Fragment,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    Summary,
    VectorRecord,
)


async def _base() -> KnowledgeBase:
    store = MemoryStore()
    base = knowledge_base(
        MemoryKVStorage(store),
        MemoryDocStatusStorage(store),
        MemoryVectorStorage(store),
        MemoryLexicalStorage(store),
        MemoryGraphStorage(store),
    )
    await base.open()
    return base


async def _add(base: KnowledgeBase, document: str, text: str, created_at: str = "") -> None:
    chunk = Chunk(f"{document}-0", document, f"{document}.md", "v", 0, text, 0, len(text))
    await base.chunks.put_many({chunk.id: chunk})
    await base.chunk_vectors.put_many([VectorRecord(chunk.id, np.arange(1, 9, dtype=np.float32), document)])
    await base.lexical.put_many([LexicalRecord(chunk.id, {"text": analyze(text)}, document)])
    await base.graph.put_entities([Entity(document)])
    await base.graph.put_mentions([MentionEdge(document, chunk.id, document)])
    await base.llm_cache.put_many({document: {"reply": text}})
    await base.status.put(
        [DocRecord(document, f"{document}.md", DocStatus.PROCESSED, created_at=created_at, track_id=created_at)]
    )


async def test_the_order_of_writing_and_the_time_leave_no_trace() -> None:
    one, other = await _base(), await _base()
    await _add(one, "a", "Cats sleep.", "2024")
    await _add(one, "b", "Dogs bark.", "2024")
    await _add(other, "b", "Dogs bark.", "2025")
    await _add(other, "a", "Cats sleep.", "2025")
    assert await canonical_dump(one) == await canonical_dump(other)


async def test_a_row_a_line() -> None:
    base = await _base()
    await _add(base, "a", "Cats sleep.")
    await base.graph.put_relations([Relation(RelationKey("a", "b"))])
    rows = [json.loads(line) for line in (await canonical_dump(base)).splitlines()]
    assert [(role, key) for role, key, _ in rows] == [
        ("chunk_vectors", "a-0"),
        ("chunks", "a-0"),
        ("document_frequency", "cat"),
        ("document_frequency", "sleep"),
        ("entity", "a"),
        ("graph", "counts"),
        ("lexical", "a-0"),
        ("mention", '["a", "a-0"]'),
        ("relation", "1:ab"),
        ("search", "cat"),
        ("search", "sleep"),
        ("status", "a"),
    ]


@pytest.mark.parametrize(
    "part", ["chunk", "vector", "terms", "entity", "relation", "mention", "status", "staged", "stamps", "manifest"]
)
async def test_every_difference_shows(part: str) -> None:
    base = await _base()
    await _add(base, "a", "Cats sleep.")
    before = await canonical_dump(base)
    match part:
        case "chunk":
            chunk = (await base.chunks.get_many(["a-0"]))["a-0"]
            await base.chunks.put_many({"a-0": replace(chunk, headings=("Title",))})
        case "vector":
            await base.chunk_vectors.put_many([VectorRecord("a-0", np.array([1, 2, 0, 4, 5, 6, 7, -8], dtype=np.float32), "a")])
        case "terms":
            await base.lexical.put_many([LexicalRecord("a-0", {"text": ("cat",)}, "a")])
        case "entity":
            await base.graph.put_entities([Entity("a", mention_count=2)])
        case "relation":
            await base.graph.put_relations([Relation(RelationKey("a", "b"))])
        case "mention":
            await base.graph.put_mentions([MentionEdge("a", "a-0", "a", weight=2)])
        case "status":
            await base.status.put([DocRecord("a", "a.md", DocStatus.FAILED)])
        case "staged":
            await base.staged.storage.put_many({"x": {}})
        case "manifest":
            await base.manifests.put_many({"x": ("c",)})
        case _:
            await base.stamps.put_many({"x": {}})
    assert await canonical_dump(base) != before


async def test_half_precision_makes_no_difference() -> None:
    one, other = await _base(), await _base()
    vectors = np.random.default_rng(3).standard_normal((200, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    await one.chunk_vectors.put_many([VectorRecord(f"{n}", row.astype(np.float32)) for n, row in enumerate(vectors)])
    halves = vectors.astype(np.float16).astype(np.float32)
    await other.chunk_vectors.put_many([VectorRecord(f"{n}", row) for n, row in enumerate(halves)])
    assert await canonical_dump(one) == await canonical_dump(other)


async def test_a_vector_is_shown_by_its_signs() -> None:
    base = await _base()
    await base.entity_vectors.put_many([VectorRecord("e", np.array([3, 0, -4, 1e-9], dtype=np.float32))])
    assert '["entity_vectors","e","+0-0"]' in await canonical_dump(base)


async def test_a_summary_is_shown_by_what_it_is_to_cover() -> None:
    shown = []
    texts = (Fragment("c", "one"), Fragment("d", "two"))
    for entity, number in (
        (Entity("a", fragments=texts, summary="Both."), 1),
        (Entity("a", fragments=texts, pending=True), -1),
        (Entity("a", fragments=texts), 1),
        (Entity("a", fragments=texts[:1], pending=True), 1),
    ):
        base = await _base()
        await base.graph.put_entities([entity])
        await base.entity_vectors.put_many([VectorRecord("a", np.full(8, number, dtype=np.float32))])
        await base.summaries.put_many({f"made/{number}": Summary("a", text="Both.")})
        shown.append(await canonical_dump(base))
    assert shown[0] == shown[1]
    assert len(set(shown)) == 3
