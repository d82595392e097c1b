"""The arrays in memory follow the rows: after any changes the answers are those of the in-memory reference."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage, _LexicalMirror
from easy_knowledge_retriever.kg.sqlite import mirror
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryStore,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.types import (
    Entity,
    Hit,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    SearchFilter,
    Subgraph,
    VectorRecord,
)
from tests.support.properties import examples

KEYS, CHUNKS, WORDS = "abcdef", "1234567", "uvwxyz"
D1 = SearchFilter(document_ids=frozenset({"d1"}))
RED = SearchFilter(collections=frozenset({"red"}), document_ids=frozenset({"d0", "d1"}))
VECTORS = np.random.default_rng(3).standard_normal((12, 8)).astype(np.float16).astype(np.float32)


def sqlite_base(folder: Path) -> KnowledgeBase:
    return knowledge_base(
        SqliteKVStorage(folder, durability="relaxed"),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )


def memory_base() -> KnowledgeBase:
    store = MemoryStore()
    return knowledge_base(
        MemoryKVStorage(store),
        MemoryDocStatusStorage(store),
        MemoryVectorStorage(store),
        MemoryLexicalStorage(store),
        MemoryGraphStorage(store),
    )


@dataclass(frozen=True)
class Change:
    """What one transaction does."""

    records: list[LexicalRecord]
    vectors: list[VectorRecord]
    entities: list[str]
    relations: list[Relation]
    mentions: list[MentionEdge]
    gone_chunks: list[str]
    gone_entities: list[str]
    dropped: bool
    undone: bool
    looked_at: bool

    async def apply(self, base: KnowledgeBase) -> None:
        if self.dropped:
            await base.lexical.drop()
            await base.graph.drop()
            await base.chunk_vectors.drop()
        await base.lexical.delete_many(self.gone_chunks)
        await base.chunk_vectors.delete_many(self.gone_chunks)
        await base.graph.delete_mentions(self.gone_chunks)
        await base.graph.delete_entities(self.gone_entities)
        await base.lexical.put_many(self.records)
        await base.chunk_vectors.put_many(self.vectors)
        await base.graph.put_entities([Entity(key, names=((key.upper(), 1),)) for key in self.entities])
        await base.graph.put_relations(self.relations)
        await base.graph.put_mentions(self.mentions)


def _document(chunk: str) -> tuple[str, str]:
    return f"d{int(chunk) % 3}", "red" if int(chunk) % 2 else ""


def _relation(ends: tuple[str, str], weight: float, chunks: tuple[str, ...]) -> Relation:
    return Relation(RelationKey.of(*ends), weight=weight, chunk_ids=chunks)


TERMS = st.lists(st.sampled_from(WORDS), max_size=6).map(tuple)
WEIGHTS = st.sampled_from([1.0, 2.0])
CHANGES = st.builds(
    Change,
    records=st.lists(
        st.builds(
            lambda chunk, heading, text: LexicalRecord(chunk, {"heading": heading, "text": text}, *_document(chunk)),
            st.sampled_from(CHUNKS),
            TERMS,
            TERMS,
        ),
        max_size=4,
    ),
    vectors=st.lists(
        st.builds(
            lambda chunk, row: VectorRecord(chunk, VECTORS[row], *_document(chunk)),
            st.sampled_from(CHUNKS),
            st.integers(0, len(VECTORS) - 1),
        ),
        max_size=4,
    ),
    entities=st.lists(st.sampled_from(KEYS), max_size=6),
    relations=st.lists(
        st.builds(
            _relation,
            st.sampled_from([(one, other) for one in KEYS for other in KEYS if one < other]),
            WEIGHTS,
            st.lists(st.sampled_from(CHUNKS), max_size=2, unique=True).map(tuple),
        ),
        max_size=4,
    ),
    mentions=st.lists(
        st.builds(
            lambda entity, chunk, weight: MentionEdge(entity, chunk, *_document(chunk), weight=weight),
            st.sampled_from(KEYS),
            st.sampled_from(CHUNKS),
            WEIGHTS,
        ),
        max_size=5,
    ),
    gone_chunks=st.lists(st.sampled_from(CHUNKS), max_size=2),
    gone_entities=st.lists(st.sampled_from(KEYS), max_size=1),
    dropped=st.sampled_from([False] * 9 + [True]),
    undone=st.sampled_from([False] * 4 + [True]),
    looked_at=st.booleans(),
)


def _walked(graph: Subgraph) -> object:
    nodes = [*graph.chunk_ids, *graph.entity_keys]
    edges = zip(graph.first.tolist(), graph.second.tolist(), graph.weight.tolist(), strict=True)
    return graph.chunk_ids, graph.entity_keys, {(frozenset((nodes[a], nodes[b])), weight) for a, b, weight in edges}


def _ordered(hits: Sequence[Hit]) -> list[str]:
    """The ids, best first. Scores that only rounding tells apart are equal: the last bit is not the same in every storage."""
    return [hit.id for hit in sorted(hits, key=lambda hit: (-round(hit.score, 6), hit.id))]


async def answers(base: KnowledgeBase) -> list[object]:
    """What the base answers, scores aside."""
    found: list[object] = []
    for only in (None, D1, RED):
        for terms in ("u", "uvw", WORDS):
            hits = await base.lexical.search(list(terms), 9, only, field_weights={"heading": 2.5})
            found.append(_ordered(hits)[:4])
        found.append(_ordered(await base.chunk_vectors.search(VECTORS[0], 9, only))[:4])
        found.append(_ordered(await base.chunk_vectors.search(VECTORS[1], 9, only, list("246"))))
        for hops, max_nodes, max_degree in ((0, 9, 9), (1, 5, 9), (2, 9, 3), (3, 7, 9)):
            walk = base.graph.subgraph(
                ["3", "9", "1"], ["b", "a"], hops=hops, max_nodes=max_nodes, max_degree=max_degree, filter=only
            )
            found.append(_walked(await walk))
        found.append(await base.graph.visible(only or SearchFilter()))
        found.append(await base.graph.relations_of(list(KEYS), only))
        found.append(await base.graph.mentions_of(list(KEYS), only, 2))
        found.append(list((await base.graph.entities(list(KEYS), only)).values()))
    found += [await base.lexical.document_frequencies(WORDS), await base.graph.degrees(list(KEYS)), await base.graph.counts()]
    return [*found, await base.graph.neighbourhood("b", 2, 4), await base.graph.neighbourhood("*", 2, 4)]


class Undo(Exception):
    """Raised to leave a transaction."""


async def _apply(base: KnowledgeBase, change: Change) -> object:
    """Makes a change, or makes it and undoes it; gives the answers inside the transaction."""
    inside: object = None
    with suppress(Undo):
        async with base.transaction() as transaction:
            await change.apply(transaction)
            if change.looked_at:
                inside = await answers(transaction)
            if change.undone:
                raise Undo
    return inside


@asynccontextmanager
async def _both(folder: str) -> AsyncIterator[tuple[KnowledgeBase, KnowledgeBase]]:
    stored, reference = sqlite_base(Path(folder)), memory_base()
    await stored.open()
    await reference.open()
    yield stored, reference
    await stored.close()


@examples(12)
@given(
    changes=st.lists(CHANGES, min_size=1, max_size=8), growth=st.sampled_from([0, 1, 4]), sparse=st.sampled_from([0.0, 0.75, 1.0])
)
async def test_any_changes(changes: list[Change], growth: int, sparse: float) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror, "_GROWTH", growth)
        patch.setattr(mirror, "_SPARSE", sparse)
        for kind in (mirror.Mirror, _LexicalMirror):
            patch.setattr(kind, "batch", 3)
        async with _both(folder) as (stored, reference):
            async with stored.snapshot() as before:
                at_first = await answers(before)
                for change in changes:
                    assert await _apply(stored, change) == await _apply(reference, change)
                    if change.looked_at:
                        assert await answers(stored) == await answers(reference)
                assert await answers(before) == at_first
            assert await answers(stored) == await answers(reference)
            fresh = sqlite_base(Path(folder))
            await fresh.open()
            assert await answers(fresh) == await answers(reference)
            await fresh.close()


@examples(6)
@given(changes=st.lists(CHANGES, min_size=2, max_size=6))
async def test_what_another_connection_changes_is_noticed(changes: list[Change]) -> None:
    with TemporaryDirectory() as folder:
        async with _both(folder) as (stored, reference):
            other = sqlite_base(Path(folder))
            await other.open()
            for change in changes:
                async with stored.snapshot() as before:
                    earlier = await answers(before) if change.looked_at else None
                    await _apply(other, change)
                    if change.looked_at:
                        assert await answers(stored) == await answers(other)
                        assert await answers(before) == earlier
                await _apply(reference, change)
                assert await answers(stored) == await answers(reference)
            await other.close()


async def _scores(base: KnowledgeBase, words: Sequence[str], **options: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in await base.lexical.search(words, 100, **options)}


@examples(6)
@given(
    changes=st.lists(CHANGES, min_size=1, max_size=5), k1=st.sampled_from([0.0, 1.2, 2.0]), b=st.sampled_from([0.0, 0.75, 1.0])
)
async def test_scores_do_not_depend_on_the_past(changes: list[Change], k1: float, b: float) -> None:
    with TemporaryDirectory() as folder:
        async with _both(folder) as (stored, reference):
            for change in changes:
                await _apply(stored, change)
                await _apply(reference, change)
                await stored.lexical.search(["u"], 1)  # so that the index is built in steps
                await stored.chunk_vectors.search(VECTORS[0], 1)
            fresh = sqlite_base(Path(folder))
            await fresh.open()
            for words in ("uz", WORDS):
                options = {"k1": k1, "b": b, "field_weights": {"heading": 0.3}}
                scores = await _scores(stored, words, **options)
                assert scores == await _scores(fresh, words, **options)
                assert scores == pytest.approx(await _scores(reference, words, **options), rel=1e-9)
            hits = await stored.chunk_vectors.search(VECTORS[2], 100)
            assert hits == await fresh.chunk_vectors.search(VECTORS[2], 100)
            nearest = await reference.chunk_vectors.search(VECTORS[2], 100)
            assert {h.id: h.score for h in hits} == pytest.approx({h.id: h.score for h in nearest}, abs=1e-3)
            await fresh.close()


async def test_bm25_as_rank_bm25_counts_it(tmp_path: Path) -> None:
    texts = ["u v v w", "u u u x", "v x y y z", "z", "u v w x y z"]
    other = BM25Okapi([text.split() for text in texts], k1=1.5, b=0.75)
    base = sqlite_base(tmp_path)
    await base.open()
    await base.lexical.put_many([LexicalRecord(str(n), {"text": tuple(text.split())}) for n, text in enumerate(texts)])
    frequencies = await base.lexical.document_frequencies(WORDS)
    for word in WORDS:
        holders = sum(word in text.split() for text in texts)
        assert frequencies[word] == holders
        # The two differ in the idf only: ours is never negative, theirs is raised to a floor.
        ours = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
        expected = {str(n): s / other.idf[word] * ours for n, s in enumerate(other.get_scores([word]).tolist()) if s}
        assert await _scores(base, [word]) == pytest.approx(expected, rel=1e-12)
    await base.close()


async def test_bm25_by_hand_with_fields(tmp_path: Path) -> None:
    base = sqlite_base(tmp_path)
    await base.open()
    await base.lexical.put_many(
        [
            LexicalRecord("a", {"heading": ("u",), "text": ("u", "v")}),
            LexicalRecord("b", {"text": ("v", "v", "v", "w")}),
            LexicalRecord("c", {"note": ("w",), "text": ()}),
        ]
    )
    # Weighted by heading 2: lengths 4, 4, 1, average 3; u: N 3, n 1; tf of u in a is 2 + 1.
    idf = math.log(1 + 2.5 / 1.5)
    expected = idf * 3 * 2.5 / (3 + 1.5 * (0.25 + 0.75 * 4 / 3))
    assert await _scores(base, ["u"], field_weights={"heading": 2.0}) == {"a": pytest.approx(expected, rel=1e-12)}
    await base.close()


async def test_a_term_may_be_counted_beyond_a_byte_and_beyond_two(tmp_path: Path) -> None:
    base = sqlite_base(tmp_path)
    await base.open()
    for count in (255, 256, 65_535, 65_536):
        await base.lexical.put_many([LexicalRecord(str(count), {"text": ("u",) * count})])
    scores = await _scores(base, ["u"], b=0.0)
    idf = math.log(1 + 0.5 / 4.5)
    assert scores == {str(n): pytest.approx(idf * n * 2.5 / (n + 1.5), rel=1e-12) for n in (255, 256, 65_535, 65_536)}
    await base.close()


async def test_a_stored_vector_is_close_to_the_given_one(tmp_path: Path) -> None:
    given_rows = np.random.default_rng(5).standard_normal((50, 1024)).astype(np.float32) * 40
    base = sqlite_base(tmp_path)
    await base.open()
    await base.chunk_vectors.put_many([VectorRecord(f"{n:02}", row) for n, row in enumerate(given_rows)])
    stored = await base.chunk_vectors.vectors([f"{n:02}" for n in range(50)])
    for n, row in enumerate(given_rows):
        unit = row / np.linalg.norm(row)
        assert stored[f"{n:02}"] @ unit > 1 - 1e-4
        assert np.linalg.norm(stored[f"{n:02}"]) == pytest.approx(1, abs=1e-6)
    await base.close()


async def test_removals_that_are_not_kept_any_more_make_a_mirror_start_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("easy_knowledge_retriever.kg.sqlite.session.REMOVALS_KEPT", 2)
    base = sqlite_base(tmp_path)
    await base.open()
    await base.chunk_vectors.put_many([VectorRecord(str(n), VECTORS[n]) for n in range(9)])
    assert len(await base.chunk_vectors.search(VECTORS[0], 20)) == 9
    await base.chunk_vectors.delete_many(list("01234"))
    assert sorted(hit.id for hit in await base.chunk_vectors.search(VECTORS[0], 20)) == list("5678")
    await base.close()


async def test_the_arrays_are_not_much_larger_than_the_vectors(tmp_path: Path) -> None:
    rows, dimension = 3000, 64
    values = np.random.default_rng(5).standard_normal((rows, dimension)).astype(np.float32)
    base = sqlite_base(tmp_path)
    await base.open()
    for start in range(0, rows, 500):
        batch = [VectorRecord(str(n), values[n]) for n in range(start, start + 500)]
        await base.chunk_vectors.put_many(batch)
        await base.chunk_vectors.search(values[0], 1)
    await base.chunk_vectors.delete_many([str(n) for n in range(0, rows, 5)])
    assert len(await base.chunk_vectors.search(values[0], rows)) == rows * 4 // 5
    store: Any = base.chunk_vectors.store
    (generation,) = store.mirrors.latest().values()
    assert sum(part.segment.matrix.nbytes for part in generation.parts) <= 1.3 * generation.alive * dimension * 4
    await base.close()
