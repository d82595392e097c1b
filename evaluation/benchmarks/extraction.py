"""What the library costs beside its models when a language model extracts: CPU, time, disk, memory, prompt tokens.

    python -m evaluation.benchmarks.extraction --sizes 200 2000 20000

The corpus is made up, always the same one for the same options: chunks of some 110 tokens that name seven entities, most of
them known from earlier chunks by a law of Zipf, and six relations between them. A model in the process replays, in the
library's own line format, what a language model would write of each chunk; an embedding model of 384 dimensions sums a
direction a word. The CPU of both is counted apart and taken off. Everything goes through the public interface on the embedded
store.

Each size is measured in a process of its own, so its peak of memory is its own, and all in one run, so that the ratios
between sizes hold on any machine; absolute times are to be read beside the calibration, a fixed piece of plain Python.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import resource
import statistics
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.settings import Gleaning
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer
from easy_knowledge_retriever.types import FloatVectors, Usage

ENTITIES, RELATIONS = 7, 6
NEW_NAMES = 0.4
"""Share of the mentions that name something for the first time, while the corpus is small."""
WORDS = 20_000
CHUNKS_A_DOCUMENT = 10
WINDOW = 20
"""Documents in one measured window, fewer in a small base."""
WINDOWS = 3
ASKED = 40
"""Questions a mode."""
SAMPLED = 200
"""Requests whose prompt is counted in tokens."""
SYLLABLES = [a + b for a in ("b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "s", "st", "t", "v") for b in "aeiou"]
TYPES = ("Person", "Organization", "Location", "Event", "Concept")
_RECORD = re.compile(r"Record (\d+) ")


@dataclass(frozen=True, slots=True)
class MadeChunk:
    """A chunk, what a model would write of it, and a question about it."""

    text: str
    reply: str
    question: str
    names: tuple[str, ...]
    theme: str


class Corpus:
    """Made-up chunks, one after the other, the same ones for the same seed.

    Args:
        seed: Of the random numbers.
    """

    def __init__(self, seed: int = 11) -> None:
        self.random = np.random.default_rng(seed)
        self.words = ["".join(self.random.choice(SYLLABLES, 2)) for _ in range(WORDS)]
        self.names: list[str] = []
        self.made = 0

    def phrase(self, count: int) -> str:
        """Words by Zipf's law."""
        return " ".join(self.words[int(WORDS**u) - 1] for u in self.random.random(count).tolist())

    def name(self) -> str:
        """A new name, or one from before: the older, the more likely."""
        if not self.names or self.random.random() < NEW_NAMES:
            parts = ("".join(self.random.choice(SYLLABLES, 3)).title(), "".join(self.random.choice(SYLLABLES, 2)).title())
            self.names.append(" ".join(parts))
            return self.names[-1]
        place = int(len(self.names) ** self.random.random())
        return self.names[min(place, len(self.names) - 1)]

    def next(self) -> MadeChunk:
        """The next chunk."""
        number = self.made
        self.made += 1
        names: list[str] = []
        while len(names) < ENTITIES:
            name = self.name()
            if name not in names:
                names.append(name)
        sentences, records = [f"Record {number} of the file."], []
        for name in names:
            kind = TYPES[zlib.crc32(name.encode()) % len(TYPES)]
            records.append(f"E | {name} | {kind} | {name} is the one of which the record says {self.phrase(5)}.")
        for place in range(RELATIONS):
            first, second, about = names[place], names[place + 1], self.phrase(2)
            sentences.append(f"{first} {self.phrase(1)} the {second} {self.phrase(3)}.")
            records.append(
                f"R | {first} | {second} | {about} | {place + 1} | {first} has to do with {second} by {self.phrase(4)}."
            )
        theme = self.phrase(2)
        question = f"What does {names[0]} have to do with {names[1]} and {theme}?"
        return MadeChunk(" ".join(sentences), "\n".join([*records, "END"]), question, tuple(names), theme)


@dataclass(slots=True)
class Spent:
    """Seconds and CPU seconds of the models."""

    seconds: float = 0.0
    cpu: float = 0.0


