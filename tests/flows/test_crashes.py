"""``kill -9`` in the middle: what was acknowledged stays, the rest is whole or not there, and going on gives the same base."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import asyncpg
import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.ingestion import committing
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.types import DocStatus
from evaluation.crashing.places import PLACES, Place, Places
from evaluation.crashing.points import BY_THE_STORE, COMMITTED, POINTS, STEPS
from evaluation.crashing.worker import DIMENSION, TEXTS, Worker, play, retriever, write_texts
from tests.support.postgres import postgres

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ["ingest:verdel:verdel", "ingest:kell:kell"]
OF_A_CHECKPOINT = {"snapshot-renamed", "journal-cut"}
EVERY = {"sqlite": 1, "files": 3, "postgres": 8}
"""One in so many of the points of a step is tried in an ordinary run; the points of a store all are."""
CASES = [
    pytest.param(store, step, point, marks=() if at % EVERY[store] == 0 or point in own else pytest.mark.long)
    for store in PLACES
    for step in STEPS
    for own in [BY_THE_STORE.get(store, {}).get(step, ())]
    for at, point in enumerate((*POINTS[step], *own))
]
OPENING = [(store, point) for store in PLACES for point in BY_THE_STORE.get(store, {}).get("open", ())]
NOT_BEGUN = {"source-hashed", "accepted-before-record"}
ALL_PAID = set(POINTS["ingest"][POINTS["ingest"].index("extracted") :]) - COMMITTED


@dataclass(frozen=True)
class State:
    """A base written out."""

    dump: str
    summaries: dict[str, str]
    """Key to summary of every entity that has one or waits for it."""
    statuses: dict[DocStatus, list[str]] = field(compare=False)
    """Names of the documents right after opening."""

    @property
    def served(self) -> list[str]:
        """Without how things stand with what is on its way in."""
        return [line for line in self.dump.splitlines() if not line.startswith(('["status"', '["staged'))]


async def state_of(place: Place, dimension: int = DIMENSION) -> State:
    """A base written out, after a look whether it is sound."""
    async with retriever(place, dimension) as rag:
        statuses = {status: [record.name for record in await rag.get_docs_by_status(status)] for status in DocStatus}
        assert (await rag.verify(deep=True)).findings == ()
        entities = await rag._kb.graph.entities(await rag._kb.graph.keys())
        summaries = {key: entity.summary for key, entity in entities.items() if entity.summary or entity.pending}
        return State(await canonical_dump(rag._kb), summaries, statuses)


def dimension_after(step: str) -> int:
    """Of the vectors of the base."""
    return int(step.partition(":")[2]) if step.startswith("reindex:") else DIMENSION


@dataclass(frozen=True)
class Ground:
    """Where the bases of one store are that are killed."""

    places: Places
    texts: Path
    before: Place
    old: State
    new: dict[str, State]
    """By step: after it, taken without a crash."""

    def play(self, place: Place, *steps: str) -> int:
        return asyncio.run(play(place, self.texts, steps))

    def killed(self, place: Place, step: str, point: str, action: str = "kill") -> bool:
        """Whether the step was acknowledged before."""
        worker = Worker(place, self.texts, [step], f"{point}={action}")
        assert worker.end() == -signal.SIGKILL
        return worker.acknowledged == [step]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ground]:
    """The ground of a store, prepared when it is asked for first."""

    @cache
    def prepared(store: str) -> Ground:
        places, texts = PLACES[store](tmp_path_factory.mktemp(store)), write_texts(tmp_path_factory.mktemp("texts"))
        before = places.fresh()
        asyncio.run(play(before, texts, BEFORE))
        made = Ground(places, texts, before, asyncio.run(state_of(before)), {})
        for name, step in STEPS.items():
            after = places.copy(before)
            made.play(after, step, "summarize")
            made.new[name] = asyncio.run(state_of(after, dimension_after(step)))
        return made

    return prepared


@pytest.mark.parametrize(("store", "name", "point"), CASES)
def test_killed_reopened_resumed(ground: Callable[[str], Ground], store: str, name: str, point: str) -> None:
    here = ground(store)
    step, old, new = STEPS[name], here.old, here.new[name]
    place = here.places.copy(here.before)
    acknowledged = here.killed(place, step, point)

    found = asyncio.run(state_of(place, dimension_after(step) if point in COMMITTED or acknowledged else DIMENSION))
    assert found.statuses[DocStatus.PROCESSING] == []
    if acknowledged:
        assert found.served == new.served
    elif point in POINTS[name]:
        assert found.served == (new if point in COMMITTED else old).served
        under_way = step.startswith("ingest:") and point not in COMMITTED | NOT_BEGUN
        assert found.statuses[DocStatus.INTERRUPTED] == ([step.split(":")[1]] if under_way else [])
    else:
        assert found.served in (old.served, new.served)

    calls = here.play(place, step, "summarize")
    if point in ALL_PAID:
        assert calls <= len(new.summaries)
    assert asyncio.run(state_of(place, dimension_after(step))) == new
    assert new.summaries
    here.places.drop(place)


@pytest.mark.parametrize(("store", "point"), OPENING)
def test_killed_while_the_base_is_created(ground: Callable[[str], Ground], store: str, point: str) -> None:
    here = ground(store)
    place = here.places.fresh()
    assert not here.killed(place, BEFORE[0], point)
    here.play(place, *BEFORE)
    assert asyncio.run(state_of(place)).dump == here.old.dump


@pytest.mark.parametrize("turn", [1, 2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("bytes_written", [1, 40])
def test_half_a_record_in_the_journal_is_none(ground: Callable[[str], Ground], turn: int, bytes_written: int) -> None:
    here = ground("files")
    place = here.places.copy(here.before)
    assert not here.killed(place, STEPS["replace"], "journal-appended", f"torn:{bytes_written}@{turn}")
    assert asyncio.run(state_of(place)).served == here.old.served
    here.play(place, STEPS["replace"], "summarize")
    assert asyncio.run(state_of(place)) == here.new["replace"]


@pytest.mark.parametrize("point", sorted(OF_A_CHECKPOINT))
def test_killed_while_a_checkpoint_is_made(ground: Callable[[str], Ground], point: str) -> None:
    here = ground("files")
    place = here.places.copy(here.before)
    assert not here.killed(place, "checkpoint", point)
    assert asyncio.run(state_of(place)) == here.old


@pytest.mark.parametrize("store", PLACES)
def test_a_document_that_never_was_whole_is_taken_away(ground: Callable[[str], Ground], store: str) -> None:
    here = ground(store)
    place = here.places.copy(here.before)
    assert not here.killed(place, STEPS["ingest"], "tx-before-commit")
    assert asyncio.run(state_of(place)).statuses[DocStatus.INTERRUPTED] == ["brandt"]
    here.play(place, "delete:brandt")
    assert asyncio.run(state_of(place)).dump == here.old.dump


@pytest.mark.parametrize("store", PLACES)
def test_cancelled_inside_the_transaction(ground: Callable[[str], Ground], store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ground(store)
    place = here.places.copy(here.before)

    async def cancelled() -> None:
        async with retriever(place) as rag, asyncio.TaskGroup() as group:
            task = group.create_task(rag.ingest(here.texts / "verdel, again.md", name="verdel"))
            monkeypatch.setattr(committing, "failpoint", lambda name: task.cancel() if name == "tx-after-chunks" else None)
        assert task.cancelled()

    asyncio.run(cancelled())
    found = asyncio.run(state_of(place))
    if store == "files" and "verdel" in found.statuses[DocStatus.PROCESSED]:  # its commit was being written, and is whole
        assert found.served == here.new["replace"].served
    else:
        assert found.statuses[DocStatus.INTERRUPTED] == ["verdel"]
        assert found.served == here.old.served


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_the_server_is_killed_and_nothing_acknowledged_is_lost(ground: Callable[[str], Ground], kills: int) -> None:
    here, server = ground("postgres"), postgres(sync=True)
    place = Place("postgres", json.dumps(server.options(asyncio.run(server.database("killed_with_its_server")))))
    steps = [f"ingest:{name}:{text}" for name, text in zip("abcdefgh", TEXTS, strict=True)]
    done = 0
    for number in range(kills):
        worker = Worker(place, here.texts, steps[done:])
        worker.wait_until_ready()
        worker.wait_for_a_step()
        time.sleep(0.05 * number)
        server.crash()
        code = worker.end()
        done += len(worker.acknowledged)
        server.restart()
        found = asyncio.run(state_of(place)).statuses[DocStatus.PROCESSED]
        assert done <= len(found) <= done + 1
        if code == 0:
            break
    here.play(place, *steps)
    whole = here.places.fresh()
    here.play(whole, *steps)
    assert asyncio.run(state_of(place)).dump == asyncio.run(state_of(whole)).dump
    here.places.drop(whole)


async def test_what_a_server_is_at_ends_with_it() -> None:
    server = postgres(sync=True)
    connection = await server.connect("postgres")

    async def busy() -> None:
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            await connection.execute("DO $$ BEGIN LOOP END LOOP; END $$")

    async with asyncio.timeout(60), task_group() as group:
        group.create_task(busy())
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.crash)
    server.restart()


def test_every_failpoint_is_passed_by_a_crash_and_explained() -> None:
    package = ROOT / "easy_knowledge_retriever"
    code = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py") if path.name != "failpoints.py")
    there = set(re.findall(r'\b(?:failpoint|torn)\("([\w-]+)"', code))
    matrix = [*POINTS.values(), *(points for steps in BY_THE_STORE.values() for points in steps.values())]
    assert there - OF_A_CHECKPOINT == {point for points in matrix for point in points}
    page = (ROOT / "docs/how-to/testing.md").read_text(encoding="utf-8")
    assert [name for name in sorted(there) if f"`{name}`" not in page] == []
