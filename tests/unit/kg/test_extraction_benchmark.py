"""The benchmark of extraction with a language model runs; its figures are not judged here."""

from __future__ import annotations

import pytest

from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer
from evaluation.benchmarks import extraction


async def test_a_small_run_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHUNKS_A_DOCUMENT": 3, "WINDOW": 2, "WINDOWS": 2, "ASKED": 2}.items():
        monkeypatch.setattr(extraction, name, value)
    found = await extraction.measure(20)
    assert found.graph[0] > 20
    assert len(found.ingest) == len(found.single) == 2
    assert found.calls >= 1
    assert 0 < found.fresh < found.prompt
    assert {len(costs) for costs in found.questions.values()} == {2}
    table = extraction.output([found, found])
    names = [str(name) for name in table.columns[0].cells]
    assert {"prompt tokens a chunk", "MB on disk", "hybrid_mix, CPU ms p95", "answered, CPU ms p50"} <= set(names)
    assert "1.00" in [str(cell) for cell in table.columns[-1].cells]


def test_the_corpus_is_the_same_every_time_and_as_it_says() -> None:
    one, other = extraction.Corpus(), extraction.Corpus()
    chunks = [one.next() for _ in range(50)]
    assert chunks == [other.next() for _ in range(50)]
    count = TiktokenTokenizer().count
    assert 100 <= sum(count(chunk.text) for chunk in chunks) / len(chunks) <= 130
    for chunk in chunks:
        lines = chunk.reply.splitlines()
        assert [line[0] for line in lines] == ["E"] * 7 + ["R"] * 6 + ["E"]
        assert all(name in chunk.text for name in chunk.names)
    assert len(set(one.names)) < 7 * 50
