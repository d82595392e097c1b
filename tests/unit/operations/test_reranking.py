from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import UpstreamError
from easy_knowledge_retriever.operations.reranking import rerank
from easy_knowledge_retriever.testing.fakes import FakeRerankerService
from easy_knowledge_retriever.types import Chunk


def chunk(name: str, text: str) -> Chunk:
    return Chunk(name, "d", "d.md", "v", 0, text, 0, len(text), headings=("Heading",))


CHUNKS = [chunk("a", "salt"), chunk("b", "salt and water"), chunk("c", "water")]


async def test_best_first_and_ties_keep_their_order() -> None:
    ranked = await rerank("salt water", CHUNKS, FakeRerankerService())
    assert ranked is not None
    assert [(c.id, score) for c, score in ranked] == [("b", 1.0), ("a", 0.5), ("c", 0.5)]


async def test_the_indexed_text_is_what_is_read_in_one_call() -> None:
    service = FakeRerankerService()
    await rerank("salt", CHUNKS, service)
    assert service.requests == [("salt", tuple(c.indexed_text for c in CHUNKS))]


async def test_nothing_to_rank_asks_nobody() -> None:
    service = FakeRerankerService()
    assert await rerank("salt", [], service) == []
    assert service.calls == 0


async def test_an_outage_is_told_and_other_errors_are_raised() -> None:
    assert await rerank("salt", CHUNKS, FakeRerankerService(faults={1: UpstreamError("down")})) is None
    with pytest.raises(ValueError, match="bug"):
        await rerank("salt", CHUNKS, FakeRerankerService(faults={1: ValueError("bug")}))
