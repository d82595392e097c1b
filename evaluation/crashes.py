"""Processes that ingest, replace, delete and reindex are killed at random times; what becomes of the base?

    python -m evaluation.crashes --store sqlite --kills 300 --minutes 60

A process takes steps drawn at random and acknowledges each. It is killed after a time drawn at random. The base is opened
again and must be sound, and be exactly what it was after the last acknowledged step, or after the one that was under way.
Then that step is taken again, or the document deleted or ingested with another text, and the base must equal one in which
the same steps were taken and nobody was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.types import DocStatus
from evaluation.crashing.places import PLACES, Place, Places
from evaluation.crashing.worker import DIMENSION, TEXTS, Worker, play, retriever, write_texts

__all__ = ["Tally", "run"]

NAMES = ("ash", "birch", "cedar", "elm", "fir")
DIMENSIONS = (12, 16, 24)
STEPS = 10
"""What a process that is not killed does."""


@dataclass(slots=True)
class Tally:
    """What was seen."""

    kills: int = 0
    untouched: int = 0
    """Processes that ended before they were to be killed; they do not count."""
    acknowledged: int = 0
    under_way: Counter[str] = field(default_factory=Counter)
    """Kills by the step they hit."""
    interrupted: int = 0
    """Documents found on their way in."""
    committed: int = 0
    """Steps that were done and not acknowledged yet."""
    lost: int = 0
    """Bases that were neither what they were before the step that was hit, nor after it."""
    findings: list[str] = field(default_factory=list)
    """What ``verify --deep`` said."""
    different: int = 0
    """Bases that did not become what they are without a kill."""
    openings: list[float] = field(default_factory=list)
    """Seconds to open after a kill."""

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.findings or self.different)


@dataclass(frozen=True, slots=True)
class _Seen:
    served: tuple[str, ...]
    whole: str
    interrupted: int = 0
    findings: tuple[str, ...] = ()
    seconds: float = 0.0


async def _seen(place: Place) -> _Seen:
    dimension = await _dimension(place)
    start = time.perf_counter()
    async with retriever(place, dimension) as rag:
        seconds = time.perf_counter() - start
        findings = tuple(map(str, (await rag.verify(deep=True)).findings))
        whole = await canonical_dump(rag._kb)
        interrupted = await rag.get_docs_by_status(DocStatus.INTERRUPTED)
    served = tuple(line for line in whole.splitlines() if not line.startswith(('["status"', '["staged')))
    return _Seen(served, whole, len(interrupted), findings, seconds)


async def _dimension(place: Place) -> int:
    """Of the vectors that are served."""
    async with retriever(place) as rag:
        made = await rag.get_embedding()
    return made.dimension if made else DIMENSION


class Trial:
    """One base that is killed and one that is not.

    Args:
        places: Where they are.
        texts: Where the files are that are ingested.
        seed: Of everything that is drawn.
    """

    def __init__(self, places: Places, texts: Path, seed: int) -> None:
        self._draw = random.Random(seed)
        self._places = places
        self._texts = texts
        self._killed, self._spared = places.fresh(), places.fresh()
        self._span = 1.0
        self.tally = Tally()

    def run(self, kills: int, minutes: float) -> Tally:
        """Kills so many times, or as often as there is time for."""
        end = time.monotonic() + minutes * 60
        self._play(self._killed, self._spared, ["ingest:ash:verdel"])
        while self.tally.kills < kills and time.monotonic() < end:
            self._kill([self._step() for _ in range(STEPS)])
        return self.tally

    def _step(self) -> str:
        name, drawn = self._draw.choice(NAMES), self._draw.random()
        if drawn < 0.2:
            return f"delete:{name}"
        if drawn < 0.3:
            return f"reindex:{self._draw.choice(DIMENSIONS)}"
        return f"ingest:{name}:{self._draw.choice(sorted(TEXTS))}"

    def _play(self, *places_and_steps: Place | list[str]) -> None:
        *places, steps = places_and_steps
        for place in places:
            assert isinstance(place, Place)
            assert isinstance(steps, list)
            asyncio.run(play(place, self._texts, steps, dimension=asyncio.run(_dimension(place))))

    def _kill(self, steps: list[str]) -> None:
        tally = self.tally
        worker = Worker(self._killed, self._texts, steps, dimension=asyncio.run(_dimension(self._killed)))
        worker.wait_until_ready()
        start = time.perf_counter()
        time.sleep(self._draw.uniform(0.0, self._span))
        worker.kill()
        ended_by_itself = worker.end() == 0
        done, step = worker.acknowledged, (steps[len(worker.acknowledged) :] or [""])[0]
        if done:
            self._span = max((time.perf_counter() - start) / len(done) * STEPS * 0.6, 0.1)
        self._play(self._spared, done)
        if ended_by_itself:
            tally.untouched += 1
            return
        tally.kills += 1
        tally.acknowledged += len(done)
        tally.under_way[step.partition(":")[0] or "closing"] += 1
        self._compare(step)

    def _compare(self, step: str) -> None:
        tally = self.tally
        found, before = asyncio.run(_seen(self._killed)), asyncio.run(_seen(self._spared))
        next_steps = [self._another(step)] if step else []
        if found.served != before.served:
            self._play(self._spared, [step] if step else [])
            after = asyncio.run(_seen(self._spared))
            tally.committed += found.served == after.served
            tally.lost += found.served != after.served
        tally.interrupted += found.interrupted
        tally.findings += found.findings
        tally.openings.append(found.seconds)
        self._play(self._killed, self._spared, [*next_steps, "summarize"])
        ended, expected = asyncio.run(_seen(self._killed)), asyncio.run(_seen(self._spared))
        tally.different += ended.whole != expected.whole
        tally.findings += ended.findings
        if ended.whole != expected.whole:  # what comes next is judged by itself
            self._places.drop(self._killed)
            self._killed = self._places.copy(self._spared)

    def _another(self, step: str) -> str:
        """What is done after the kill: mostly the same again."""
        action, _, name = step.partition(":")
        drawn, name = self._draw.random(), name.partition(":")[0]
        if action == "ingest" and drawn < 0.15:
            return f"delete:{name}"
        if action == "ingest" and drawn < 0.3:
            return f"ingest:{name}:{self._draw.choice(sorted(TEXTS))}"
        return step


def run(store: str, kills: int, seed: int, home: Path, minutes: float = math.inf) -> Tally:
    """Kills so many times, or as often as there is time for.

    Args:
        store: Key of ``PLACES``.
        kills: How often.
        seed: Of everything that is drawn.
        home: A folder for the bases.
        minutes: No kill begins after them.
    """
    return Trial(PLACES[store](home), write_texts(home / "texts"), seed).run(kills, minutes)


def _opening(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} / {max(seconds) * 1000:.0f}" if seconds else "none"


def report(store: str, tally: Tally, seconds: float) -> None:
    """Prints what was seen."""
    hit = ", ".join(f"{count} {step}" for step, count in sorted(tally.under_way.items()))
    rows = {
        "kills": f"{tally.kills} ({hit})",
        "steps acknowledged before them": tally.acknowledged,
        "documents found interrupted": tally.interrupted,
        "steps done and not acknowledged": tally.committed,
        "acknowledged steps lost, or half a step seen": tally.lost,
        "findings of verify --deep": len(tally.findings),
        "final states other than without a kill": tally.different,
        "opening after a kill, ms, median / worst": _opening(tally.openings),
        "minutes": f"{seconds / 60:.1f}",
    }
    table = Table("random kills", store)
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console(width=120).print(table, *tally.findings, sep="\n")


def main() -> int:
    """Reads the options and runs; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.crashes", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--store", choices=sorted(PLACES), default="sqlite")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no kill begins after them")
    options = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        tally = run(options.store, options.kills, options.seed, Path(name), options.minutes)
    report(options.store, tally, time.perf_counter() - start)
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
