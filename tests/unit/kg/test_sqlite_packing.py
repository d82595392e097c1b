from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.sqlite import packing
from easy_knowledge_retriever.kg.sqlite.packing import PackingError, pack, unpack


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_packing_is_undone(text: str) -> None:
    assert unpack(pack(text)) == text


@pytest.mark.parametrize("length", [10, 500, 200_000])
def test_a_long_row_is_packed_and_a_short_one_stands_as_it_is(length: int) -> None:
    text = json.dumps({"text": "one two three " * length})[:length]
    packed = pack(text)
    assert isinstance(packed, str if length < 48 else bytes)
    assert len(packed) <= length
    assert unpack(packed) == text
    assert pack(text) == packed


def test_what_does_not_get_smaller_stands_as_it_is() -> None:
    text = hashlib.sha512(b"").hexdigest()[:50] + "\U0001f600"
    packed = pack(text)
    assert packed == text or len(packed) < len(text.encode())


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"\xff" + b, lambda b: b""])
def test_damage_is_noticed(spoil: Callable[[bytes], bytes]) -> None:
    packed = pack("one two three " * 40)
    assert isinstance(packed, bytes)
    with pytest.raises(PackingError):
        unpack(spoil(packed))


def test_the_dictionary_is_part_of_the_format() -> None:
    assert hashlib.sha256(packing._DICTIONARY).hexdigest()[:16] == "e943f7be43bdcb47"
