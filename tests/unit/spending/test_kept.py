"""Vectors that are kept while a document is on its way in."""

from __future__ import annotations

import numpy as np

from easy_knowledge_retriever.llm.stack import embedding_stack
from easy_knowledge_retriever.spending.account import Account, charging
from easy_knowledge_retriever.spending.kept import KeptVectors
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService


def keeping(kept: KeptVectors) -> Account:
    account = Account()
    account.vectors = kept
    return account


TEXTS = ["red house", "blue boat", "green hill"]


async def test_a_vector_that_was_paid_for_is_not_asked_for_again() -> None:
    model, kept = FakeEmbeddingService(16), KeptVectors()
    stack = embedding_stack(model)
    with charging(keeping(kept)):
        first = await stack.embed(TEXTS[:2], "document")
        again = await stack.embed([*TEXTS, TEXTS[0]], "document")
        await stack.embed(TEXTS, "query")
    assert [text for text, kind in model.inputs if kind == "document"] == TEXTS
    assert len([text for text, kind in model.inputs if kind == "query"]) == 3
    np.testing.assert_array_equal(again[:2], first)
    np.testing.assert_array_equal(again[3], again[0])
    await stack.embed(TEXTS, "document")
    with charging(Account()):
        await stack.embed(TEXTS, "document")
    assert len(model.inputs) == 12


async def test_what_was_saved_serves_the_next_attempt_of_the_same_model() -> None:
    kept, model = KeptVectors(), FakeEmbeddingService(16)
    with charging(keeping(kept)):
        await embedding_stack(model).embed(TEXTS, "document")
    saved = dict(kept.unsaved)
    kept.saved(list(saved)[:2])
    assert list(kept.unsaved) == list(saved)[2:]
    later, same, other = KeptVectors(), FakeEmbeddingService(16), FakeEmbeddingService(32)
    later.load(saved)
    with charging(keeping(later)):
        np.testing.assert_array_equal(await embedding_stack(same).embed(TEXTS, "document"), await model.embed(TEXTS, "document"))
        assert (await embedding_stack(other).embed(TEXTS, "document")).shape == (3, 32)
    assert (same.calls, other.calls, len(later.unsaved)) == (0, 1, 3)
