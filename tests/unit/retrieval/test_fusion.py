from __future__ import annotations

import pytest

from easy_knowledge_retriever.retrieval.fusion import fuse_hits, interleave_hits, join_hits, merge_facts
from easy_knowledge_retriever.types import Entity, GraphFacts, Hit, Relation, RelationKey


def hits(*ids: str) -> tuple[Hit, ...]:
    return tuple(Hit(name, 10.0 - rank) for rank, name in enumerate(ids))


def test_interleaved_hits_keep_the_score_of_the_ranking_that_comes_first() -> None:
    assert interleave_hits(hits("a", "b"), (Hit("b", 0.5), Hit("c", 0.25))) == (Hit("a", 10.0), Hit("b", 9.0), Hit("c", 0.25))


def test_fused_hits_by_hand() -> None:
    fused = fuse_hits({"dense": hits("a", "b"), "bm25": hits("b", "c")}, {"dense": 1.0, "bm25": 0.5}, 60)
    assert [hit.id for hit in fused] == ["b", "a", "c"]
    assert [hit.score for hit in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61, 0.5 / 62])


def test_joined_hits_score_one_over_their_rank() -> None:
    joined = join_hits((hits("a", "b", "c"), 2.0), (hits("x", "a"), 1.0))
    assert [hit.id for hit in joined] == ["a", "x", "b", "c"]
    assert [hit.score for hit in joined] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])


def test_facts_are_taken_in_turns_and_once() -> None:
    one, two, three = Entity("one"), Entity("two"), Entity("three")
    pair, other = Relation(RelationKey("one", "two")), Relation(RelationKey("two", "three"))
    merged = merge_facts(GraphFacts((one, two), (pair,)), GraphFacts((three, one), (other, pair)))
    assert merged == GraphFacts((one, three, two), (pair, other))
    assert merge_facts() == GraphFacts()
