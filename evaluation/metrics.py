"""Measures of retrieval and of short answers."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["RetrievalScores", "all_at", "exact_match", "f1", "mean_scores", "recall_at", "reciprocal_rank"]


def recall_at(k: int, ranking: Sequence[str], gold: Sequence[str]) -> float:
    """Share of the gold passages among the first k."""
    return len(set(ranking[:k]) & set(gold)) / len(set(gold))


def all_at(k: int, ranking: Sequence[str], gold: Sequence[str]) -> float:
    """1 if every gold passage is among the first k, else 0."""
    return float(set(gold) <= set(ranking[:k]))


def reciprocal_rank(k: int, ranking: Sequence[str], gold: Sequence[str]) -> float:
    """One over the rank of the first gold passage among the first k; 0 if there is none."""
    return next((1 / rank for rank, item in enumerate(ranking[:k], start=1) if item in gold), 0.0)


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """Means over questions, in per cent."""

    recall_2: float
    recall_5: float
    recall_10: float
    all_5: float
    mrr_10: float


def mean_scores(rankings: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> RetrievalScores:
    """Scores of one ranking a question, each without duplicates."""

    def mean(values: Sequence[float]) -> float:
        return 100 * sum(values) / max(len(values), 1)

    pairs = list(zip(rankings, gold, strict=True))
    return RetrievalScores(
        recall_2=mean([recall_at(2, ranking, wanted) for ranking, wanted in pairs]),
        recall_5=mean([recall_at(5, ranking, wanted) for ranking, wanted in pairs]),
        recall_10=mean([recall_at(10, ranking, wanted) for ranking, wanted in pairs]),
        all_5=mean([all_at(5, ranking, wanted) for ranking, wanted in pairs]),
        mrr_10=mean([reciprocal_rank(10, ranking, wanted) for ranking, wanted in pairs]),
    )


def _normalised(text: str) -> list[str]:
    plain = "".join(c for c in text.casefold() if c not in string.punctuation)
    return [word for word in plain.split() if word not in {"a", "an", "the"}]


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 if the answer is one of the accepted ones after SQuAD normalisation, else 0."""
    return float(any(_normalised(answer) == _normalised(one) for one in accepted))


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The best harmonic mean of word precision and recall over the accepted answers."""
    return max((_f1(_normalised(answer), _normalised(one)) for one in accepted), default=0.0)


def _f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else float(given == wanted)
