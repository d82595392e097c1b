"""What the SQLite store costs: writing a document, searching each role, opening, disk and memory.

    python -m evaluation.benchmarks.store --chunks 600 6000

The documents are made up, one chunk each: words and entities drawn by Zipf's law, unit vectors at random, always the same
ones for the same options. Between two sizes the base is filled many documents a commit; at each size documents are committed
one by one and measured.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Output

from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    DocStatus,
    Document,
    Entity,
    EntityMention,
    Extraction,
    FloatVector,
    Fragment,
    LexicalRecord,
    MentionEdge,
    Relation,
    RelationKey,
    SearchFilter,
    VectorRecord,
)

WORDS = 50_000
CHUNK_WORDS = 120
RELATIONS = 6
BULK = 250
MEASURED = 200
QUERIES = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """One made-up document: everything a commit writes for it."""

    document: Document
    chunk: Chunk
    extraction: Extraction
    lexical: LexicalRecord
    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    mentions: tuple[MentionEdge, ...]
    vectors: tuple[VectorRecord, ...]
    entity_vectors: tuple[VectorRecord, ...]
    relation_vectors: tuple[VectorRecord, ...]


class Samples:
    """Made-up documents, one after the other.

    Args:
        dimension: Of the vectors.
        entities: Mentioned by each chunk.
    """

    def __init__(self, dimension: int, entities: int) -> None:
        self.random = np.random.default_rng(7)
        self.dimension = dimension
        self.entities = entities
        self.made = 0

    def words(self, count: int) -> tuple[str, ...]:
        """Words by Zipf's law."""
        return tuple(f"w{number % WORDS}" for number in self.random.zipf(1.2, count).tolist())

    def vector(self) -> FloatVector:
        """A direction at random."""
        return self.random.standard_normal(self.dimension).astype(np.float32)

    def vector_of(self, key: str) -> VectorRecord:
        """A vector under a key."""
        return VectorRecord(key, self.vector())

    def names(self) -> tuple[str, ...]:
        """Names for a chunk: most of them new, the others the more likely the older they are."""
        new = self.entities - self.entities // 3
        old = self.random.zipf(1.3, self.entities - new) % max(self.made * new, 1)
        first = self.made * new
        return tuple(dict.fromkeys(f"entity number {n}" for n in [*range(first, first + new), *old.tolist()]))

    def next(self) -> Sample:
        """The next document."""
        number, words, names = self.made, self.words(CHUNK_WORDS), self.names()
        self.made += 1
        document_id, chunk_id, text = f"{number:032x}", f"{number * 7919:032x}", " ".join(words)
        collection = f"part-{number % 10}"
        pairs = dict.fromkeys(RelationKey.of(names[n % len(names)], names[(n + 1) % len(names)]) for n in range(RELATIONS))
        said = Fragment(chunk_id, text[:120])
        mentions = tuple(EntityMention(name, "THING", text[:120], 0, 10) for name in names)
        return Sample(
            document=Document(document_id, f"doc-{number}.txt", text, f"{number:064x}", collection=collection),
            chunk=Chunk(chunk_id, document_id, f"doc-{number}.txt", f"{number:064x}", 0, text, 0, len(text)),
            extraction=Extraction(chunk_id, document_id, "local", mentions),
            lexical=LexicalRecord(chunk_id, {"heading": words[:4], "text": words}, document_id, collection),
            entities=tuple(Entity(name, ((name, 1),), (("THING", 1),), (said,), (chunk_id,), mention_count=1) for name in names),
            relations=tuple(
                Relation(key, *key, fragments=(said,), weight=1.0, chunk_ids=(chunk_id,), mention_count=1) for key in pairs
            ),
            mentions=tuple(MentionEdge(name, chunk_id, document_id, collection) for name in names),
            vectors=(VectorRecord(chunk_id, self.vector(), document_id, collection),),
            entity_vectors=tuple(map(self.vector_of, names)),
            relation_vectors=tuple(self.vector_of(key.id) for key in pairs),
        )


def base_at(folder: Path) -> KnowledgeBase:
    """A base in a folder, not yet open."""
    return knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )


