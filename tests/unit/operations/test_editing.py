"""A text with spans replaced."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.editing import Edit, Edited


def test_positions_move_with_what_stands_before_them() -> None:
    edited = Edited("0123456789", [(2, 4, ""), (5, 6, "abc"), (6, 8, "x")])
    assert edited.text == "014abcx89"
    assert [edited.moved(position) for position in range(11)] == [0, 1, 2, 2, 2, 3, 6, 7, 7, 8, 9]


@given(st.lists(st.integers(0, 30), min_size=2, unique=True), st.lists(st.sampled_from(["", "?", "longer"]), min_size=30))
def test_what_was_not_replaced_is_found_where_it_went(borders: list[int], news: list[str]) -> None:
    text = "abcdefghijklmnopqrstuvwxyzABCD"
    spans = list(pairwise(sorted(borders)))[::2]
    edited = Edited(text, [(start, end, new) for (start, end), new in zip(spans, news, strict=False)])
    for position, character in enumerate(text):
        if not any(start <= position < end for start, end in spans):
            assert edited.text[edited.moved(position)] == character
    moved = [edited.moved(position) for position in range(len(text) + 1)]
    assert moved == sorted(moved)


class Compared(int):
    """A position that counts how often it is compared."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < other


def test_a_position_is_not_compared_with_every_edit() -> None:
    edits: list[Edit] = [(at, at + 5, "") for at in range(0, 40960, 10)]
    assert Edited(" " * 50000, edits).moved(Compared(45000)) == 45000 - 4096 * 5
    assert Compared.times <= 13
