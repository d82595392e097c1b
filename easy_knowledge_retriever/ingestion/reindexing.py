"""The vectors of a base made anew by another model, beside those that are served, and put in their place in one commit.

What is built stands in a set of vectors of its own, see ``kg.vector_storage.live``. For each vector in it a row says of which
text it was made. So an attempt that was killed is gone on with, and what documents came, changed or went meanwhile is found by
comparing: a plan is made in one generation of the base, worked off, and made again until nothing is left to do. The swap holds
only for the generation it was planned in, as every other commit does.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from easy_knowledge_retriever.errors import WorkingDirLockedError
from easy_knowledge_retriever.events import Observer, StageFinished, StageProgress, StageStarted
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.claiming import claimed_commit
from easy_knowledge_retriever.ingestion.estimating import EMBEDDING_LATENCY, OTHER_TOKENIZER, priced
from easy_knowledge_retriever.ingestion.model_guard import SAME_MODEL, ModelGuard
from easy_knowledge_retriever.ingestion.stamps import EmbeddingStamp, Stamps, Unembedded, generation_of, put_stamps, stamps_of
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import add_ingest_usage
from easy_knowledge_retriever.kg.vector_storage.live import LIVE, LivePointer, LiveVectors
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.llm.terms import terms_of
from easy_knowledge_retriever.operations.budget import CountTokens
from easy_knowledge_retriever.operations.indexing import has_vector
from easy_knowledge_retriever.spending.account import Account, charging
from easy_knowledge_retriever.spending.estimate import NOTHING, Range
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import RelationKey, Usage, VectorRecord

__all__ = ["ReindexEstimate", "ReindexReport", "Reindexing", "drop_retired"]

_CLAIM: Final = "reindex"
_BUILDING: Final = "building"
_RETIRED: Final = "retired"
_MADE: Final = "made/"
_AT_ONCE: Final = 128
"""Vectors made and kept in one step: so much a kill may take."""
_READ_AT_ONCE: Final = 500
_PATIENCE: Final = 3
"""Plans that are overtaken by other commits; the next one holds them up."""
_WHOLE: Final = 256

Role = Literal["chunk", "entity", "relation"]


class Item(NamedTuple):
    """One vector of the base."""

    role: Role
    key: str

    @property
    def row(self) -> str:
        """Key of the row that says what it was made of."""
        return f"{_MADE}{self.role}/{self.key}"


class _Text(NamedTuple):
    text: str
    document_id: str = ""
    collection: str = ""

    @property
    def mark(self) -> str:
        """Of what a vector is made, and where it belongs: a document may move to another collection with its chunks."""
        return digest("\n".join((self.document_id, self.collection, self.text)))


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What was made anew."""

    vectors: int
    """How many there are now."""
    kept: int
    """How many of them an attempt before had made."""
    model: str
    """Fingerprint of the model that made them."""
    dimension: int
    before: str = ""
    """Fingerprint of the model before; empty if there were no vectors."""
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """None if the price of the model is not known."""


@dataclass(frozen=True, slots=True)
class ReindexEstimate:
    """What it would take to make the vectors anew. Nothing was sent and nothing written."""

    vectors: int
    """How many there would be."""
    kept: int
    """How many of them an attempt before has made."""
    embedding_calls: Range = NOTHING
    embedding_tokens: Range = NOTHING
    cost: Range | None = NOTHING
    """None if the price of the model is not known."""
    seconds: Range = NOTHING
    """Waiting for the model. What a model takes that runs here is not known."""


@dataclass(frozen=True, slots=True)
class _Plan:
    generation: int
    missing: tuple[Item, ...]
    gone: tuple[Item, ...]
    """Made of what is not there any more."""
    total: int

    @property
    def is_done(self) -> bool:
        return not self.missing and not self.gone