async def write(inside: KnowledgeBase, sample: Sample) -> None:
    """Writes one document in a transaction."""
    await inside.documents.put_many({sample.document.id: sample.document})
    await inside.chunks.put_many({sample.chunk.id: sample.chunk})
    await inside.extractions.put_many({extraction_key(sample.chunk.id, "local"): sample.extraction})
    await inside.lexical.put_many([sample.lexical])
    await inside.chunk_vectors.put_many(sample.vectors)
    await inside.graph.put_entities(sample.entities)
    await inside.graph.put_relations(sample.relations)
    await inside.graph.put_mentions(sample.mentions)
    await inside.entity_vectors.put_many(sample.entity_vectors)
    await inside.relation_vectors.put_many(sample.relation_vectors)
    await inside.status.put([DocRecord(sample.document.id, sample.document.name, DocStatus.PROCESSED, chunk_count=1)])


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds: the median, and one in twenty takes longer than ``slow``."""

    median: float
    slow: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Cost:
        """The cost of several runs."""
        return cls(statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=20)[-1] * 1000)

    def __str__(self) -> str:
        return f"{self.median:.2f} / {self.slow:.2f}"


async def timed(calls: Iterator[Callable[[], Awaitable[object]]]) -> tuple[Cost, float]:
    """Wall time of calls, and milliseconds of CPU each."""
    seconds: list[float] = []
    cpu = time.process_time()
    for call in calls:
        start = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - start)
    return Cost.of(seconds), (time.process_time() - cpu) / len(seconds) * 1000


async def fill(base: KnowledgeBase, samples: Samples, total: int) -> None:
    """Adds documents until there are ``total``, many a commit."""
    while samples.made < total:
        async with base.transaction() as inside:
            for _ in range(min(BULK, total - samples.made)):
                await write(inside, samples.next())


async def commit(base: KnowledgeBase, sample: Sample) -> None:
    """One document, one commit."""
    async with base.transaction() as inside:
        await write(inside, sample)


def queries(base: KnowledgeBase, samples: Samples) -> dict[str, Callable[[], Awaitable[object]]]:
    """The reads that are measured, by name."""
    random = samples.random

    def chunk_ids(count: int) -> list[str]:
        return [f"{number * 7919:032x}" for number in random.integers(0, samples.made, count).tolist()]

    def names(count: int) -> list[str]:
        return [f"entity number {number}" for number in random.integers(0, samples.made * 5, count).tolist()]

    some = SearchFilter(collections=frozenset({"part-1", "part-2"}))

    def walk(filter: SearchFilter | None) -> Awaitable[object]:
        return base.graph.subgraph(chunk_ids(20), names(10), hops=2, max_nodes=3000, max_degree=200, filter=filter)

    return {
        "vectors of chunks, 50 best": lambda: base.chunk_vectors.search(samples.vector(), 50),
        "vectors of chunks, filtered": lambda: base.chunk_vectors.search(samples.vector(), 50, some),
        "vectors of entities, 50 best": lambda: base.entity_vectors.search(samples.vector(), 50),
        "BM25, 10 terms, 50 best": lambda: base.lexical.search(samples.words(10), 50),
        "BM25, filtered": lambda: base.lexical.search(samples.words(10), 50, some),
        "walk, 2 hops, 3000 nodes": lambda: walk(None),
        "walk, filtered": lambda: walk(some),
        "load 20 chunks": lambda: base.chunks.get_many(chunk_ids(20)),
        "load 20 entities": lambda: base.graph.entities(names(20)),
        "relations of 20 entities": lambda: base.graph.relations_of(names(20)),
        "mentions of 20 entities": lambda: base.graph.mentions_of(names(20), limit=20),
    }


async def first_answers(folder: Path, samples: Samples) -> tuple[float, float]:
    """Milliseconds to open, and until each index has answered once."""
    base = base_at(folder)
    start = time.perf_counter()
    await base.open()
    opened = time.perf_counter()
    for query in queries(base, samples).values():
        await query()
    ready = time.perf_counter()
    await base.close()
    return (opened - start) * 1000, (ready - start) * 1000


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


async def measure(base: KnowledgeBase, samples: Samples, folder: Path, total: int) -> dict[str, str]:
    """The table's column for one size."""
    await fill(base, samples, total - MEASURED)
    fresh = [samples.next() for _ in range(MEASURED)]
    cost, cpu = await timed((lambda s=sample: commit(base, s)) for sample in fresh)  # type: ignore[misc]
    rows = {"commit a document, ms": f"{cost}   {cpu:.2f}"}
    for name, query in queries(base, samples).items():
        await query()
        cost, cpu = await timed(query for _ in range(QUERIES))
        rows[f"{name}, ms"] = f"{cost}   {cpu:.2f}"
    opened, ready = await first_answers(folder, samples)
    counts = await base.graph.counts()
    rows |= {
        "open, ms": f"{opened:.1f}",
        "open and load every index, ms": f"{ready:.0f}",
        "entities, relations, mentions": f"{counts.entities}, {counts.relations}, {counts.mentions}",
        "file, MB": f"{size_of(folder) / 1e6:.1f}",
        "peak memory of the process, MB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
    }
    return rows


async def run(sizes: Sequence[int], dimension: int, entities: int) -> None:
    """Measures and prints."""
    columns: dict[int, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, samples = Path(name), Samples(dimension, entities)
        base = base_at(folder)
        await base.open()
        for size in sizes:
            columns[size] = await measure(base, samples, folder, size)
        await base.close()
    table = Output("median / 95th percentile   CPU", *(f"{size} chunks" for size in columns))
    for row in next(iter(columns.values())):
        table.add_row(row, *(column[row] for column in columns.values()))
    Console(width=120).print(table)


def main() -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.benchmarks.store", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[600, 6000], help="sizes to measure at, at least 400 apart")
    parser.add_argument("--dimension", type=int, default=384, help="of the vectors")
    parser.add_argument("--entities", type=int, default=8, help="mentioned by each chunk")
    options = parser.parse_args()
    asyncio.run(run(sorted(options.chunks), options.dimension, options.entities))


if __name__ == "__main__":
    main()
