from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.budget import cut_chunk, longest_prefix
from easy_knowledge_retriever.types import Chunk, PageSpan


def words(text: str) -> int:
    return len(text.split())


TEXTS = st.lists(st.text("ab ", max_size=20), max_size=12)


@given(texts=TEXTS, limit=st.integers(0, 40), likely=st.none() | st.integers(0, 20))
def test_the_prefix_fits_and_one_more_would_not(texts: list[str], limit: int, likely: int | None) -> None:
    kept = longest_prefix(texts, lambda some: words(" | ".join(some)), limit, likely)
    assert list(kept) == texts[: len(kept)]
    assert not kept or words(" | ".join(kept)) <= limit
    if len(kept) < len(texts):
        assert words(" | ".join(texts[: len(kept) + 1])) > limit


def chunk(text: str) -> Chunk:
    half = len(text) // 2
    return Chunk(
        "c",
        "d",
        "d.md",
        "v",
        0,
        text,
        100,
        100 + len(text),
        pages=(PageSpan(3, 100, 100 + half), PageSpan(4, 100 + half, 100 + len(text))),
    )


def tagged(part: Chunk) -> str:
    return f"<passage> {part.text} </passage>"


def test_a_chunk_is_cut_at_a_blank_and_stays_a_slice() -> None:
    whole = chunk("one two three four five six")
    part = cut_chunk(whole, lambda c: words(tagged(c)), 5)
    assert part is not None
    assert part.text == "one two three"
    assert (part.start, part.end) == (100, 113)
    assert [page.page for page in part.pages] == [3]
    assert whole.text.startswith(part.text)


def test_a_text_without_blanks_is_cut_anywhere() -> None:
    part = cut_chunk(chunk("abcdefgh"), lambda c: len(c.text), 3)
    assert part is not None
    assert part.text == "abc"


def test_nothing_fits_is_told() -> None:
    assert cut_chunk(chunk("one two"), lambda c: words(tagged(c)), 2) is None


@given(text=st.text("ab \n", min_size=1, max_size=60), limit=st.integers(0, 30))
def test_a_cut_fits(text: str, limit: int) -> None:
    part = cut_chunk(chunk(text), lambda c: words(tagged(c)), limit)
    assert part is None or (words(tagged(part)) <= limit and text.startswith(part.text) and part.text)


def test_few_numbers_are_tried() -> None:
    tried: list[int] = []

    def count(some: Sequence[str]) -> int:
        tried.append(len(some))
        return 30 * len(some)

    assert len(longest_prefix(["a"] * 64, count, 1000)) == 33
    assert len(tried) <= 8
    tried.clear()
    assert len(longest_prefix(["a"] * 64, count, 1000, 33)) == 33
    assert tried == [33, 34]
