"""Any text is read, and what JSON it holds comes out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.json_reading import DEEPEST, MOST_SIGNS, read_json
from tests.support.properties import examples

VALUE: dict[str, Any] = {"a": [{"b": "x, y: {z}", "n": -1.5e3}, {"b": 'é\n\t"q" \\', "n": 7}], "t": [True, False, None], "o": {}}
STRICT = json.dumps(VALUE)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def one(text: str) -> Any:
    """The only value in a text."""
    (value,) = read_json(text).values
    return value


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (STRICT, set()),
        (json.dumps(VALUE, indent=2), set()),
        (f"\ufeff{STRICT}", {"text around it"}),
        (f"```json\n{STRICT}\n```", {"text around it"}),
        (f"Here it is, as in [1]:\n{STRICT}\nI hope {{it}} helps!", {"text around it"}),
        (STRICT.replace("}]", "},]").replace("7}", "7,}"), {"trailing comma"}),
        (STRICT.replace('"o": {}', '"o": {}, // nothing\n /* at all */'), {"comment", "trailing comma"}),
        (STRICT.replace('"o": {}', '"o": {} # no'), None),
        (STRICT.replace("true", "True").replace("null", "None"), {"word without quotation marks"}),
        (STRICT.replace('"t"', "t").replace('"o"', "'o'"), {"word without quotation marks", "other quotation marks"}),
        (STRICT.replace('"a"', "“a”"), {"other quotation marks"}),
        (STRICT.replace("}, {", "} {"), set()),
        (STRICT.replace("}]", "}", 1).replace(', "t"', '], "t"'), set()),
        (STRICT.replace("null]", "null"), {"missing bracket"}),
        (STRICT.replace('"o": {}', '"o": 1, "o": {}'), {"key given twice"}),
        (STRICT.replace('"o": {}', '"p":, "o": {}'), {"key without a value"}),
    ],
)
def test_the_same_value_however_it_is_dressed(text: str, mended: set[str] | None) -> None:
    read = read_json(text)
    if mended is None:  # a comment of another language is a word that stands for nothing
        assert read.values[0]["a"] == VALUE["a"]
        return
    assert read.values[0] == VALUE
    assert mended <= set(read.mended)
    assert not mended or read.mended
    assert not read.cut


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'name': 'Mira's house', 'n': 1}", {"name": "Mira's house", "n": 1}),
        ('{"d": "He said "yes", then left", "n": 1}', {"d": 'He said "yes", then left', "n": 1}),
        ('{"d": "one\ntwo"}', {"d": "one\ntwo"}),
        ('{"d": "\\ud83d\\ude00", "e": \'\\u00e9\'}', {"d": "😀", "e": "é"}),
        ("{'d': '\\ud83d'}", {"d": "\ufffd"}),
        ("{'d': '\\q\\'\\n'}", {"d": "q'\n"}),
        ("{'w': +3, 'x': 1e999, 'y': .5, 'z': 007}", {"w": 3, "x": math.inf, "y": 0.5, "z": 7}),
        ("{'w': 1.2.3}", {"w": "1.2.3"}),
        ("{name: Mira Holt, type: Person}", {"name": "Mira Holt", "type": "Person"}),
        ("{'a': 1}}", {"a": 1}),
        ("{'a': [1, 2}", {"a": [1, 2]}),
        ("[{'a': 1}, {'a': 2]", [{"a": 1}, {"a": 2}]),
    ],
)
def test_what_models_write_instead(text: str, value: Any) -> None:
    assert one(text) == value


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(one('{"w": NaN}')["w"])
    assert math.isnan(one("{'w': NaN}")["w"])


def test_a_long_number_is_no_work() -> None:
    assert len(one(f"{{'w': {'9' * 100_000}}}")["w"]) <= 400
    assert one(f'{{"w": {"9" * 5000}}}')["w"]


def test_several_values() -> None:
    assert read_json('{"a": 1}\n{"a": 2}\n').values == ({"a": 1}, {"a": 2})
    assert read_json("nothing here, not even [1] or {that}").values == ()
    assert read_json("").values == ()


def test_cut_anywhere_whole_elements_stay() -> None:
    records = [{"name": f"N{n}", "tags": ["x", "y"]} for n in range(3)]
    text = json.dumps({"first": records, "second": records}, ensure_ascii=False)
    raw = text.encode()
    seen = 0
    for end in range(1, len(raw)):
        read = read_json(raw[:end].decode(errors="replace"))
        if not read.values:
            continue
        (value,) = read.values
        assert read.cut
        kept = [*value.get("first", []), *value.get("second", [])]
        assert kept == (records * 2)[: len(kept)]
        assert len(kept) >= seen
        seen = len(kept)
    assert seen == 6


def test_depth_is_bounded() -> None:
    for depth in (DEEPEST - 1, DEEPEST + 1, 5000, 100_000):
        read = read_json("{'a': 1, 'b': " + "[" * depth + "]" * depth + ", 'c': 2}")
        assert read.values[0]["a"] == 1
        assert read.values[0].get("c", 2) == 2
        assert bool(read.mended.get("too deep")) == (depth >= DEEPEST) or read.cut
    assert read_json('{"a": ' + "[" * 5000 + "]" * 5000 + "}").values


@examples(200)
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_json_is_read_as_json(value: dict[str, Any]) -> None:
    assert one(json.dumps(value)) == value
    broken = json.dumps(value)[:-1] + ", // and no more\n}" if value else "{}"
    assert one(broken) == value


SCRAPS = [*"{}[],:\"'\\“”\n a1-.\ufeff\x00é\ud800", "//", "/*", "*/", "e9", "true", "NaN"]


@examples(500)
@given(st.lists(st.sampled_from(SCRAPS), max_size=60).map("".join))
def test_any_text_is_read(text: str) -> None:
    for value in read_json(text).values:
        assert isinstance(value, dict | list)


@pytest.mark.parametrize(
    "unit",
    [
        '{"a":[',
        "[",
        "{",
        '"',
        "'",
        "\\",
        '{"a":"',
        '[{"a":1},',
        '{"a":"x" ',
        '",',
        "/*",
        "//",
        "{a:",
        "{ ",
        "}",
        '{"a":1}',
        "[1 ",
    ],
)
def test_a_long_text_is_bounded_work(unit: str) -> None:
    """Broken JSON is read sign by sign, up to a ceiling; work that grew with the square of the length would take hours."""
    read = read_json('{"k":' + unit * (2_000_000 // len(unit)))
    assert len(read.values) <= MOST_SIGNS
