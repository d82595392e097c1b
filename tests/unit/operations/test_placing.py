"""Where mentions stand: the right place or none."""

from __future__ import annotations

import pytest

from easy_knowledge_retriever.operations.placing import Placing
from easy_knowledge_retriever.types import Chunk, EntityMention, RelationMention

OFFSET = 100


def placed(text: str, name: str) -> str | None:
    """What stands at the span of an entity."""
    mention = Placing(Chunk("c", "d", "a.md", "v", 0, text, OFFSET, OFFSET + len(text))).entity(EntityMention(name))
    return None if mention.start is None or mention.end is None else text[mention.start - OFFSET : mention.end - OFFSET]


def sentence(text: str, source: str, target: str, description: str = "", *keywords: str) -> str | None:
    """The sentence at the span of a relation."""
    relation = RelationMention(source, target, description, keywords)
    mention = Placing(Chunk("c", "d", "a.md", "v", 0, text, OFFSET, OFFSET + len(text))).relation(relation)
    return None if mention.start is None or mention.end is None else text[mention.start - OFFSET : mention.end - OFFSET]


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("The Marketing of Mark Lund.", "Mark", "Mark"),
        ("Marketing only.", "Mark", None),
        ("They asked us about the US army.", "US", "US"),
        ("They asked us.", "US", None),
        ("the tidewater observatory", "Tidewater Observatory", "tidewater observatory"),
        ("the Tidewater\nObservatory", "Tidewater Observatory", "Tidewater\nObservatory"),
        ("the Tidewater  Observatory's dome", "Tidewater Observatory", "Tidewater  Observatory"),
        ("東京都に住む", "東京", "東京"),
        ("서울은 크다", "서울", "서울"),
        ("İstanbul, Brenn", "Brenn", "Brenn"),
        ("Brenn-based", "Brenn", "Brenn"),
        ("nothing", "Brenn", None),
        ("C++ and C", "C++", "C++"),
    ],
)
def test_a_name_is_found_as_a_whole(text: str, name: str, found: str | None) -> None:
    assert placed(text, name) == found


def test_a_relation_rests_on_the_sentence_that_names_both() -> None:
    text = "Mira Holt lived long. In 1974 Mira Holt came to Brenn. Mira Holt founded a school in Brenn. Brenn is small."
    assert sentence(text, "Mira Holt", "Brenn") == "In 1974 Mira Holt came to Brenn."
    assert sentence(text, "Brenn", "Mira Holt", "She founded the school there.") == "Mira Holt founded a school in Brenn."
    assert sentence(text, "Brenn", "Mira Holt", "", "founded") == "Mira Holt founded a school in Brenn."


def test_rather_no_span_than_a_wrong_one() -> None:
    assert sentence("Mira Holt lived long. She came to Brenn.", "Mira Holt", "Brenn") is None
    assert sentence("Marketing in Brenn.", "Mark", "Brenn") is None
