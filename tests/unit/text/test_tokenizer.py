from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.text import tokenizer as module
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer, TokenCounter, token_offsets

TOKENIZER = TiktokenTokenizer()


def test_known_tokens() -> None:
    # The ids that OpenAI publishes for "hello world" in o200k_base.
    assert TOKENIZER.encode("hello world") == [24912, 2375]
    assert TOKENIZER.decode([24912, 2375]) == "hello world"


def test_nothing_has_no_tokens() -> None:
    assert TOKENIZER.encode("") == []
    assert TOKENIZER.decode([]) == ""
    assert TOKENIZER.count("") == 0
    assert TOKENIZER.offsets("") == []


def test_special_tokens_are_plain_text() -> None:
    text = "a<|endoftext|>b"
    assert TOKENIZER.count(text) > 3
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("name", ["gpt-4o-mini", "gpt-3.5-turbo", "some-model-of-next-year"])
def test_every_model_name_is_counted_with_the_same_vocabulary(name: str) -> None:
    assert TiktokenTokenizer(name).encode("retrieval") == TOKENIZER.encode("retrieval")


def test_unknown_tokens_are_refused() -> None:
    with pytest.raises(KeyError):
        TOKENIZER.decode([10**7])


def test_offsets_of_words() -> None:
    assert TOKENIZER.offsets("hello world") == [0, 5]
    assert TOKENIZER.offsets("été world")[-1] == len("été")


def test_a_token_inside_a_character_has_the_place_of_the_character() -> None:
    text = "a\U0001f9ffb"
    tokens = TOKENIZER.encode(text)
    assert len(tokens) > 3
    offsets = TOKENIZER.offsets(text)
    assert offsets[0] == 0
    assert offsets[-1] == 2
    assert set(offsets[1:-1]) == {1}


@given(st.text())
def test_offsets_never_fall_and_stay_within_the_text(text: str) -> None:
    offsets = TOKENIZER.offsets(text)
    assert len(offsets) == TOKENIZER.count(text)
    assert offsets == sorted(offsets)
    assert all(0 <= offset < len(text) for offset in offsets)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decoding_undoes_encoding(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=1000))
def test_texts_without_long_runs_are_encoded_as_tiktoken_does(text: str) -> None:
    encoding: tiktoken.Encoding = module._vocabulary().encoding
    assert TOKENIZER.encode(text) == encoding.encode(text, disallowed_special=())


def test_half_a_surrogate_pair_keeps_the_places_of_what_follows() -> None:
    text = "x \ud800 y"
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == "x ? y"
    assert TOKENIZER.offsets(text)[-1] in {3, 4}


@pytest.mark.parametrize("unit", ["a", " ", "\n", "(", "é", "漢", "a\u0301", "a" * 1999 + " "])
def test_a_megabyte_of_one_kind(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.decode(tokens) == text
    # Quadratic work would be seen as minutes here; the cuts are what prevents it.
    assert max(len(piece) for piece in module._pieces("a" * 1_000_000)) == 2000


def test_cutting_runs_loses_nothing() -> None:
    text = "b " + "a" * 4001 + " " * 2001 + "c"
    pieces = list(module._pieces(text))
    assert "".join(pieces) == text
    assert [len(piece) for piece in pieces] == [2002, 2000, 2001, 2]


class _Words:
    """A tokenizer of a user: a token a character code, folded to lower case if asked."""

    def __init__(self, *, folds: bool) -> None:
        self._folds = folds

    def encode(self, content: str) -> list[int]:
        return [ord(c) for c in (content.lower() if self._folds else content)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


def test_offsets_for_tokenizers_of_users() -> None:
    assert token_offsets(_Words(folds=False), "aBc") == [0, 1, 2]
    assert token_offsets(_Words(folds=True), "aBc") == [0, 1, 2]
    assert token_offsets(_Words(folds=True), "") == []
    assert token_offsets(TOKENIZER, "hello world") == [0, 5]


def test_places_are_spread_evenly_where_decoding_does_not_give_the_text_back() -> None:
    class Pairs(_Words):
        def encode(self, content: str) -> list[int]:
            return super().encode(content)[::2]

    assert token_offsets(Pairs(folds=False), "abcdef") == [0, 2, 4]


INSIDE = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r/.,;'>=&"), max_size=40)


@given(st.lists(INSIDE.map(lambda text: f"<{text}>"), max_size=5))
def test_the_tokens_of_elements_add_up_to_those_of_the_lines(elements: list[str]) -> None:
    counter = TokenCounter(TOKENIZER)
    assert counter.adds_up
    assert sum(counter(f"{element}\n") for element in elements) == counter("".join(f"{element}\n" for element in elements))


def test_elements_with_long_runs_add_up_too() -> None:
    elements = ["<" + "a" * 3000 + ">", "<a" + " " * 2500 + ">", "<b>"]
    counter = TokenCounter(TOKENIZER)
    assert sum(counter(f"{element}\n") for element in elements) == counter("".join(f"{element}\n" for element in elements))


def test_of_other_tokenizers_nothing_is_known() -> None:
    assert not TokenCounter(_Words(folds=False)).adds_up


def test_the_tags_that_close_a_context_have_as_many_tokens_with_a_line_break() -> None:
    for tag in ("</facts>", "</passages>"):
        assert TOKENIZER.count(tag) == TOKENIZER.count(f"{tag}\n")


def test_a_text_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    class Told(_Words):
        def encode(self, content: str) -> list[int]:
            counted.append(content)
            return super().encode(content)

    counter = TokenCounter(Told(folds=False))
    assert [counter("abc"), counter("abc"), counter("\ud800")] == [3, 3, 1]
    assert counted == ["abc", "\ud800"]
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    assert [counter("d"), counter("abc")] == [1, 3]
    assert counted == ["abc", "\ud800", "d", "abc"]


def test_a_damaged_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RANKS", tmp_path / "ranks.gz")
    read = module._vocabulary.__wrapped__
    with pytest.raises(ConfigError, match="cannot be read"):
        read()
    (tmp_path / "ranks.gz").write_bytes(gzip.compress(b"AA== 0"))
    with pytest.raises(ConfigError, match="damaged"):
        read()


def test_nothing_is_read_at_import() -> None:
    code = (
        "from easy_knowledge_retriever.text import tokenizer as t; t.TiktokenTokenizer();"
        "assert t._vocabulary.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
