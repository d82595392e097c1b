"""The benchmark of the storages runs; its figures are not judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever
from evaluation.benchmarks import storages

pytestmark = pytest.mark.damages  # rows are made up past the ingest, without what no storage looks at


async def test_a_small_run_prints_every_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(storages, "MEASURED", 2)
    await storages.run("sqlite", [20], 8)
    printed = capsys.readouterr().out
    for row in ("add a document", "open, ms", "against their vectors", "disk, MB", "20 chunks"):
        assert row in printed


async def test_what_is_made_up_is_a_sound_base(tmp_path: Path) -> None:
    async with EasyKnowledgeRetriever(tmp_path) as rag:
        await storages.Filling(rag._kb, storages.Samples(8)).up_to(40)
        assert len(await rag.get_docs()) == 4
        assert await rag._kb.chunk_vectors.count() == 40
        assert [finding for finding in (await rag.verify()).findings if finding.check in {"I1", "I2", "I3", "I6", "I7"}] == []
