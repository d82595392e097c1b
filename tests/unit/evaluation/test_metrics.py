from __future__ import annotations

import pytest

from evaluation.metrics import all_at, exact_match, f1, mean_scores, recall_at, reciprocal_rank

RANKING = ("a", "b", "c", "d", "e", "f")


def test_recall_all_and_reciprocal_rank_by_hand() -> None:
    assert recall_at(2, RANKING, ["b", "f"]) == 1 / 2
    assert recall_at(6, RANKING, ["b", "f"]) == 1
    assert all_at(5, RANKING, ["b", "f"]) == 0
    assert all_at(5, RANKING, ["b", "e"]) == 1
    assert reciprocal_rank(10, RANKING, ["c", "b"]) == 1 / 2
    assert reciprocal_rank(2, RANKING, ["c"]) == 0


def test_means_are_in_per_cent() -> None:
    scores = mean_scores([RANKING, ("x",)], [["a"], ["a"]])
    assert (scores.recall_2, scores.recall_5, scores.recall_10, scores.all_5, scores.mrr_10) == (50, 50, 50, 50, 50)


@pytest.mark.parametrize(("answer", "exact"), [("The River Verdel!", 1), ("river verdel", 1), ("Verdel", 0)])
def test_exact_match_forgives_case_articles_and_punctuation(answer: str, exact: float) -> None:
    assert exact_match(answer, ["a river, Verdel"]) == exact


def test_f1_is_that_of_the_best_accepted_answer() -> None:
    """Two of three words right of two wanted: precision 2/3, recall 1."""
    assert f1("the old river Verdel", ["Verdel river", "sea"]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert f1("lake", ["sea"]) == 0
