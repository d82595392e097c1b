"""Shares of characters, worked out by hand."""

from __future__ import annotations

from evaluation.spans import CHUNKERS, Scores, front, scores, sentence_windows, table


def test_characters_count_once() -> None:
    assert scores([(0, 10)], [(5, 20), (5, 25)]) == Scores(50.0, 25.0, 20.0)
    assert scores([(0, 4), (2, 6)], [(0, 6)]) == Scores(100.0, 100.0, 100.0)
    assert scores([(0, 10)], []) == Scores(0.0, 0.0, 0.0)


def test_the_front() -> None:
    found = {"long": Scores(90, 5, 5), "short": Scores(60, 20, 18), "worse": Scores(60, 10, 9), "same": Scores(90, 5, 5)}
    assert front(found) == {"long", "short", "same"}
    assert table(found, dict.fromkeys(found, 7)).splitlines()[2:4] == [
        "| long | 7 | 90.0 | 5.0 | 5.0 | * |",
        "| short | 7 | 60.0 | 20.0 | 18.0 | * |",
    ]


def test_windows_of_sentences() -> None:
    text = " ".join(f"This is sentence {i}." for i in range(9))
    windows = [row["content"] for row in sentence_windows(None, text)]
    assert [window.count("This") for window in windows] == [5, 5, 3]
    assert windows[1].startswith("This is sentence 3.")
    assert len(CHUNKERS) >= 5
