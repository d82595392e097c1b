"""Reasoning text never gets through, however it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.llm.reasoning import ReasoningFilter, without_reasoning

PARTS = st.lists(st.sampled_from(["<think>", "</think>", "<THINK>", "<th", "ink>", "a", "İ", "<", "/", " "]), max_size=12)


@given(PARTS, st.integers(1, 5))
def test_the_pieces_do_not_matter(parts: list[str], size: int) -> None:
    text = "".join(parts)
    whole, pieces = ReasoningFilter(), ReasoningFilter()
    expected = whole.feed(text) + whole.rest()
    cut = [pieces.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(cut) + pieces.rest() == expected


@given(st.text(alphabet="abc <>/", max_size=50))
def test_a_text_without_tags_stays(text: str) -> None:
    assert without_reasoning(text) == text.strip()


@given(st.text(alphabet="xyz <>", max_size=30), st.text(alphabet="abc", max_size=30))
def test_a_block_is_taken_out(secret: str, shown: str) -> None:
    assert without_reasoning(f"<think>{secret}</think>{shown}") == shown
    assert without_reasoning(f"{secret}</think>{shown}") == shown
    assert without_reasoning(f"{shown}<think>{secret}") == shown
