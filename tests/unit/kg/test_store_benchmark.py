"""The benchmark of the store runs; its figures are not judged here."""

from __future__ import annotations

import pytest

from evaluation.benchmarks import store


async def test_a_small_run_prints_every_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(store, "MEASURED", 3)
    monkeypatch.setattr(store, "QUERIES", 2)
    await store.run([5, 20], 8, 4)
    printed = capsys.readouterr().out
    for row in ("commit a document", "BM25", "walk, filtered", "open and load every index", "file, MB", "20 chunks"):
        assert row in printed


def test_the_samples_are_the_same_every_time() -> None:
    one, other = store.Samples(8, 4), store.Samples(8, 4)
    for _ in range(3):
        first, second = one.next(), other.next()
        assert first.chunk == second.chunk
        assert first.entities == second.entities
        assert first.vectors[0].vector.tolist() == second.vectors[0].vector.tolist()
