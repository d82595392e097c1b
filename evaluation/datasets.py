"""Question sets on disk: a corpus of passages and questions that know which passages they need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BASELINES", "SETS", "Dataset", "Item", "Question", "load_dataset", "read_jsonl"]


@dataclass(frozen=True, slots=True)
class Item:
    """A passage of a corpus: one document."""

    id: str
    title: str
    text: str

    @property
    def content(self) -> str:
        """As it is ingested: the title as a heading, then the text."""
        return f"# {self.title}\n\n{self.text}\n" if self.title else f"{self.text}\n"


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the passages it needs; none if it cannot be answered."""

    id: str
    text: str
    gold_ids: tuple[str, ...]
    answer: str = ""
    kind: str = ""
    gold_pages: tuple[tuple[int, ...], ...] = ()
    """Pages of each gold passage in the PDF, where there is one."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A corpus with its questions."""

    name: str
    items: tuple[Item, ...]
    questions: tuple[Question, ...]

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The questions that have a gold passage."""
        return tuple(question for question in self.questions if question.gold_ids)


@dataclass(frozen=True, slots=True)
class _Files:
    corpus: str
    questions: str
    question_field: str = "question"


SETS: Mapping[str, _Files] = {
    "2wiki": _Files("multihop/2wiki/corpus.jsonl", "multihop/2wiki/questions.jsonl"),
    "musique": _Files("multihop/musique/corpus.jsonl", "multihop/musique/questions.jsonl"),
    "piaf": _Files("french/piaf/corpus.jsonl", "french/piaf/questions.jsonl"),
    "ai_act-en": _Files("regulation/ai_act/units_en.jsonl", "regulation/ai_act/questions.jsonl"),
    "ai_act-fr": _Files("regulation/ai_act/units_fr.jsonl", "regulation/ai_act/questions.jsonl", "question_fr"),
    "ai_act-fr-en": _Files("regulation/ai_act/units_en.jsonl", "regulation/ai_act/questions.jsonl", "question_fr"),
}
"""Name to its files below the data folder; ``ai_act-fr-en`` asks in French what English texts answer."""

BASELINES: Mapping[str, Mapping[str, tuple[float, float, float, float, float]]] = {
    "2wiki": {
        "bm25": (56.3, 66.5, 71.5, 35.0, 92.5),
        "dense": (52.7, 63.5, 67.6, 31.2, 90.7),
        "rrf": (57.4, 68.0, 72.8, 36.4, 93.5),
    },
    "musique": {
        "bm25": (39.4, 49.2, 54.9, 13.3, 71.7),
        "dense": (43.8, 60.4, 67.1, 28.3, 79.4),
        "rrf": (41.7, 55.7, 67.4, 21.7, 79.2),
    },
    "piaf": {"bm25": (88.2, 95.2, 96.2, 95.2, 85.8)},
    "ai_act-en": {
        "bm25": (51.7, 71.7, 85.8, 60.0, 59.2),
        "dense": (35.0, 55.0, 62.5, 45.0, 39.2),
        "rrf": (45.0, 67.5, 75.0, 60.0, 51.0),
    },
    "ai_act-fr": {"bm25": (51.7, 65.8, 90.8, 50.0, 55.3)},
}
"""Recall@2, @5, @10, all@5, MRR@10 that came with the data: bm25s and all-MiniLM-L6-v2 over whole passages."""


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, one a line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def load_dataset(data: Path, name: str, limit: int | None = None) -> Dataset:
    """A set by name.

    Args:
        data: The data folder.
        name: One of :data:`SETS`.
        limit: Only the first so many answerable questions; the corpus stays whole.
    """
    files = SETS[name]
    items = tuple(_item(row) for row in read_jsonl(data / files.corpus))
    questions = [_question(row, files.question_field) for row in read_jsonl(data / files.questions)]
    return Dataset(name, items, _limited(questions, limit))


def _limited(questions: Sequence[Question], limit: int | None) -> tuple[Question, ...]:
    answerable = [question for question in questions if question.gold_ids]
    rest = [question for question in questions if not question.gold_ids]
    return (*answerable[:limit], *rest)


def _item(row: Mapping[str, Any]) -> Item:
    parts = (row.get("label", ""), row.get("title", ""))
    return Item(row["id"], " — ".join(part for part in parts if part), row["text"])


def _question(row: Mapping[str, Any], field: str) -> Question:
    return Question(
        id=row["id"],
        text=row[field],
        gold_ids=tuple(row.get("gold_ids") or ()),
        answer=row.get("answer", ""),
        kind=row.get("type", ""),
        gold_pages=tuple(tuple(pages) for pages in row.get("gold_pages_fr") or ()),
    )
