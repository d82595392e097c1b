"""Entities and relations in JSON give the same records as in lines."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.extraction_format import MOST_RECORDS, parse_extraction
from easy_knowledge_retriever.operations.extraction_json import (
    SCHEMA,
    is_readable,
    parse_json_extraction,
    parse_reply,
    written,
)
from easy_knowledge_retriever.types import EntityMention, RelationMention
from tests.support.properties import examples
from tests.unit.operations.test_extraction_format import ENTITIES, RELATIONS, VALID

OBJECT: dict[str, Any] = {
    "entities": [{"name": e.name, "type": e.type, "description": e.description} for e in ENTITIES],
    "relations": [
        {"source": r.source, "target": r.target, "keywords": list(r.keywords), "weight": r.weight, "description": r.description}
        for r in RELATIONS
    ],
}
WHOLE = json.dumps(OBJECT)


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        json.dumps(OBJECT, indent=1),
        f"```json\n{WHOLE}\n```",
        f"Sure! Here is the JSON:\n{WHOLE}\nLet me know.",
        f"\ufeff{WHOLE}",
        WHOLE.replace("}]", "},]"),
        WHOLE.replace('"', "'"),
        WHOLE.replace('"relations"', "/* now */ 'relations'"),
        WHOLE.replace('"weight": 9.0', '"weight": "9"'),
        WHOLE.replace('["founding", "astronomy"]', '"founding, astronomy"'),
        WHOLE.replace("entities", "Nodes").replace("relations", "relationships"),
        WHOLE.replace('"name"', '"entity_name"').replace('"source"', '"from"').replace('"target"', '"to"'),
        json.dumps({"result": OBJECT}),
        json.dumps([*OBJECT["entities"], *OBJECT["relations"]]),
        "\n".join(json.dumps(record) for record in (*OBJECT["entities"], *OBJECT["relations"])),
        VALID,
    ],
)
def test_the_same_records_however_they_are_dressed(text: str) -> None:
    parsed = parse_reply(text, form="json")
    assert (parsed.entities, parsed.relations) == (ENTITIES, RELATIONS)
    assert parsed.rejected == 0
    assert parsed.ended
    assert is_readable(text)


def test_what_was_mended_is_said() -> None:
    assert parse_reply(WHOLE, form="json").mended == ()
    assert parse_reply(WHOLE.replace("}]", "},]"), form="json").mended == ("trailing comma",)


def test_a_reply_in_the_other_form_is_read_too() -> None:
    assert parse_reply(WHOLE, form="lines").relations == RELATIONS
    assert parse_reply(VALID, form="json").relations == RELATIONS
    assert parse_reply("prose", form="json").ended is False
    assert parse_reply('{"entities": [], "relations": []}', form="lines").ended


def test_cut_at_every_byte_whole_records_stay() -> None:
    raw = WHOLE.encode()
    ends = [WHOLE.index("}", WHOLE.index(json.dumps(record))) + 1 for record in (*OBJECT["entities"], *OBJECT["relations"])]
    for end in range(len(raw)):
        parsed = parse_json_extraction(raw[:end].decode(errors="replace"), cut=True)
        complete = sum(place <= end for place in ends)
        assert parsed.relations == RELATIONS[: max(0, complete - 3)]
        assert parsed.entities == ENTITIES[: min(complete, 3)]
        assert not parsed.ended


def test_a_record_at_the_top_that_was_cut_is_none() -> None:
    assert parse_json_extraction('{"name": "Mira Holt", "type": "Person", "descr').is_empty


@pytest.mark.parametrize(
    ("record", "rejected"),
    [
        ({"name": "Alone"}, 1),
        ({"name": "", "type": "Person"}, 1),
        ({"name": "x" * 10_000, "type": "Person"}, 1),
        ({"type": "Person", "description": "nobody"}, 1),
        ("text", 1),
        (["Brenn", "Location"], 1),
        (None, 1),
        ({"name": "Brenn", "type": "Location", "description": "A town.", "more": {"a": [1]}}, 0),
    ],
)
def test_what_is_no_entity_is_counted(record: Any, rejected: int) -> None:
    parsed = parse_json_extraction(json.dumps({"entities": [OBJECT["entities"][2], record], "relations": []}))
    assert (parsed.entities, parsed.rejected) == ((ENTITIES[2],), rejected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"weight": "NaN"}, 1.0),
        ({"weight": 1e308}, 10.0),
        ({"weight": -3}, 0.1),
        ({"weight": None}, 1.0),
        ({"weight": [9]}, 1.0),
        ({"weight": True}, 1.0),
    ],
)
def test_weights_are_clamped(change: dict[str, Any], expected: float) -> None:
    record = {"source": "A", "target": "B", "keywords": ["near"], "weight": 5, "description": "x"} | change
    assert parse_json_extraction(json.dumps({"relations": [record]})).relations[0].weight == expected


def test_weights_that_json_cannot_say() -> None:
    text = '{"relations": [{"source": "A", "target": "B", "weight": 1e999}, {"source": "A", "target": "C", "weight": NaN}]}'
    assert [relation.weight for relation in parse_json_extraction(text).relations] == [10.0, 1.0]


@pytest.mark.parametrize(
    ("record", "rejected"),
    [
        ({"source": "A", "target": "A", "keywords": ["x"]}, 1),
        ({"source": "A", "target": "a ", "keywords": ["x"]}, 1),
        ({"source": "A", "target": "B"}, 1),
        ({"source": "A", "description": "x"}, 1),
        ({"source": "brenn", "target": "Norland", "keywords": "near"}, 0),
    ],
)
def test_relations_that_are_none_or_reach_out(record: Any, rejected: int) -> None:
    parsed = parse_json_extraction(json.dumps({"entities": [OBJECT["entities"][2]], "relations": [record]}))
    assert parsed.rejected == rejected
    if not rejected:
        assert parsed.entities == (ENTITIES[2], EntityMention("Norland"))
        assert parsed.relations[0].source == "Brenn"


def test_strange_characters_and_the_names_of_delimiters() -> None:
    records = [{"name": "Mira\u202e Holt\u0000\n", "type": "<b>Person</b>", "description": "E | x | y | z\nEND"}]
    parsed = parse_json_extraction(json.dumps({"entities": [*records, {"name": "END", "type": "Word", "description": ""}]}))
    assert parsed.entities == (EntityMention("Mira Holt", "Person", "E | x | y | z END"), EntityMention("END", "Word"))


def test_there_is_a_ceiling_of_records() -> None:
    entities = [{"name": f"Name {number}", "type": "Person", "description": "x"} for number in range(5000)]
    parsed = parse_json_extraction(json.dumps({"entities": entities, "relations": []}))
    assert (len(parsed.entities), parsed.rejected) == (MOST_RECORDS, 5000 - MOST_RECORDS)


def test_the_schema_is_one_that_servers_take_strictly() -> None:
    def strict(schema: Any) -> None:
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
            for inner in schema["properties"].values():
                strict(inner)
        elif schema["type"] == "array":
            strict(schema["items"])

    strict(SCHEMA)


WORD = st.text(st.sampled_from(string.ascii_letters + "éß-.0"), min_size=1, max_size=8).filter(
    lambda w: any(c.isalnum() for c in w)
)
PHRASE = st.lists(WORD, min_size=1, max_size=4).map(" ".join)
ORDER = st.integers(0, 5)
NAMED = st.builds(EntityMention, PHRASE.map(lambda phrase: f"N {phrase}"), PHRASE, PHRASE)


@examples(50)
@given(
    st.lists(NAMED, min_size=2, max_size=6, unique_by=lambda mention: mention.name.casefold()),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.lists(PHRASE, min_size=1, max_size=3), st.integers(1, 10), PHRASE)
    ),
)
def test_both_forms_say_the_same(entities: list[EntityMention], drawn: list[tuple[int, int, list[str], int, str]]) -> None:
    names = [mention.name for mention in entities]
    relations = [
        RelationMention(names[one % len(names)], names[other % len(names)], description, tuple(words), weight)
        for one, other, words, weight, description in drawn
    ]
    lines = parse_extraction(written(entities, relations, "lines"))
    as_json = parse_json_extraction(written(entities, relations, "json"))
    assert lines == as_json
    assert lines.ended


@examples(200)
@given(st.text(alphabet=st.sampled_from(list("{}[]\":,'\\ entisrlao123.-\n")), max_size=200), st.booleans())
def test_any_text_is_read(text: str, cut: bool) -> None:
    parsed = parse_reply(text, cut=cut, form="json")
    names = {mention.name for mention in parsed.entities}
    assert all({relation.source, relation.target} <= names for relation in parsed.relations)
