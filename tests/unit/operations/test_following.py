from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.following import following_chunks, with_following
from easy_knowledge_retriever.types import Chunk


def chunk(order: int, last: int = 9) -> Chunk:
    following = f"c{order + 1}" if order < last else ""
    return Chunk(f"c{order}", "d", "d.md", "v", order, "text", order * 5, order * 5 + 4, next_id=following)


async def load(ids: Sequence[str]) -> dict[str, Chunk]:
    return {key: chunk(int(key[1:])) for key in ids if key != "c5"}


async def test_one_step_after_each_of_the_best() -> None:
    assert [c.id for c in await following_chunks([chunk(7), chunk(1)], 1, load)] == ["c8", "c2"]


async def test_further_steps_come_after_nearer_ones() -> None:
    assert [c.id for c in await following_chunks([chunk(7), chunk(1)], 2, load)] == ["c8", "c2", "c9", "c3"]


async def test_it_stops_at_the_end_and_at_what_may_not_be_seen() -> None:
    assert [c.id for c in await following_chunks([chunk(9), chunk(4)], 3, load)] == []


async def test_a_hit_that_follows_another_hit_is_not_given_again() -> None:
    assert [c.id for c in await following_chunks([chunk(1), chunk(2)], 1, load)] == ["c3"]


def test_following_chunks_take_the_last_places() -> None:
    pool = [f"p{i}" for i in range(10)]
    assert with_following(pool, ["f1", "f2"], 8) == ["p0", "p1", "p2", "p3", "p4", "p5", "f1", "f2"]


def test_at_most_a_quarter_of_the_places_is_taken_from_hits() -> None:
    assert with_following(["p0", "p1", "p2", "p3", "p4"], ["f1", "f2", "f3"], 4) == ["p0", "p1", "p2", "f1"]


def test_free_places_are_filled() -> None:
    assert with_following(["p0"], ["f1", "f2", "f3"], 4) == ["p0", "f1", "f2", "f3"]


def test_a_following_chunk_that_was_found_anyway_stays_where_it_is() -> None:
    assert with_following(["p0", "f1", "p2", "p3"], ["f1"], 4) == ["p0", "f1", "p2", "p3"]


IDS = st.lists(st.integers(0, 20).map(str), unique=True, max_size=12)


@given(pool=IDS, following=IDS, keep=st.integers(1, 12))
def test_no_duplicates_no_overflow_and_the_head_untouched(pool: list[str], following: list[str], keep: int) -> None:
    kept = with_following(pool, following, keep)
    assert len(kept) == len(set(kept)) <= keep
    assert len(kept) == min(keep, len(set(pool[:keep]) | set(following)))
    head = min(len(pool), keep - keep // 4)
    assert kept[:head] == pool[:head]
