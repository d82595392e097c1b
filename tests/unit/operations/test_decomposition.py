from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.decomposition import split_question


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who built it?", ("Who built it?",)),
        ("Who built the dam? When did it open?", ("Who built the dam?", "When did it open?")),
        ("Who built the dam and when did it open?", ("Who built the dam", "when did it open?")),
        ("Are salt and water mixed?", ("Are salt and water mixed?",)),
        ("Qui a bâti le barrage et quand a-t-il ouvert ?", ("Qui a bâti le barrage", "quand a-t-il ouvert ?")),
        ("Why? Who built the dam?", ("Why? Who built the dam?",)),
        ("", ("",)),
    ],
)
def test_a_question_is_split_where_another_begins(question: str, parts: tuple[str, ...]) -> None:
    assert split_question(question) == parts


def test_never_more_than_four_parts() -> None:
    assert len(split_question(" ".join(f"What is thing {n}?" for n in range(9)))) == 4
