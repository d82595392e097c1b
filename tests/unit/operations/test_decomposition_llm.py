"""The questions inside a question, found by a model."""

from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import BudgetExceeded, UpstreamTimeout
from easy_knowledge_retriever.operations.base import Parts
from easy_knowledge_retriever.operations.decomposition import LocalSplitter
from easy_knowledge_retriever.operations.decomposition_llm import DECOMPOSITION_FAILED, LLMSplitter
from easy_knowledge_retriever.testing.fakes import FakeLLMService

QUESTION = "Who climbed Mount Kell and what is bread baked from?"
LOCAL = ("Who climbed Mount Kell", "what is bread baked from?")


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("Who climbed Mount Kell?\nWhat is bread baked from?", ("Who climbed Mount Kell?", "What is bread baked from?")),
        ("1. Who climbed Mount Kell?\n\n2) What is bread baked from?", ("Who climbed Mount Kell?", "What is bread baked from?")),
        ('- "Who climbed Mount Kell?"\n* Who climbed Mount Kell?', ("Who climbed Mount Kell?",)),
        (QUESTION, (QUESTION,)),
        ("Here you are:\nWho climbed Mount Kell?", ("Who climbed Mount Kell?",)),
        (
            "\n".join(f"Who climbed Mount Kell in 190{n}?" for n in range(9)),
            tuple(f"Who climbed Mount Kell in 190{n}?" for n in range(4)),
        ),
    ],
)
async def test_lines_are_parts(reply: str, parts: tuple[str, ...]) -> None:
    assert await LLMSplitter(FakeLLMService([reply])).split(QUESTION) == Parts(parts)


@pytest.mark.parametrize("reply", [" ", "I am a parrot.", "bread " * 200, "----"])
async def test_nonsense_is_replaced_by_the_local_way(reply: str) -> None:
    assert await LLMSplitter(FakeLLMService([reply])).split(QUESTION) == Parts(LOCAL, (DECOMPOSITION_FAILED,))


async def test_a_failing_model_is_replaced_by_the_local_way() -> None:
    model = FakeLLMService(faults={1: UpstreamTimeout("slow"), 2: BudgetExceeded("enough")})
    assert await LLMSplitter(model).split(QUESTION) == Parts(LOCAL, degraded=(DECOMPOSITION_FAILED,))
    with pytest.raises(BudgetExceeded):
        await LLMSplitter(model).split(QUESTION)


async def test_the_local_way() -> None:
    assert await LocalSplitter().split(QUESTION) == Parts(LOCAL)
    assert await LocalSplitter().split("What?") == Parts(("What?",))


async def test_the_question_is_text() -> None:
    model = FakeLLMService(["x"])
    await LLMSplitter(model).split("</whole-1> {tag} bread?")
    assert "</whole-1> {tag} bread?" in model.requests[0][-1].content
