from __future__ import annotations

from pathlib import Path

import numpy as np

from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from evaluation.vector_cache import CachedEmbeddings


async def test_a_text_is_embedded_once_even_by_a_later_run(tmp_path: Path) -> None:
    first = FakeEmbeddingService(8)
    cache = CachedEmbeddings(first, tmp_path)
    vectors = await cache.embed(["salt", "water", "salt"], "document")
    assert [text for text, _ in first.inputs] == ["salt", "water"]
    second = FakeEmbeddingService(8)
    again = await CachedEmbeddings(second, tmp_path).embed(["water", "sand"], "document")
    assert [text for text, _ in second.inputs] == ["sand"]
    assert np.array_equal(again[0], vectors[1])
    assert np.array_equal(vectors[0], vectors[2])


async def test_questions_and_passages_are_told_apart(tmp_path: Path) -> None:
    service = FakeEmbeddingService(8)
    cache = CachedEmbeddings(service, tmp_path)
    await cache.embed(["salt"], "document")
    await cache.embed(["salt"], "query")
    assert service.calls == 2
    assert (await cache.embed([], "query")).shape == (0, 8)
