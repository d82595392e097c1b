"""Keywords found by a model, and what stands in for rubbish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.keywords_llm import LLMKeywords, parse_keywords
from easy_knowledge_retriever.testing.fakes import FakeLLMService


@pytest.mark.parametrize(
    "text",
    [
        "THEMES: treaties; border disputes\nDETAILS: Norland; the Isles",
        "Sure!\n**Themes**: treaties, border disputes\n- Details: \"Norland\"; 'the Isles'.",
        "themes:treaties;border disputes;treaties\ndetails:Norland;the Isles;",
    ],
)
async def test_the_two_lines_are_read(text: str) -> None:
    model = FakeLLMService([text])
    found = await LLMKeywords(model).keywords("Which treaty {ended} it?")
    assert (found.high, found.low) == (("treaties", "border disputes"), ("Norland", "the Isles"))
    assert model.calls == 1
    assert "Which treaty {ended} it?" in model.requests[0][-1].content


@pytest.mark.parametrize("text", ["I cannot help.", "THEMES:\nDETAILS:", "{}"])
async def test_rubbish_gives_the_words_of_the_question(text: str) -> None:
    found = await LLMKeywords(FakeLLMService([text])).keywords("Which treaty ended the dispute of Norland?")
    assert found.high == ()
    assert {"treaty", "ended", "dispute", "Norland"} <= set(found.low)
    assert not {"the", "of"} & set(found.low)


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    high, low = parse_keywords(f"THEMES: {text}\nDETAILS: {text}")
    assert all(high)
    assert all(low)
