"""Ceilings over whole ingests and questions, with every model behind one server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import BudgetExceeded, EasyKnowledgeRetriever, IngestionStopped, Price, QueryParam
from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.testing.server import CHAT, OpenAITestServer
from easy_knowledge_retriever.types import DocStatus

PRICES = {
    "chat": Price(input=1000, output=4000),
    "embed": Price(input=100),
    "rerank": Price(rerank_call=0.01),
}
PLACES = ("Ostrania", "Verdel", "Lund", "Kell", "Brenn", "Skarn", "Tarnow", "Velm")
TEXT = "\n\n".join(
    f"# {place}\n\nMira Holt of {place} met Ida Brandt in {place} City. They climbed {place} Hill." for place in PLACES
)
QUESTION = "Who met Ida Brandt in Lund City?"


@pytest.fixture
async def server() -> AsyncIterator[OpenAITestServer]:
    async with OpenAITestServer() as running:
        yield running


def retriever(server: OpenAITestServer, folder: Path, **keywords: Any) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(
        folder,
        llm_service=OpenAILLMService("chat", server.base_url, "key", max_async=2, timeout=10),
        embedding_service=OpenAIEmbeddingService("embed", server.base_url, "key", 256, timeout=10),
        reranker_service=OpenAIRerankerService("rerank", server.rerank_url, "key", timeout=10),
        chunk_token_size=40,
        chunk_overlap_token_size=0,
        **keywords,
    )


async def test_an_ingest_stops_at_the_ceiling_and_goes_on_later(server: OpenAITestServer, tmp_path: Path) -> None:
    path = tmp_path / "places.md"
    path.write_text(TEXT)
    async with retriever(server, tmp_path / "base", max_llm_calls=3) as rag:
        with pytest.raises(IngestionStopped, match="3 model calls are made, the ceiling is 3") as stopped:
            await rag.ingest(path)
        assert (stopped.value.exit_code, stopped.value.stage) == (10, "extract_llm")
        assert stopped.value.usage is not None
        assert stopped.value.usage.llm_calls == 3
        assert isinstance(stopped.value.__cause__, BudgetExceeded)
        [record] = await rag.get_docs()
        assert (record.status, record.stage) == (DocStatus.INTERRUPTED, "extract_llm")
        report = await rag.ingest(path, raise_on_error=False)
        assert (report.status, report.usage.llm_calls) == (DocStatus.INTERRUPTED, 0)
    assert server.count(CHAT) == 3
    async with retriever(server, tmp_path / "base") as rag:
        assert (await rag.ingest(path)).status is DocStatus.PROCESSED
        assert (await rag.verify(deep=True)).clean


async def test_a_question_stops_at_the_ceiling(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert(TEXT)
    async with retriever(server, tmp_path, max_llm_calls=1) as rag:
        with pytest.raises(BudgetExceeded):
            await rag.aquery(QUESTION, QueryParam(mode="mix"))
        result = await rag.aquery(QUESTION, QueryParam(mode="naive", raise_on_error=False))
        assert (result.status, result.metadata["error"]) == ("failure", "budget")
    async with retriever(server, tmp_path, max_llm_calls=1) as rag:
        assert "Lund" in (await rag.aquery(QUESTION, QueryParam(mode="naive"))).content


async def test_a_report_says_what_it_cost(server: OpenAITestServer, tmp_path: Path) -> None:
    path = tmp_path / "places.md"
    path.write_text(TEXT)
    async with retriever(server, tmp_path / "base", prices=PRICES, max_cost=1000) as rag:
        report = await rag.ingest(path)
        usage = report.usage
        assert usage.llm_calls == server.count(CHAT)
        tokens = 1000 * usage.prompt_tokens + 4000 * usage.completion_tokens + 100 * usage.embedding_tokens
        assert report.cost == pytest.approx(tokens / 1_000_000)
        assert (await rag.ingest(path)).cost == 0


async def test_a_ceiling_of_cost_wants_every_price(server: OpenAITestServer, tmp_path: Path) -> None:
    for missing in PRICES:
        prices = {model: price for model, price in PRICES.items() if model != missing}
        with pytest.raises(ConfigError, match=f"the price of '{missing}' is not known"):
            retriever(server, tmp_path, prices=prices, max_cost=1)
    assert server.requests == []
