"""Replies that are read whole, cut, and with half characters."""

from __future__ import annotations

import json

import pytest

from easy_knowledge_retriever.llm.chat_reply import read_reply, salvaged, storable

TEXT = 'E | Caf\u00e9 "K" | Concept | a \\ b\n\U0001f600 END'


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_text_of_a_reply_cut_anywhere_is_its_beginning(ascii_only: bool) -> None:
    whole = json.dumps({"id": "1", "choices": [{"message": {"role": "assistant", "content": TEXT}}]}, ensure_ascii=ascii_only)
    begins = whole.index('"content": "') + len('"content": "')
    seen = set()
    for cut in range(begins, len(whole) + 1):
        reply = salvaged(whole[:cut])
        text = reply["choices"][0]["message"]["content"]
        assert TEXT.startswith(text.rstrip("\ud83d"))
        assert reply["choices"][0]["finish_reason"] == "length"
        seen.add(text)
    assert TEXT in seen


def test_a_beginning_without_text_is_none() -> None:
    with pytest.raises(ValueError, match="no text"):
        salvaged('{"id": "1", "choices": [{"mess')


def test_half_a_character_is_replaced() -> None:
    assert storable("a \ud83d b") == "a \ufffd b"
    assert storable("\ud83d\ude00") == "\U0001f600"
    assert storable("plain") == "plain"
    reply = read_reply({"choices": [{"message": {"content": "x\udc00"}}]})
    assert reply.text == "x\ufffd"
