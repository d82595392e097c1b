"""A base over SQLite, Milvus and Neo4j whose process is killed between its parts is whole again when it is opened."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import empty_base
from tests.flows.mixed_process import base_on_servers, begin, replace
from tests.style.source import ROOT
from tests.support.bolt import DATABASE, PASSWORD, USER, emptied
from tests.support.milvus import milvus_database, milvus_uri


@pytest.mark.parametrize("writes", [0, 1, 4])
async def test_killed_between_the_parts_it_is_completed(tmp_path: Path, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {
        "MILVUS_URI": milvus_uri(),
        "MILVUS_DB_NAME": milvus_database(tmp_path),
        "NEO4J_URI": emptied(tmp_path),
        "NEO4J_USERNAME": USER,
        "NEO4J_PASSWORD": PASSWORD,
        "NEO4J_DATABASE": DATABASE,
    }
    for name, value in servers.items():
        monkeypatch.setenv(name, value)
    kb = base_on_servers(tmp_path)
    await kb.open()
    await begin(kb)
    await kb.close()

    command = [sys.executable, "-m", "tests.flows.mixed_process", str(tmp_path), str(writes)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: ASYNC221 — it is all there is to do
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    kb = base_on_servers(tmp_path)
    await kb.open()
    await recover(kb)
    assert await kb._pending() == ()
    assert (await verify(kb, deep=True)).findings == ()
    whole = await empty_base()
    await begin(whole)
    await replace(whole)
    assert await canonical_dump(kb) == await canonical_dump(whole)
    await kb.close()
