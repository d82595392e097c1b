"""Any sequence of changes, failures and crashes: the base is sound after each, and in the end a function of what is in it."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from easy_knowledge_retriever import failpoints
from easy_knowledge_retriever.errors import EKRError, StorageError
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.json_doc_status_impl import JsonDocStatusStorage
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.text.hashing import digest, document_id
from easy_knowledge_retriever.types import Document
from evaluation.crashing.places import PLACES, Place, Places
from evaluation.crashing.points import POINTS
from tests.flows.changing_base import TIGHT
from tests.flows.ingesting_base import Described, document, empty_base, ingestion
from tests.support.postgres import postgres

WORDS = ["Verdel", "Kell", "Brandt", "Ostrania", "Marlow", "river", "near", "the", "Kell.", "flows."]
names = st.sampled_from(["a", "b", "c"])
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)
ingest_points = st.sampled_from([point for point in POINTS["ingest"] if not point.startswith(("parse", "source"))])
delete_points = st.sampled_from(POINTS["delete"])


def sqlite(place: Place) -> KnowledgeBase:
    """A base, not open."""
    return knowledge_base(
        SqliteKVStorage(place.where, durability="relaxed"),
        SqliteDocStatusStorage(place.where, durability="relaxed"),
        SqliteVectorStorage(place.where, durability="relaxed"),
        SqliteLexicalStorage(place.where, durability="relaxed"),
        SqliteGraphStorage(place.where, durability="relaxed"),
    )


def files(place: Place) -> KnowledgeBase:
    """The same."""
    return knowledge_base(
        JsonKVStorage(place.where, durability="relaxed"),
        JsonDocStatusStorage(place.where, durability="relaxed"),
        NanoVectorDBStorage(place.where, durability="relaxed"),
        BM25Storage(place.where, durability="relaxed"),
        NetworkXStorage(place.where, durability="relaxed"),
    )


def on_a_server(place: Place) -> KnowledgeBase:
    """The same."""
    storages = PLACES["postgres"].storages(place)
    return knowledge_base(*(storages[f"{role}_storage"] for role in ("kv", "doc_status", "vector", "lexical", "graph")))


BASES: dict[str, Callable[[Place], KnowledgeBase]] = {"sqlite": sqlite, "files": files, "postgres": on_a_server}


def left_by_a_kill(places: Places, place: Place) -> Place:
    """What ``kill -9`` would leave now. The rest of this process goes on with what it does not."""

    def taken() -> Place:
        if place.store == "postgres":
            name = json.loads(place.where)["database"]
            ended = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'"
            asyncio.run(postgres().execute("postgres", ended))
        return places.copy(place)

    with ThreadPoolExecutor(1) as beside:  # a loop runs in this thread, and must not go on meanwhile
        return beside.submit(taken).result()


def flow_of(kb: KnowledgeBase, limits: Settings) -> Ingestion:
    """An ingestion with models that cost nothing."""
    model = FakeLLMService(lambda messages: f"All told, {digest(messages[-1].content)}.")
    summarizer = Summarizer(model, "fake", SummaryLimits(fragments=3), lambda text: len(text.split()))
    return ingestion(kb, settings=limits, llm_extractor=Described("llm"), summarizer=summarizer)


@dataclass
class Point:
    """Stands for the failpoints of this process: acts the first time one of a name is passed."""

    name: str
    act: Callable[[], str | None]
    passed: bool = False

    def get(self, name: str, default: str | None = None) -> str | None:
        if name != self.name or self.passed:
            return default
        self.passed = True
        return self.act()


class Changes(RuleBasedStateMachine):
    """Documents come, change, get other names and go; now and then that fails, is cancelled, or the process dies."""

    store: str

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="ekr-sequences-"))
        self.places = PLACES[self.store](self.home)
        self.made = [self.places.fresh()]
        """Where the base is, last, and was before each crash."""
        self.loop = asyncio.Runner()
        self.limits = Settings()
        self.there: dict[str, Document] = {}
        """By id: what is served."""
        self.coming: dict[str, Document] = {}
        """By id: what was on its way in when that ended."""
        self.begun = False
        self.left: list[Place] = []
        """What the crash that was just had left."""

    @initialize(limits=st.sampled_from([Settings(), TIGHT]))
    def begin(self, limits: Settings) -> None:
        self.limits = limits
        self.loop.run(self._open())
        self.begun = True

    @rule(name=names, text=texts)
    def ingest(self, name: str, text: str) -> None:
        self._settle(self._named(name, text), None)

    @rule(name=names)
    def delete(self, name: str) -> None:
        self._forget(name, None)

    @rule(name=names, other=st.sampled_from(["x", "y"]))
    def rename(self, name: str, other: str) -> None:
        served = self.there.get(document_id(name))
        assume(served is not None)
        assert served is not None
        self._settle(replace(served, name=other), None)

    @rule(name=names, text=texts, point=ingest_points)
    def fail(self, name: str, text: str, point: str) -> None:
        self._settle(self._named(name, text), Point(point, lambda: "raise"))

    @rule(name=names, text=texts, point=ingest_points)
    def cancel(self, name: str, text: str, point: str) -> None:
        self._settle(self._named(name, text), Point(point, self._cancelled))

    @rule(name=names, text=texts, point=ingest_points)
    def crash(self, name: str, text: str, point: str) -> None:
        self._settle(self._named(name, text), Point(point, self._dying))

    @rule(name=names, point=delete_points)
    def crash_while_deleting(self, name: str, point: str) -> None:
        self._forget(name, Point(point, self._dying))

    @rule(name=names, point=delete_points)
    def fail_while_deleting(self, name: str, point: str) -> None:
        self._forget(name, Point(point, lambda: "raise"))

    @rule()
    def reopen(self) -> None:
        self.loop.run(self._reopened())

    def teardown(self) -> None:
        try:
            if self.begun:
                self.loop.run(self._compare())
        finally:
            self.loop.close()
            for place in self.made:
                self.places.drop(place)
            shutil.rmtree(self.home)

    def _named(self, name: str, text: str) -> Document:
        known = self.there.get(document_id(name))
        return replace(document(name, text, title="T"), name=known.name if known else name)

    async def _open(self) -> None:
        self.kb = BASES[self.store](self.made[-1])
        await self.kb.open()
        await recover(self.kb)
        self.flow = flow_of(self.kb, self.limits)

    async def _reopened(self) -> None:
        await self.kb.close()
        self.made += self.left
        self.left = []
        await self._open()
        await self._look()

    def _cancelled(self) -> None:
        self.task.cancel()

    def _dying(self) -> str:
        self.left = [left_by_a_kill(self.places, self.made[-1])]
        return "raise"

    def _settle(self, wanted: Document, point: Point | None) -> None:
        self.loop.run(self._change(point, self.flow.ingest_document(wanted)))
        version = self.loop.run(self._version(wanted.id))
        before = self.there.get(wanted.id)
        if version == (wanted.digest, wanted.name) and self.loop.run(self._is_processed(wanted.id)):
            self.there[wanted.id] = wanted
            self.coming.pop(wanted.id, None)
            return
        assert point is not None
        assert version == ((before.digest, before.name) if before else ("", version[1]))
        if self.loop.run(self._is_recorded(wanted.id)):
            self.coming[wanted.id] = wanted

    def _forget(self, name: str, point: Point | None) -> None:
        gone = document_id(name)
        self.loop.run(self._change(point, self.flow.delete_document(gone)))
        if not self.loop.run(self._is_recorded(gone)):
            self.there.pop(gone, None)
            self.coming.pop(gone, None)
        else:
            assert point is not None

    async def _change(self, point: Point | None, work: Any) -> None:
        """Takes a step as far as it comes, and looks whether the base is sound."""
        with pytest.MonkeyPatch.context() as patch:
            if point is not None:
                patch.setattr(failpoints, "failpoints", lambda: point)
            async with asyncio.TaskGroup() as group:
                self.task = group.create_task(_ended(work))
        failure = None if self.task.cancelled() else self.task.result()
        assert failure is None or point is not None, failure
        if self.left:
            await self._reopened()
        else:
            await self._look()

    async def _look(self) -> None:
        assert (await verify(self.kb, deep=True, settings=self.limits)).findings == ()

    async def _version(self, id: str) -> tuple[str, str]:
        record = (await self.kb.status.get([id])).get(id)
        return (record.version, record.name) if record else ("", "")

    async def _is_processed(self, id: str) -> bool:
        record = (await self.kb.status.get([id])).get(id)
        return record is not None and record.status == "processed"

    async def _is_recorded(self, id: str) -> bool:
        return id in await self.kb.status.get([id])

    async def _compare(self) -> None:
        """What is still on its way in is ingested; then the base equals one that only ever saw what is in it."""
        for wanted in self.coming.values():
            await self.flow.ingest_document(wanted)
        self.there |= self.coming
        other = await empty_base()
        flow = flow_of(other, self.limits)
        survivors = copy.copy(list(self.there.values()))
        random.Random(len(survivors)).shuffle(survivors)
        for survivor in survivors:
            await flow.ingest_document(survivor)
        dumps = [(await canonical_dump(kb)).splitlines() for kb in (self.kb, other)]
        await self.kb.close()
        await other.close()
        one, two = ([line for line in dump if '"embedding"' not in line] for dump in dumps)
        assert one == two


async def _ended(work: Any) -> EKRError | None:
    """The failure a step ended with."""
    try:
        await work
    except EKRError as failure:
        assert isinstance(failure.__cause__ or failure, StorageError)
        return failure
    return None


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FEW = {"sqlite": 10, "files": 5, "postgres": 2}
MANY = {"sqlite": 2000, "files": 500, "postgres": 50}
STORES = ["sqlite", "files", pytest.param("postgres", marks=pytest.mark.damages)]  # a killed base stays as it was


def run_sequences(store: str, sequences: int, steps: int) -> None:
    machine = type(f"Changes_{store}", (Changes,), {"store": store})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=sequences, stateful_step_count=steps, suppress_health_check=QUIET)
    )


@pytest.mark.parametrize("store", STORES)
def test_after_any_sequence_only_what_is_left_matters(store: str) -> None:
    run_sequences(store, FEW[store], 12)


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_after_many_sequences_only_what_is_left_matters(store: str) -> None:
    run_sequences(store, MANY[store], 30)
