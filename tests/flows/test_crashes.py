"""``kill -9`` in the middle: what was acknowledged stays, the rest is whole or not there, and going on gives the same base."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from easy_knowledge_retriever.ingestion import committing
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.types import DocStatus
from tests.flows.crashing import play, sqlite_base
from tests.flows.ingesting_base import TEXTS, Described, document, ingestion

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ["ingest:verdel:verdel", "ingest:kell:kell"]
REPLACE = "ingest:verdel:verdel, again"
DELETE = "delete:verdel"
INGEST_POINTS = [
    "record-written",
    "chunked",
    "embed-done",
    "extraction-paid",
    "extraction-durable",
    "planned",
    "tx-after-vectors",
    "tx-after-graph",
    "tx-before-commit",
    "tx-after-commit",
    "summary-call",
    "summary-durable",
]
DELETE_POINTS = ["delete-begin", "delete-before-commit", "delete-after-commit"]
COMMITTED = {"tx-after-commit", "summary-call", "summary-durable", "delete-after-commit"}
CASES = [(point, REPLACE) for point in INGEST_POINTS] + [(point, DELETE) for point in DELETE_POINTS]


async def _dump(folder: Path) -> str:
    kb = sqlite_base(folder)
    await kb.open()
    await recover(kb)
    report = await verify(kb, deep=True)
    assert report.findings == ()
    text = await canonical_dump(kb)
    await kb.close()
    return text


async def _summaries(folder: Path) -> dict[str, str]:
    """Key to summary of every entity that has one or waits for it."""
    kb = sqlite_base(folder)
    await kb.open()
    entities = await kb.graph.entities(await kb.graph.keys())
    await kb.close()
    found = {key: entity.summary for key, entity in entities.items() if entity.summary or entity.pending}
    assert found
    return found


async def _play(folder: Path, steps: list[str]) -> Described:
    described = Described("llm")
    with contextlib.redirect_stdout(io.StringIO()):
        await play(folder, steps, described)
    return described


async def _killed(folder: Path, step: str, point: str) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.flows.crashing", str(folder), step],
        cwd=ROOT,
        env={**os.environ, "EKR_FAILPOINTS": f"{point}=kill"},
        capture_output=True,
        timeout=50,
        check=False,
    )


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str, dict[str, str]]]:
    """Folder, dump and summaries of the base before, and after each step taken without a crash."""

    async def made(steps: list[str]) -> tuple[Path, str, dict[str, str]]:
        folder = tmp_path_factory.mktemp("base")
        await _play(folder, [*BEFORE, *steps, "summarize:"])
        return folder, await _dump(folder), await _summaries(folder)

    return {step: asyncio.run(made([step] if step else [])) for step in ("", REPLACE, DELETE)}


@pytest.mark.parametrize(("point", "step"), CASES)
async def test_killed_reopened_resumed(
    tmp_path: Path, bases: dict[str, tuple[Path, str, dict[str, str]]], point: str, step: str
) -> None:
    killed = tmp_path / "killed"
    shutil.copytree(bases[""][0], killed)
    old, new = bases[""][1], bases[step][1]

    child = await _killed(killed, step, point)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert child.stdout == b""

    kb = sqlite_base(killed)
    await kb.open()
    running = await kb.status.by_status(DocStatus.PROCESSING)
    await recover(kb)
    assert await kb.status.by_status(DocStatus.PROCESSING) == []
    stopped = await kb.status.by_status(DocStatus.INTERRUPTED)
    assert [record.id for record in stopped] == [record.id for record in running]
    assert all(record.version for record in stopped)
    await kb.close()
    found = [line for line in (await _dump(killed)).splitlines() if not line.startswith(('["status"', '["staged"'))]
    expected = new if point in COMMITTED else old
    assert found == [line for line in expected.splitlines() if not line.startswith('["status"')]

    described = await _play(killed, [step])
    assert await _dump(killed) == new
    await _play(killed, ["summarize:"])
    assert await _summaries(killed) == bases[step][2]
    if point in {"extraction-durable", "planned", "tx-before-commit"} | COMMITTED:
        assert described.read == []


async def test_a_document_that_never_was_whole_is_taken_away(tmp_path: Path) -> None:
    await _play(tmp_path, BEFORE)
    old = await _dump(tmp_path)
    await _killed(tmp_path, "ingest:brandt:brandt", "tx-before-commit")
    kb = sqlite_base(tmp_path)
    await kb.open()
    (record,) = await recover(kb)
    assert (record.id, record.version, record.status) == (document("brandt", "").id, "", "interrupted")
    await kb.close()
    await _play(tmp_path, ["delete:brandt"])
    assert await _dump(tmp_path) == old


async def test_cancelled_inside_the_transaction(
    tmp_path: Path, bases: dict[str, tuple[Path, str, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(bases[""][0], tmp_path / "base")
    kb = sqlite_base(tmp_path / "base")
    await kb.open()
    async with asyncio.TaskGroup() as group:
        flow = ingestion(kb, llm_extractor=Described("llm"))
        task = group.create_task(flow.ingest_document(document("verdel", TEXTS["verdel, again"])))
        monkeypatch.setattr(committing, "failpoint", lambda name: task.cancel() if name == "tx-after-chunks" else None)
    assert task.cancelled()
    assert [record.name for record in await kb.status.by_status(DocStatus.INTERRUPTED)] == ["verdel"]
    await kb.close()
    found = [line for line in (await _dump(tmp_path / "base")).splitlines() if not line.startswith(('["status"', '["staged"'))]
    assert found == [line for line in bases[""][1].splitlines() if not line.startswith('["status"')]
