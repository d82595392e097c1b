from __future__ import annotations

import pytest

from easy_knowledge_retriever.text.measure import TokenRuler
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer


@pytest.mark.parametrize("text", ["a" + "\u0301" * 5000, "\u200d" * 5000])
def test_a_cut_in_endless_combining_characters_goes_forward_by_all_its_tokens(text: str) -> None:
    ruler = TokenRuler(TiktokenTokenizer(), text)
    end = ruler.after(0, 100, len(text))
    assert ruler.between(0, end) == 100


def test_a_cut_leaves_a_character_whole() -> None:
    text = "e\u0301" * 300
    ruler = TokenRuler(TiktokenTokenizer(), text)
    assert all(text[ruler.after(0, tokens, len(text))] == "e" for tokens in range(2, 200))
