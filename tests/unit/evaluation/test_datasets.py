from __future__ import annotations

import json
from pathlib import Path

from evaluation.calibration import Scored, balanced_accuracy, best_threshold
from evaluation.datasets import Item, Question, load_dataset
from evaluation.regulation import Outcome, pages_place, row, units_place
from evaluation.retrieval import rank_documents


def written(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def test_a_set_of_passages_and_questions(tmp_path: Path) -> None:
    written(tmp_path / "multihop/2wiki/corpus.jsonl", [{"id": "p1", "title": "Verdel", "text": "A river."}])
    written(
        tmp_path / "multihop/2wiki/questions.jsonl",
        [
            {"id": "q1", "question": "What is it?", "answer": "a river", "gold_ids": ["p1"], "type": "simple"},
            {"id": "q2", "question": "What else?", "gold_ids": ["p1"]},
        ],
    )
    dataset = load_dataset(tmp_path, "2wiki", limit=1)
    assert dataset.items == (Item("p1", "Verdel", "A river."),)
    assert dataset.items[0].content == "# Verdel\n\nA river.\n"
    assert dataset.questions == (Question("q1", "What is it?", ("p1",), "a river", "simple"),)


def test_units_have_a_label_and_unanswerable_questions_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "regulation/ai_act"
    written(folder / "units_fr.jsonl", [{"id": "art_1", "label": "Article 1", "title": "Objet", "text": "Le présent…"}])
    written(
        folder / "questions.jsonl",
        [
            {"id": "s1", "question": "What?", "question_fr": "Quoi ?", "gold_ids": ["art_1"], "gold_pages_fr": [[3, 4]]},
            {"id": "u1", "question": "Why?", "question_fr": "Pourquoi ?", "gold_ids": [], "type": "unanswerable"},
        ],
    )
    dataset = load_dataset(tmp_path, "ai_act-fr", limit=1)
    assert dataset.items[0].title == "Article 1 — Objet"
    assert [q.text for q in dataset.questions] == ["Quoi ?", "Pourquoi ?"]
    assert [q.text for q in dataset.answerable] == ["Quoi ?"]
    assert dataset.questions[0].gold_pages == ((3, 4),)


def test_several_chunks_of_a_document_count_once() -> None:
    assert rank_documents(["a.md", "b.md", "a.md"]) == ("a", "b")


QUESTION = Question("q", "?", ("art_1", "art_2"), gold_pages=((3, 4), (9,)))


def test_a_passage_belongs_to_the_articles_of_its_pages_or_to_its_unit() -> None:
    assert pages_place(QUESTION, "act.pdf", [4, 9]) == {0, 1}
    assert pages_place(QUESTION, "act.pdf", [5]) == set()
    assert units_place(QUESTION, "art_2.md", []) == {1}


def test_a_row_of_the_regulation_table() -> None:
    outcomes = [
        Outcome(answerable=True, refused=False, found_5=0.5, found=1.0, first_right=True, any_right=True),
        Outcome(answerable=True, refused=True, found_5=0.5, found=0.5),
        Outcome(answerable=False, refused=True),
    ]
    assert row(outcomes).split() == ["50.0", "75.0", "100.0", "100.0", "1", "of", "1", "1", "of", "2"]


def scored(kind: str, score: float, name: str = "s") -> Scored:
    return Scored(name, kind, score)


def test_balanced_accuracy_and_the_best_threshold() -> None:
    """At 0.5 both answerable ones are answered and one of two others is refused: (1 + 1/2) / 2."""
    sample = [scored("own", 0.9), scored("own", 0.6), scored("hidden", 0.55), scored("unanswerable", 0.2)]
    assert balanced_accuracy(sample, 0.5) == 0.75
    assert balanced_accuracy(sample, 0.58) == 1.0
    assert 0.55 < best_threshold(sample) <= 0.6