class Reindexing:
    """Makes the vectors of one base anew.

    Args:
        kb: The base.
        embedding: Makes them from now on.
        guard: Of that model.
        count: Counts tokens.
        observer: Is told of the progress.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        embedding: EmbeddingService,
        guard: ModelGuard,
        count: CountTokens,
        observer: Observer,
    ) -> None:
        self._kb = kb
        self._embedding = embedding
        self._guard = guard
        self._count = count
        self._observer = observer
        self._roles: Mapping[Role, LiveVectors] = {
            "chunk": kb.chunk_vectors,
            "entity": kb.entity_vectors,
            "relation": kb.relation_vectors,
        }
        self._account = Account()

    async def estimate(self) -> ReindexEstimate:
        """What it would take."""
        made = await self._made() if await self._goes_on(None) else {}
        plan = await self._plan(made)
        terms, tokens = terms_of(self._embedding), 0
        for at in range(0, len(plan.missing), _READ_AT_ONCE):
            texts = await self._texts(plan.missing[at : at + _READ_AT_ONCE])
            tokens += sum(self._count(text.text) for text in texts.values())
        kept = plan.total - len(plan.missing)
        if terms.line.local:
            return ReindexEstimate(plan.total, kept)
        least = math.ceil(len(plan.missing) / (terms.batch or _WHOLE))
        calls = Range(least, least, least + len(plan.missing) / _AT_ONCE)
        embedded = Range.around(tokens, *OTHER_TOKENIZER)
        cost = priced(terms.price, embedding_tokens=embedded)
        seconds = calls * EMBEDDING_LATENCY * (1 / terms.at_once)
        return ReindexEstimate(plan.total, kept, calls, embedded, cost, seconds)

    async def run(self) -> ReindexReport:
        """Makes them. The ones before are served until the last step; a second call after a kill goes on.

        Raises:
            UpstreamError: The model failed; what it made is kept for the next attempt.
            BudgetExceeded: The next call would pass a ceiling; the same.
            WorkingDirLockedError: Another process makes them anew.
            StorageError: The base could not be changed.
        """
        began, self._account = time.perf_counter(), Account()
        before = (await stamps_of(self._kb)).embedding
        async with self._kb.claim(_CLAIM, wait=0) as got:
            if not got:
                raise WorkingDirLockedError(
                    "the vectors of this base are being made anew already", hint="wait for it to end; nothing was changed"
                )
            with charging(self._account):
                stamp = await self._guard.stamp()
                kept, total = await self._replaced(stamp)
            await self._write({})
        self._guard.forget()
        seconds = time.perf_counter() - began
        self._observer(StageFinished("vectors", "reindex", seconds))
        name = before.fingerprint if before is not None else ""
        return ReindexReport(
            total, kept, stamp.fingerprint, stamp.dimension, name, seconds, self._account.usage, self._account.cost
        )

    async def _replaced(self, stamp: EmbeddingStamp) -> tuple[int, int]:
        """Builds and swaps; gives how many vectors were there already, and how many there are."""
        await _drop_retired(self._kb)
        number = await self._begin(stamp)
        made = await self._made()
        plan = await self._plan(made)
        kept = plan.total - len(plan.missing)
        self._observer(StageStarted("vectors", "reindex", plan.total))
        tries = 0
        while True:
            async with AsyncExitStack() as alone:
                if tries >= _PATIENCE:
                    await alone.enter_async_context(claimed_commit(self._kb))
                    plan = await self._plan(made)
                await self._build(number, plan, made)
                complete = plan.is_done or tries >= _PATIENCE
                swapped = complete and await self._swap(number, stamp, plan.generation)
            if swapped:
                break
            plan, tries = await self._plan(made), tries + 1
        await _drop_retired(self._kb)
        return kept, plan.total

    async def _begin(self, stamp: EmbeddingStamp) -> int:
        """The number of the set to build: one that this model began, or a new one."""
        number = await LivePointer(self._kb.vector_index).number() + 1
        if await self._goes_on(stamp):
            return number
        for vectors in self._roles.values():
            await (await vectors.numbered(number)).drop()
        await _forget_made(self._kb)
        row: JsonObject = {
            "fingerprint": stamp.fingerprint,
            "dimension": stamp.dimension,
            "prefixes": list(stamp.prefixes),
            "probes": base64.b64encode(stamp.probes).decode(),
        }
        await self._kb.vector_index.put_many({_BUILDING: row})
        await self._kb.vector_index.flush()
        return number

    async def _goes_on(self, stamp: EmbeddingStamp | None) -> bool:
        """Whether what is being built is of this model; without a stamp, only its name is compared."""
        row: Mapping[str, Any] | None = (await self._kb.vector_index.get_many([_BUILDING])).get(_BUILDING)
        model = self._embedding
        named = (model.fingerprint, model.embedding_dim, list(model.prefixes))
        if row is None or (row["fingerprint"], row["dimension"], list(row["prefixes"])) != named:
            return False
        probes = base64.b64decode(row["probes"])
        if stamp is None or not probes or not stamp.probes:
            return True
        ours, theirs = (np.frombuffer(packed, "<f4").reshape(-1, model.embedding_dim) for packed in (stamp.probes, probes))
        return float(np.min(np.sum(ours * theirs, axis=1))) >= SAME_MODEL

    async def _made(self) -> dict[Item, str]:
        """What was made so far, with the mark of its text."""
        found: dict[Item, str] = {}
        async for key, row in self._kb.vector_index.scan(_MADE):
            role, _, name = key.removeprefix(_MADE).partition("/")
            if role in self._roles:
                found[Item(role, name)] = str(row["text"])  # type: ignore[arg-type]  # it is one of them
        return found

    async def _plan(self, made: Mapping[Item, str]) -> _Plan:
        async with self._kb.snapshot() as seen:
            generation = await generation_of(seen)
            missing, there = [], set()
            async for item, text in _all_texts(seen):
                there.add(item)
                if made.get(item) != text.mark:
                    missing.append(item)
        return _Plan(generation, tuple(missing), tuple(item for item in made if item not in there), len(there))

    async def _build(self, number: int, plan: _Plan, made: dict[Item, str]) -> None:
        await self._drop(number, plan.gone, made)
        for at in range(0, len(plan.missing), _AT_ONCE):
            items = plan.missing[at : at + _AT_ONCE]
            texts = await self._texts(items)
            await self._make(number, texts, made)
            failpoint("reindex-batch")
            done = plan.total - len(plan.missing) + at + len(items)
            self._observer(StageProgress("vectors", "reindex", done, plan.total))

    async def _make(self, number: int, texts: Mapping[Item, _Text], made: dict[Item, str]) -> None:
        """Makes some vectors and keeps them; the row that says so is written when they are durable."""
        if not texts:
            return
        vectors = await self._embedding.embed([text.text for text in texts.values()], "document")
        for role, live in self._roles.items():
            records = [
                VectorRecord(item.key, vector, text.document_id, text.collection)
                for (item, text), vector in zip(texts.items(), vectors, strict=True)
                if item.role == role
            ]
            if records:
                storage = await live.numbered(number)
                await storage.put_many(records)
                await storage.flush()
        marks = {item: text.mark for item, text in texts.items()}
        await self._write({item.row: {"text": mark} for item, mark in marks.items()})
        made |= marks

    async def _write(self, rows: Mapping[str, Mapping[str, str]]) -> None:
        """Writes down what was made, and what it cost."""
        if rows or self._account.has_unwritten:
            with self._account.writing() as unwritten:
                async with self._kb.transaction() as inside:
                    await inside.vector_index.put_many(rows)
                    await add_ingest_usage(inside, unwritten())

    async def _drop(self, number: int, items: Sequence[Item], made: dict[Item, str]) -> None:
        for role, live in self._roles.items():
            keys = [item.key for item in items if item.role == role]
            if keys:
                storage = await live.numbered(number)
                await storage.delete_many(keys)
                await storage.flush()
        if items:
            await self._kb.vector_index.delete_many([item.row for item in items])
        for item in items:
            del made[item]

    async def _texts(self, items: Sequence[Item]) -> dict[Item, _Text]:
        """What some vectors are to be made of, as far as it is still there."""
        kb, keys = self._kb, {role: [item.key for item in items if item.role == role] for role in self._roles}
        chunks = await kb.chunks.get_many(keys["chunk"])
        entities = await kb.graph.entities(keys["entity"])
        relations = await kb.graph.relations([RelationKey.of_id(key) for key in keys["relation"]])
        found = {
            Item("chunk", key): _Text(chunk.indexed_text, chunk.document_id, chunk.collection) for key, chunk in chunks.items()
        }
        found |= {Item("entity", key): _Text(entity.indexed_text) for key, entity in entities.items() if has_vector(entity)}
        found |= {Item("relation", key.id): _Text(fact.indexed_text) for key, fact in relations.items() if has_vector(fact)}
        return found

    async def _swap(self, number: int, stamp: EmbeddingStamp, generation: int) -> bool:
        """Serves what was built; False, with nothing changed, if the base is not what it was when that was found complete."""
        failpoint("new-index-built")
        async with self._kb.transaction() as inside:
            stamps = await stamps_of(inside)
            if stamps.generation != generation:
                return False
            await put_stamps(inside, stamps, Stamps(generation + 1, stamp, Unembedded()))
            await inside.vector_index.put_many({LIVE: {"value": number}, _RETIRED: {"value": number - 1}})
            await inside.vector_index.delete_many([_BUILDING])
        failpoint("pointer-swapped")
        return True


async def _all_texts(kb: KnowledgeBase) -> AsyncIterator[tuple[Item, _Text]]:
    """What every vector of a base is to be made of."""
    async for key, chunk in kb.chunks.scan():
        yield Item("chunk", key), _Text(chunk.indexed_text, chunk.document_id, chunk.collection)
    keys = await kb.graph.keys()
    for at in range(0, len(keys), _READ_AT_ONCE):
        for key, entity in (await kb.graph.entities(keys[at : at + _READ_AT_ONCE])).items():
            if has_vector(entity):
                yield Item("entity", key), _Text(entity.indexed_text)
    pairs = await kb.graph.relation_keys()
    for at in range(0, len(pairs), _READ_AT_ONCE):
        for pair, relation in (await kb.graph.relations(pairs[at : at + _READ_AT_ONCE])).items():
            if has_vector(relation):
                yield Item("relation", pair.id), _Text(relation.indexed_text)


async def drop_retired(kb: KnowledgeBase) -> None:
    """Drops the vectors that were served before the last swap, if that was not done and nobody is at it."""
    if await kb.vector_index.get_many([_RETIRED]):
        async with kb.claim(_CLAIM, wait=0) as got:
            if got:
                await _drop_retired(kb)


async def _drop_retired(kb: KnowledgeBase) -> None:
    row: Mapping[str, Any] | None = (await kb.vector_index.get_many([_RETIRED])).get(_RETIRED)
    if row is None:
        return
    for vectors in (kb.chunk_vectors, kb.entity_vectors, kb.relation_vectors):
        storage = await vectors.numbered(int(row["value"]))
        await storage.drop()
        await storage.flush()
    await _forget_made(kb)
    failpoint("old-dropped")
    await kb.vector_index.delete_many([_RETIRED])
    await kb.vector_index.flush()


async def _forget_made(kb: KnowledgeBase) -> None:
    keys = [key async for key, _ in kb.vector_index.scan(_MADE)]
    for at in range(0, len(keys), _READ_AT_ONCE):
        await kb.vector_index.delete_many(keys[at : at + _READ_AT_ONCE])
