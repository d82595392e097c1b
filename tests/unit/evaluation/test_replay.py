"""Recorded extractions are replayed as a model would write them, and two bases are compared question by question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from easy_knowledge_retriever.operations.extraction_format import parse_extraction
from evaluation import replay
from evaluation.datasets import Dataset, Question
from evaluation.retrieval import ModeResult

CORPUS = [
    {"id": "p0", "title": "Mount Kell", "text": "Mount Kell is a mountain of Ostrania. Ida Brandt climbed it."},
    {"id": "p1", "title": "Ida Brandt", "text": "Ida Brandt was a botanist. She was born in Marlow."},
    {"id": "p2", "title": "Marlow", "text": "Marlow is a town on the Verdel."},
]
EXTRACTION = [
    {"id": "p0", "entities": ["Mount Kell", "Ida Brandt"], "triples": [["Ida Brandt", "climbed", "Mount Kell"]]},
    {"id": "p1", "entities": ["Ida Brandt"], "triples": [["Ida Brandt", "was born in", "Marlow"], ["Ida Brandt", "odd"]]},
    {"id": "p2", "entities": [], "triples": []},
]
QUESTIONS = [
    {
        "id": "q0",
        "question": "Where was the climber of Mount Kell born?",
        "answer": "Marlow",
        "type": "2hop",
        "gold_ids": ["p0", "p1"],
    }
]


def test_what_was_recorded_is_written_in_our_form() -> None:
    parsed = parse_extraction(
        replay.extraction_lines(["Ida Brandt", "a|b\n c"], [["Ida Brandt", "was born in", "Marlow"], ["x"]])
    )
    assert [entity.name for entity in parsed.entities] == ["Ida Brandt", "a/b c", "Marlow"]
    ((relation,), rejected, ended) = parsed.relations, parsed.rejected, parsed.ended
    assert (relation.keywords, relation.description) == (("was born in",), "Ida Brandt was born in Marlow.")
    assert (rejected, ended) == (0, True)


def test_questions_are_compared_one_by_one() -> None:
    dataset = Dataset("x", (), tuple(Question(name, name, ("a", "b")) for name in "123"))
    before = ModeResult((("a",), ("a", "b"), ("b",)), (), 0)
    after = ModeResult((("a", "b"), ("b",), ("a",)), (), 0)
    assert replay.won_and_lost(dataset, before, after) == (1, 1)


def test_a_small_run_compares_both_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "multihop" / "musique"
    folder.mkdir(parents=True)
    for name, rows in (("corpus", CORPUS), ("extraction", EXTRACTION), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay.main(["--data", str(tmp_path), "--modes", "local", "graph_walk"])
    shown = capsys.readouterr()
    lines = [line.split()[:3] for line in shown.out.splitlines()[1:]]
    assert [line[:2] for line in lines] == [[base, mode] for mode in ("local", "graph_walk") for base in ("embedded", "llm")]
    assert "6 requests" in shown.err