class Spending:
    """Adds what happens in a block to what was spent."""

    def __init__(self, spent: Spent) -> None:
        self.spent = spent

    def __enter__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *exc: object) -> None:
        self.spent.seconds += time.perf_counter() - self.began
        self.spent.cpu += time.process_time() - self.cpu


class Replayed(LLMService):
    """Writes what stands in the corpus, keywords for a question, and answers that cite the first passage.

    Args:
        spent: Is told what it cost.
    """

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._count = TiktokenTokenizer().count
        self._replies: dict[str, str] = {}
        self.keywords: dict[str, str] = {}
        """Of the latest questions."""
        self.extractions = 0
        self.summaries = 0
        self.prompts: list[tuple[int, int]] = []
        """Tokens of a request for an extraction, and those of them that a provider has from the one before."""
        self.chunk_tokens: list[int] = []

    @property
    def model(self) -> str:
        return "replayed"

    def learn(self, number: int, chunk: MadeChunk) -> None:
        """What to write of a chunk, and of the question about it."""
        self._replies[str(number)] = chunk.reply
        self.keywords[chunk.question] = f"THEMES: {chunk.theme}\nDETAILS: {'; '.join(chunk.names[:2])}"
        while len(self.keywords) > ASKED:
            self.keywords.pop(next(iter(self.keywords)))
        if len(self.chunk_tokens) < SAMPLED:
            self.chunk_tokens.append(self._count(chunk.text))

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        with Spending(self._spent):
            text = self._extracted(messages) if priority == "ingest" else self._asked(messages)
            # About what an endpoint would say: a token has four characters.
            prompt = sum(len(message.content) for message in messages) // 4
        return Completion(text, usage=Usage(llm_calls=1, prompt_tokens=prompt, completion_tokens=len(text) // 4))

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        yield (await self.complete(messages, priority=priority)).text

    def _asked(self, messages: Sequence[Message]) -> str:
        if "DETAILS" in messages[0].content:
            return next(words for question, words in self.keywords.items() if question in messages[-1].content)
        return "It is so, as the passage says [1]."

    def _extracted(self, messages: Sequence[Message]) -> str:
        if messages[-1].content.startswith("Subject: "):
            self.summaries += 1
            return "It is what the records say of it, and of which they say so in many ways."
        self.extractions += 1
        again = any(message.role == "assistant" for message in messages)
        if len(self.prompts) < SAMPLED:
            # A further round goes on from the request before it; the others share the instructions.
            tokens = [self._count(message.content) for message in messages]
            self.prompts.append((sum(tokens), sum(tokens[:-1] if again else tokens[:1])))
        return "END" if again else self._replies[self._number(messages)]

    @staticmethod
    def _number(messages: Sequence[Message]) -> str:
        found = (_RECORD.search(message.content) for message in messages if message.role == "user")
        return next(match[1] for match in found if match)


class Summed(EmbeddingService):
    """A direction a word, summed: cheap, and dense as the vectors of a model are.

    Args:
        spent: Is told what it cost.
    """

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._directions = np.random.default_rng(3).standard_normal((4096, 384)).astype(np.float32)
        self.calls = 0

    @property
    def embedding_dim(self) -> int:
        return 384

    @property
    def fingerprint(self) -> str:
        return "summed/384"

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        with Spending(self._spent):
            self.calls += 1
            numbers = [[zlib.crc32(word.encode()) % 4096 for word in text.lower().split()] or [0] for text in texts]
            vectors = np.stack([self._directions[row].sum(axis=0) for row in numbers])
            return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@dataclass(frozen=True, slots=True)
class Cost:
    """Own milliseconds of one question: CPU and wall."""

    cpu: float
    wall: float


@dataclass(slots=True)
class Measured:
    """What one size came to."""

    size: int
    calibration: float = 0.0
    """Milliseconds of the fixed piece of Python, the least of many."""
    ingest: list[Cost] = field(default_factory=list)
    """Of a chunk, window by window, in documents of several."""
    single: list[Cost] = field(default_factory=list)
    """Of a chunk that is its own document."""
    questions: dict[str, list[Cost]] = field(default_factory=dict)
    """Up to the context, by mode."""
    answers: list[Cost] = field(default_factory=list)
    """Of the default mode, with the answer and the check of its citations."""
    graph: tuple[int, int, int] = (0, 0, 0)
    """Entities, relations, mentions."""
    tokens: float = 0.0
    """Of a chunk."""
    calls: float = 0.0
    """Extraction requests a chunk."""
    summaries: float = 0.0
    """Summary requests a chunk."""
    prompt: float = 0.0
    """Prompt tokens a chunk."""
    fresh: float = 0.0
    """Those of them that a provider had not been sent just before."""
    embedding_calls: float = 0.0
    """A document of several chunks."""
    disk: float = 0.0
    """MB of all files, after closing."""
    started: float = 0.0
    """MiB of memory before the base was opened."""
    peak: float = 0.0
    """MiB of memory at most."""


class Bench:
    """Ingests and asks, and takes the models off.

    Args:
        rag: Open.
        corpus: Where the documents come from.
        llm: Is told what to reply.
        spent: What the models cost.
    """

    def __init__(self, rag: EasyKnowledgeRetriever, corpus: Corpus, llm: Replayed, spent: Spent) -> None:
        self.rag, self.corpus, self.llm, self.spent = rag, corpus, llm, spent

    async def ingest(self, documents: int, chunks: int) -> Cost:
        """Takes in documents of so many chunks; the cost of a chunk."""
        made = [[self._next() for _ in range(chunks)] for _ in range(documents)]
        texts = ["\n\n".join(chunk.text for chunk in part) for part in made]
        names = [f"file-{self.corpus.made}-{number}.txt" for number in range(documents)]
        cost = self._since(documents * chunks)
        await self.rag.ainsert(texts, split_by_character="\n\n", split_by_character_only=True, file_paths=names)
        return cost()

    async def ask(self, question: str, param: QueryParam) -> Cost:
        """The cost of one question."""
        cost = self._since(1)
        await self.rag.aquery(question, param)
        return cost()

    def _next(self) -> MadeChunk:
        number, chunk = self.corpus.made, self.corpus.next()
        self.llm.learn(number, chunk)
        return chunk

    def _since(self, count: int) -> Callable[[], Cost]:
        began, cpu, seconds, models = time.perf_counter(), time.process_time(), self.spent.seconds, self.spent.cpu

        def cost() -> Cost:
            own = time.process_time() - cpu - (self.spent.cpu - models)
            wall = time.perf_counter() - began - (self.spent.seconds - seconds)
            return Cost(1000 * own / count, 1000 * wall / count)

        return cost


def calibrated() -> float:
    """Milliseconds of CPU of a fixed piece of plain Python, the least of twenty."""
    times = []
    for _ in range(20):
        began = time.process_time()
        counts: dict[str, int] = {}
        for number in range(50_000):
            key = str(number % 977)
            counts[key] = counts.get(key, 0) + number
        times.append(time.process_time() - began)
    return 1000 * min(times)


def memory() -> float:
    """MiB of memory the process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(size: int, gleaning: Gleaning = "always") -> Measured:
    """A base of so many chunks."""
    found, spent, corpus = Measured(size, calibrated()), Spent(), Corpus()
    llm, embedding = Replayed(spent), Summed(spent)
    found.started = memory()
    with tempfile.TemporaryDirectory() as folder:
        async with EasyKnowledgeRetriever(
            folder, llm_service=llm, embedding_service=embedding, entity_extract_gleaning=gleaning
        ) as rag:
            bench = Bench(rag, corpus, llm, spent)
            await _measure_ingest(bench, found, embedding)
            await _measure_questions(bench, found)
            counts = await rag.get_graph_counts()
            found.graph = (counts.entities, counts.relations, counts.mentions)
        found.disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
    found.peak = memory()
    return found


async def _measure_ingest(bench: Bench, found: Measured, embedding: Summed) -> None:
    """Fills the base, and measures the documents that make it full."""
    chunks = CHUNKS_A_DOCUMENT
    documents = max(1, min(WINDOW, found.size // (2 * WINDOWS * chunks)))
    singles = max(1, documents // 2)
    while bench.corpus.made + WINDOWS * (documents * chunks + singles) + chunks <= found.size:
        await bench.ingest(1, chunks)
    found.single = [await bench.ingest(singles, 1) for _ in range(WINDOWS)]
    before = embedding.calls
    found.ingest = [await bench.ingest(documents, chunks) for _ in range(WINDOWS)]
    found.embedding_calls = (embedding.calls - before) / (WINDOWS * documents)
    llm = bench.llm
    found.tokens = statistics.mean(llm.chunk_tokens)
    found.calls = llm.extractions / bench.corpus.made
    found.summaries = llm.summaries / bench.corpus.made
    found.prompt = found.calls * statistics.mean(sent for sent, _ in llm.prompts)
    found.fresh = found.calls * statistics.mean(sent - known for sent, known in llm.prompts)


async def _measure_questions(bench: Bench, found: Measured) -> None:
    """Asks in every mode; each question twice, of which the faster counts."""
    questions = list(bench.llm.keywords)
    for mode in STRATEGIES:
        found.questions[mode] = await _asked(bench, questions, QueryParam(mode=mode, only_need_context=True))
    found.answers = await _asked(bench, questions, QueryParam())


async def _asked(bench: Bench, questions: Sequence[str], param: QueryParam) -> list[Cost]:
    await bench.ask(questions[0], param)
    costs = []
    for question in questions:
        twice = [await bench.ask(question, param) for _ in range(2)]
        costs.append(Cost(min(cost.cpu for cost in twice), min(cost.wall for cost in twice)))
    return costs


def apart(size: int, gleaning: Gleaning) -> Measured:
    """Measures a size in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(alone, size, gleaning).result()


def alone(size: int, gleaning: Gleaning) -> Measured:
    """Measures a size in this process."""
    return asyncio.run(measure(size, gleaning))


def rows(found: Measured) -> dict[str, float]:
    """The figures of a size, by what they are."""
    table = {
        "calibration, ms": found.calibration,
        "tokens a chunk": found.tokens,
        "ingest, CPU ms a chunk, documents of ten": statistics.mean(cost.cpu for cost in found.ingest),
        "  the best window of three": min(cost.cpu for cost in found.ingest),
        "  wall ms": statistics.mean(cost.wall for cost in found.ingest),
        "ingest, CPU ms a chunk, documents of one": statistics.mean(cost.cpu for cost in found.single),
        "extraction requests a chunk": found.calls,
        "summary requests a chunk": found.summaries,
        "prompt tokens a chunk": found.prompt,
        "  not sent just before": found.fresh,
        "embedding requests a document of ten": found.embedding_calls,
        "MB on disk": found.disk,
        "MiB of memory at most": found.peak,
        "  before the base was opened": found.started,
    }
    table |= dict(zip(("entities", "relations", "mentions"), map(float, found.graph), strict=True))
    for name, costs in {**found.questions, "answered": found.answers}.items():
        cpu = sorted(cost.cpu for cost in costs)
        table[f"{name}, CPU ms p50"] = statistics.median(cpu)
        table[f"{name}, CPU ms p95"] = cpu[int(0.95 * (len(cpu) - 1))]
        table[f"{name}, wall ms p50"] = statistics.median(cost.wall for cost in costs)
    return table


def output(measured: Sequence[Measured]) -> Table:
    """A column a size, and how the last compares with the first."""
    table = Table("", *(f"{found.size} chunks" for found in measured), "last / first", title="models taken off")
    columns = [rows(found) for found in measured]
    for name, first in columns[0].items():
        ratio = f"{columns[-1][name] / first:.2f}" if first and len(columns) > 1 else ""
        table.add_row(name, *(f"{column[name]:.1f}" for column in columns), ratio)
    return table


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[800, 2000], help="chunks, one base each")
    parser.add_argument("--gleaning", choices=get_args(Gleaning), default="always", help="when a chunk is read once more")
    options = parser.parse_args()
    Console(width=110).print(output([apart(size, options.gleaning) for size in sorted(options.sizes)]))


if __name__ == "__main__":
    main()
