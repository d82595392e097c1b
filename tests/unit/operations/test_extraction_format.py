"""The reader of model output is total."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.extraction_format import MOST_RECORDS, parse_extraction
from easy_knowledge_retriever.operations.extraction_json import is_readable
from easy_knowledge_retriever.types import EntityMention, RelationMention
from tests.support.properties import examples

VALID = """\
E | Mira Holt | Person | Mira Holt founded the Tidewater Observatory.
E | Tidewater Observatory | Organization | Founded in 1974.
E | Brenn | Location | A town.
R | Mira Holt | Tidewater Observatory | founding, astronomy | 9 | She founded it in 1974.
R | Tidewater Observatory | Brenn | location | 6 | It stands in Brenn.
END
"""
ENTITIES = (
    EntityMention("Mira Holt", "Person", "Mira Holt founded the Tidewater Observatory."),
    EntityMention("Tidewater Observatory", "Organization", "Founded in 1974."),
    EntityMention("Brenn", "Location", "A town."),
)
RELATIONS = (
    RelationMention("Mira Holt", "Tidewater Observatory", "She founded it in 1974.", ("founding", "astronomy"), 9.0),
    RelationMention("Tidewater Observatory", "Brenn", "It stands in Brenn.", ("location",), 6.0),
)


def test_a_valid_answer() -> None:
    parsed = parse_extraction(VALID)
    assert parsed.entities == ENTITIES
    assert parsed.relations == RELATIONS
    assert (parsed.rejected, parsed.ended, parsed.is_empty) == (0, True, False)


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{VALID}```",
        f"Here is the list:\n\n{VALID}\nI hope this helps!",
        f"\ufeff{VALID}",
        VALID.replace("\n", "\r\n"),
        VALID.replace(" | ", "|"),
        VALID.replace(" | ", "\t"),
        VALID.replace(" | ", "<|>"),
        VALID.replace("E |", "- E |").replace("R |", "* R |"),
        VALID.replace("E |", "entity |").replace("R |", "RELATIONSHIP |"),
        VALID.replace("E |", "1. E |"),
        VALID.replace("E | ", '("entity"<|>').replace("R | ", '("relationship"<|>').replace(" | ", "<|>"),
        VALID.replace("END\n", ""),
        VALID.replace("END\n", "").rstrip("\n"),
        VALID.replace("END", "**END**"),
        VALID.replace("Mira Holt |", "**Mira Holt** |"),
        VALID.replace("Brenn |", '"Brenn" |'),
        VALID.replace("| 9 |", '| "9" |'),
        VALID.replace("Mira Holt |", "Mira\u202e Holt\u0000 |"),
    ],
)
def test_the_same_records_however_it_is_dressed(text: str) -> None:
    parsed = parse_extraction(text)
    assert parsed.entities == ENTITIES
    assert parsed.relations == RELATIONS


def test_a_cut_answer_keeps_every_complete_record() -> None:
    raw = VALID.encode()
    starts = [0]
    for line in VALID.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for end in range(len(raw) + 1):
        parsed = parse_extraction(raw[:end].decode(errors="replace"), cut=True)
        lines = sum(start <= end for start in starts[1:])
        expected = ENTITIES[:lines]
        assert parsed.entities[: len(expected)] == expected
        assert parsed.relations == RELATIONS[: max(0, lines - 3)]
        assert len(parsed.entities) == len(expected)


def test_a_name_of_several_bytes_may_be_cut() -> None:
    raw = "E | Émile Zölà | Person | né à Paris — 日本\nEND\n".encode()
    for end in range(len(raw)):
        parse_extraction(raw[:end].decode(errors="replace"))


@pytest.mark.parametrize(
    ("line", "rejected"),
    [
        ("E |", 1),
        ("E | Alone", 1),
        ("E |  | Person | nobody", 1),
        ("E | ... | Person | nobody", 1),
        (f"E | {'x' * 300} | Person | long", 1),
        ("R | A", 1),
        ("R | A | B", 1),
        ("R | A | A | self | 3 | loop", 1),
        ("R | A | a | self | 3 | loop", 1),
        ("Some prose about E and R.", 0),
        ("| E | table |", 0),
        ("", 0),
    ],
)
def test_what_is_no_record_is_counted(line: str, rejected: int) -> None:
    parsed = parse_extraction(f"E | Brenn | Location | A town.\n{line}\nEND\n")
    assert parsed.entities == (ENTITIES[2],)
    assert parsed.rejected == rejected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("R | A | B | it is near", RelationMention("A", "B", "it is near")),
        ("R | A | B | near | it is near", RelationMention("A", "B", "it is near", ("near",))),
        ("R | A | B | near | it is near | 4", RelationMention("A", "B", "it is near", ("near",), 4.0)),
        ("R | A | B | near | 4 | it is | near", RelationMention("A", "B", "it is | near", ("near",), 4.0)),
        ("R | A | B | near | 1e999 | x", RelationMention("A", "B", "x", ("near",), 10.0)),
        ("R | A | B | near | NaN | x", RelationMention("A", "B", "x", ("near",), 1.0)),
        ("R | A | B | near | -5 | x", RelationMention("A", "B", "x", ("near",), 0.1)),
        ("R | A | B | near; close, near | 2 |", RelationMention("A", "B", "", ("near", "close"), 2.0)),
    ],
)
def test_relations_with_other_fields(line: str, expected: RelationMention) -> None:
    assert parse_extraction(line).relations == (expected,)


def test_an_end_that_is_not_listed_becomes_an_entity() -> None:
    parsed = parse_extraction("E | Brenn | Location | A town.\nR | brenn | Norland | location | 5 | In Norland.\n")
    assert parsed.entities == (ENTITIES[2], EntityMention("Norland"))
    assert parsed.relations[0].source == "Brenn"


def test_variants_of_case_are_one_entity_with_the_longer_description() -> None:
    parsed = parse_extraction("E | Brenn | Location | A town.\nE | BRENN | Location | A town on the coast.\n")
    assert [(mention.name, mention.description) for mention in parsed.entities] == [("BRENN", "A town on the coast.")]


def test_markup_and_long_texts_are_cut_to_the_limits() -> None:
    parsed = parse_extraction(f"E | <b>Brenn</b> | {'t' * 100} | {'d' * 5000}\n")
    mention = parsed.entities[0]
    assert (mention.name, len(mention.type), len(mention.description)) == ("Brenn", 64, 4000)
    assert parse_extraction("E | Brenn | ? | x\n").entities[0].type == "UNKNOWN"


def test_there_is_a_ceiling_of_records() -> None:
    parsed = parse_extraction("".join(f"E | Name {number} | Person | x\n" for number in range(5000)))
    assert (len(parsed.entities), parsed.rejected) == (MOST_RECORDS, 5000 - MOST_RECORDS)


@pytest.mark.parametrize(
    ("text", "readable"), [(VALID, True), ("END", True), ("Sorry, I cannot.", False), ("", False), ("END | x", False)]
)
def test_an_answer_is_worth_keeping_if_it_says_something(text: str, readable: bool) -> None:
    assert is_readable(text) is readable


@examples(300)
@given(st.text(alphabet=st.sampled_from(list("ER|<>\n\t ;:\"'*-`end019.,[]{}()\\\u202e\x00é日")), max_size=300), st.booleans())
def test_any_text_is_read(text: str, cut: bool) -> None:
    parsed = parse_extraction(text, cut=cut)
    names = {mention.name for mention in parsed.entities}
    for relation in parsed.relations:
        assert {relation.source, relation.target} <= names
        assert 0.1 <= relation.weight <= 10


@given(st.text(max_size=300))
def test_any_unicode_is_read(text: str) -> None:
    parse_extraction(text)


@pytest.mark.parametrize("unit", ["E | a | b | c | ", "|", "<", "E;", "a ", "- ", "\n", "E | N | T | d\n", "<|", "*"])
def test_a_long_answer_is_read(unit: str) -> None:
    """Work that grew with the square of the length would take hours for these."""
    parsed = parse_extraction(unit * (200_000 // len(unit)))
    assert len(parsed.entities) <= MOST_RECORDS
