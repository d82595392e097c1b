"""What a storage costs as the base grows: adding one document, opening, memory, disk.

    python -m evaluation.benchmarks.storages --store sqlite --sizes 1000 10000 100000

The base is filled through the ports with made-up rows, ten chunks a document, always the same for the same options: words
drawn by Zipf's law, entities from a pool that grows with a fifth of the chunks, unit vectors at random. At each size
documents of one chunk are ingested, one after the other, through the whole pipeline with a model that embeds at no cost; the
medians of time and of CPU are shown, and their ratio to those of the first size. Then a process of its own opens the base and
asks each index once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, extraction_key
from easy_knowledge_retriever.operations.indexing import lexical_records
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.text.hashing import digest, document_id
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    DocStatus,
    Document,
    Entity,
    EntityMention,
    Extraction,
    FloatVectors,
    Fragment,
    MentionEdge,
    Relation,
    RelationKey,
    VectorRecord,
)
from evaluation.crashing.places import PLACES, Place
from evaluation.crashing.worker import Words, by_paragraph

CHUNKS = 10
"""Of a document."""
CHUNK_WORDS = 80
MENTIONS = 4
"""Entities of a chunk; one in five chunks brings a new one."""
BULK = 100
"""Documents written in one transaction."""
MEASURED = 15
"""Documents that are ingested at each size."""
WORDS = 50_000


class Samples:
    """Made-up documents, one after the other.

    Args:
        dimension: Of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._random = np.random.default_rng(7)
        self.dimension = dimension
        self.chunks = 0

    def text(self) -> str:
        """Words by Zipf's law, and names of entities between them."""
        words = [f"w{number % WORDS}" for number in self._random.zipf(1.2, CHUNK_WORDS).tolist()]
        return f"{' '.join(words)}. " + " ".join(f"Here stands {name}." for name in self.names())

    def names(self) -> tuple[str, ...]:
        """Names of a chunk, all of them likely to be known."""
        pool = max(self.chunks // 5, MENTIONS)
        return tuple(dict.fromkeys(_name(int(n)) for n in self._random.integers(0, pool, MENTIONS)))

    def vectors(self, count: int) -> FloatVectors:
        """Directions at random."""
        return self._random.standard_normal((count, self.dimension)).astype(np.float32)

    def document(self) -> tuple[Document, tuple[Chunk, ...], list[tuple[str, ...]]]:
        """The next document, its chunks, and the names in each."""
        name = f"doc-{self.chunks}.txt"
        texts, said = [], []
        for _ in range(CHUNKS):
            names = self.names()
            if self.chunks % 5 == 0:
                names = tuple(dict.fromkeys((*names, _name(self.chunks // 5))))
            words = [f"w{number % WORDS}" for number in self._random.zipf(1.2, CHUNK_WORDS).tolist()]
            texts.append(f"{' '.join(words)}. {' '.join(names)}.")
            said.append(names)
            self.chunks += 1
        whole = "\n\n".join(texts)
        document = Document(document_id(name), name, whole, digest(whole))
        chunks, at = [], 0
        for order, text in enumerate(texts):
            chunk_id = digest(f"{document.id} {order}")[:40]
            chunks.append(Chunk(chunk_id, document.id, name, document.digest, order, text, at, at + len(text)))
            at += len(text) + 2
        return document, tuple(chunks), said


def _name(number: int) -> str:
    letters = "".join(chr(97 + int(figure)) for figure in str(number))
    return f"Ent{letters}"


class Filling:
    """Writes made-up documents into a base through its ports.

    Args:
        base: The base, open.
        samples: Makes the documents.
    """

    def __init__(self, base: KnowledgeBase, samples: Samples) -> None:
        self._base = base
        self._samples = samples

    async def up_to(self, chunks: int) -> None:
        """Adds documents until there are so many chunks."""
        while self._samples.chunks < chunks:
            await self._write(min(BULK, -(-(chunks - self._samples.chunks) // CHUNKS)))

    async def _write(self, count: int) -> None:
        made = [self._samples.document() for _ in range(count)]
        documents, chunks = [d for d, _, _ in made], [c for _, some, _ in made for c in some]
        said = dict(zip((chunk.id for chunk in chunks), (names for _, _, some in made for names in some), strict=True))
        async with self._base.transaction() as inside:
            await inside.documents.put_many({d.id: d for d in documents})
            await inside.manifests.put_many({d.id: tuple(c.id for c in some) for d, some, _ in made})
            await inside.chunks.put_many({chunk.id: chunk for chunk in chunks})
            rows = zip(chunks, self._samples.vectors(len(chunks)), strict=True)
            await inside.chunk_vectors.put_many([VectorRecord(c.id, v, c.document_id, "") for c, v in rows])
            await inside.lexical.put_many(lexical_records(chunks))
            await inside.extractions.put_many({extraction_key(c.id, "local"): _extraction(c, said[c.id]) for c in chunks})
            await self._write_graph(inside, chunks, said)
            await inside.status.put([_record(d) for d in documents])

    async def _write_graph(self, inside: KnowledgeBase, chunks: Sequence[Chunk], said: dict[str, tuple[str, ...]]) -> None:
        entities: dict[str, Entity] = {}
        relations: dict[RelationKey, Relation] = {}
        for chunk in chunks:
            fragment = (Fragment(chunk.id, chunk.text[:100]),)
            for name in said[chunk.id]:
                key = name.lower()
                entities[key] = Entity(key, ((name, 1),), (("Concept", 1),), fragment, (chunk.id,), mention_count=1)
            first, second = said[chunk.id][0].lower(), said[chunk.id][-1].lower()
            if first != second:
                pair = RelationKey.of(first, second)
                relations[pair] = Relation(pair, *pair, fragments=fragment, weight=1.0, chunk_ids=(chunk.id,), mention_count=1)
        await inside.graph.put_entities(list(entities.values()))
        await inside.graph.put_relations(list(relations.values()))
        await inside.graph.put_mentions(
            [MentionEdge(name.lower(), chunk.id, chunk.document_id, "") for chunk in chunks for name in said[chunk.id]]
        )
        for index, keys in ((inside.entity_vectors, list(entities)), (inside.relation_vectors, [k.id for k in relations])):
            vectors = self._samples.vectors(len(keys))
            await index.put_many([VectorRecord(key, vector) for key, vector in zip(keys, vectors, strict=True)])


def _extraction(chunk: Chunk, names: Sequence[str]) -> Extraction:
    return Extraction(
        chunk.id, chunk.document_id, "local", tuple(EntityMention(name, "Concept", chunk.text[:100]) for name in names)
    )


def _record(document: Document) -> DocRecord:
    return DocRecord(document.id, document.name, DocStatus.PROCESSED, version=document.digest, chunk_count=CHUNKS)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a process that opens a base sees of it. Memory is what it takes above what it took before, in bytes."""

    open_ms: float
    after_open: int
    first_search_ms: float
    """Of the vectors of the chunks."""
    after_search: int
    ready_ms: float
    """From the beginning of opening until every index answered once."""
    after_all: int
    peak: int


def _retriever(place: Place, dimension: int) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(
        embedding_service=FakeEmbeddingService(dimension),
        tokenizer=Words(),
        chunking_func=by_paragraph,
        **PLACES[place.store].storages(place),
    )


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def probe(place: Place, dimension: int) -> Opened:
    """Opens a base and asks each index once."""
    rag, vector = _retriever(place, dimension), np.ones(dimension, np.float32)
    before, start = _resident(), time.perf_counter()
    await rag.initialize_storages()
    opened, after_open, base = time.perf_counter(), _resident(), rag._kb
    await base.chunk_vectors.search(vector, 20)
    searched, after_search = time.perf_counter(), _resident()
    for index in (base.entity_vectors, base.relation_vectors):
        await index.search(vector, 20)
    await base.lexical.search(["w1", "w7"], 20)
    await base.graph.subgraph([], ["enta", "entb"], hops=1, max_nodes=100, max_degree=50)
    ready, after_all = time.perf_counter(), _resident()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    await rag.finalize_storages()
    return Opened(
        (opened - start) * 1000,
        after_open - before,
        (searched - opened) * 1000,
        after_search - before,
        (ready - start) * 1000,
        after_all - before,
        peak - before,
    )


async def _probed(place: Place, dimension: int) -> Opened:
    """The same in a process of its own, whose memory holds nothing else."""
    command = [sys.executable, "-m", "evaluation.benchmarks.storages", "--probe", json.dumps(asdict(place))]
    found = await asyncio.to_thread(
        subprocess.run, [*command, "--dimension", str(dimension)], check=True, capture_output=True, text=True
    )
    return Opened(**json.loads(found.stdout))


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures at one size."""

    add_ms: float
    slowest_ms: float
    add_cpu_ms: float
    """Of this process alone, the median; what a server does is not in it."""
    vectors: int
    """Of chunks, entities and relations."""
    opened: Opened
    disk: int


async def measure(place: Place, samples: Samples, size: int) -> Measured:
    """Fills a base to a size and measures there."""
    rag = _retriever(place, samples.dimension)
    async with rag:
        await Filling(rag._kb, samples).up_to(size)
    seconds, cpu = [], []
    async with rag:
        for number in range(MEASURED + 2):
            text = samples.text()
            start, used = time.perf_counter(), time.process_time()
            await rag.ainsert(text, file_paths=f"fresh-{size}-{number}.txt")
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - used)
        base = rag._kb
        indexes = (base.chunk_vectors, base.entity_vectors, base.relation_vectors)
        vectors = sum([await index.count() for index in indexes])
    opened = await _probed(place, samples.dimension)
    warm, own = seconds[2:], statistics.median(cpu[2:]) * 1000  # the first ones load what a process loads once
    disk = await asyncio.to_thread(PLACES[place.store].size, place)
    return Measured(statistics.median(warm) * 1000, max(warm) * 1000, own, vectors, opened, disk)


def table(store: str, dimension: int, found: dict[int, Measured]) -> Table:
    """The figures, a column a size."""
    first = next(iter(found.values()))
    shown = Table(f"{store}, {dimension} dimensions", *(f"{size} chunks" for size in found))

    def row(name: str, *cells: str) -> None:
        shown.add_row(name, *cells)

    columns = [(size, size * dimension * 4, m.vectors * dimension * 4, m) for size, m in found.items()]
    row("add a document, ms, median / slowest", *(f"{m.add_ms:.1f} / {m.slowest_ms:.1f}" for *_, m in columns))
    row("  the median against the first size", *(f"{m.add_ms / first.add_ms:.2f}" for *_, m in columns))
    row("own CPU of it, ms, median", *(f"{m.add_cpu_ms:.1f}" for *_, m in columns))
    row("  against the first size", *(f"{m.add_cpu_ms / first.add_cpu_ms:.2f}" for *_, m in columns))
    row("open, ms", *(f"{m.opened.open_ms:.0f}" for *_, m in columns))
    row("  memory then, MB", *(f"{m.opened.after_open / 1e6:.1f}" for *_, m in columns))
    row("first search of the chunks, ms", *(f"{m.opened.first_search_ms:.0f}" for *_, m in columns))
    row("  memory then, MB", *(f"{m.opened.after_search / 1e6:.1f}" for *_, m in columns))
    row("  against their vectors as float32", *(f"{m.opened.after_search / raw:.2f}" for _, raw, _, m in columns))
    row("open and ask every index once, ms", *(f"{m.opened.ready_ms:.0f}" for *_, m in columns))
    row("  memory then, MB", *(f"{m.opened.after_all / 1e6:.1f}" for *_, m in columns))
    row("  against all vectors as float32", *(f"{m.opened.after_all / every:.2f}" for _, _, every, m in columns))
    row("peak memory, MB", *(f"{m.opened.peak / 1e6:.1f}" for *_, m in columns))
    row("vectors of all kinds", *(str(m.vectors) for *_, m in columns))
    row("disk, MB", *(f"{m.disk / 1e6:.1f}" for *_, m in columns))
    return shown


async def run(store: str, sizes: Sequence[int], dimension: int) -> dict[int, Measured]:
    """Measures, and prints what is known after each size.

    Args:
        store: Key of ``PLACES``.
        sizes: Numbers of chunks, ascending.
        dimension: Of the vectors.
    """
    with tempfile.TemporaryDirectory() as name:
        place, samples = await asyncio.to_thread(PLACES[store](Path(name)).fresh), Samples(dimension)
        found: dict[int, Measured] = {}
        for size in sizes:
            found[size] = await measure(place, samples, size)
            Console(width=120).print(table(store, dimension, found))
    return found


def main() -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.benchmarks.storages", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--store", choices=sorted(PLACES), default="sqlite")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--dimension", type=int, default=384, help="of the vectors")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(asdict(asyncio.run(probe(Place(**json.loads(options.probe)), options.dimension)))))
    else:
        asyncio.run(run(options.store, sorted(options.sizes), options.dimension))


if __name__ == "__main__":
    main()
