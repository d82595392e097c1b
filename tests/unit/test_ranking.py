from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.ranking import interleave, min_rank, reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def test_reciprocal_rank_fusion_by_hand() -> None:
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=1)
    # a 1/2; b 1/3 + 1/2; c 1/3
    assert [item for item, _ in fused] == ["b", "a", "c"]
    assert [score for _, score in fused] == pytest.approx([5 / 6, 1 / 2, 1 / 3])


def test_reciprocal_rank_fusion_weighs_the_rankings() -> None:
    fused = reciprocal_rank_fusion([["a"], ["b"]], k=60, weights=[1, 2])
    assert fused == [("b", 2 / 61), ("a", 1 / 61)]


def test_a_tie_keeps_the_order_of_first_appearance() -> None:
    assert [item for item, _ in reciprocal_rank_fusion([["a", "c"], ["b", "d"]])] == ["a", "b", "c", "d"]
    assert [item for item, _ in reciprocal_rank_fusion([["b", "a"], ["a", "b"]])] == ["b", "a"]


def test_a_weight_is_missing() -> None:
    with pytest.raises(ValueError, match="shorter"):
        reciprocal_rank_fusion([["a"], ["b"]], weights=[1])


def test_min_rank_by_hand_with_weights() -> None:
    """Ranks 0, 1/2, 2/2, 3/2 against 0, 1: the heavier list gives two items for one of the other."""
    assert min_rank([["a", "b", "c", "d"], ["x", "y"]], [2.0, 1.0]) == ["a", "x", "b", "c", "y", "d"]


def test_min_rank_by_hand() -> None:
    assert min_rank([["a", "b", "c"], ["c", "d"]]) == ["a", "c", "b", "d"]


@given(RANKINGS)
def test_a_second_list_pushes_no_item_down_by_more_than_one_place_a_rank(rankings: list[list[str]]) -> None:
    fused = min_rank(rankings)
    for ranking in rankings:
        for rank, item in enumerate(ranking):
            assert fused.index(item) <= (rank + 1) * len(rankings) - 1


def test_interleave_by_hand() -> None:
    assert interleave([["a", "b", "c"], ["b", "d"], []]) == ["a", "b", "d", "c"]


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_fused_is_nothing(rankings: list[list[str]]) -> None:
    assert reciprocal_rank_fusion(rankings) == []
    assert min_rank(rankings) == []
    assert interleave(rankings) == []


@given(RANKINGS)
def test_every_id_comes_out_once(rankings: list[list[str]]) -> None:
    everyone = sorted({item for ranking in rankings for item in ranking})
    assert sorted(item for item, _ in reciprocal_rank_fusion(rankings)) == everyone
    assert sorted(min_rank(rankings)) == everyone
    assert sorted(interleave(rankings)) == everyone


@given(st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_one_ranking_stays_as_it_is(ranking: list[str]) -> None:
    assert [item for item, _ in reciprocal_rank_fusion([ranking])] == ranking
    assert min_rank([ranking]) == interleave([ranking]) == ranking
