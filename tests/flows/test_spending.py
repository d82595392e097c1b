"""Ceilings over whole ingests and questions, with every model behind one server."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import BudgetExceeded, EasyKnowledgeRetriever, IngestionStopped, Price, QueryParam
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.ingestion import committing
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.retrieval import NaiveRetrieval
from easy_knowledge_retriever.storages import storage_set
from easy_knowledge_retriever.streaming import AnswerPieces, Done, Token
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.replies import ChatReply
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, RERANK, OpenAITestServer
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


def asked_twice(server: OpenAITestServer) -> list[str]:
    """What came in more than once: the messages of chats, the texts of embeddings."""
    chats = Counter(json.dumps(request.body["messages"])[-300:] for request in server.requests if request.path == CHAT)
    texts = Counter(text for request in server.requests if request.path == EMBEDDINGS for text in request.body["input"])
    return [asked for asked, count in (chats + texts).items() if count > 1]


@pytest.mark.parametrize("seed", range(6))
async def test_ceilings_at_random_points_pay_nothing_twice(server: OpenAITestServer, tmp_path: Path, seed: int) -> None:
    """R-ING-9: no attempt passes its ceiling, all attempts together ask what one would have, and the base is the same."""
    chance = random.Random(seed)
    path = tmp_path / "places.md"
    path.write_text(TEXT)
    async with retriever(server, tmp_path / "whole", prices=PRICES, enable_llm_cache_for_entity_extract=False) as rag:
        whole = await rag.ingest(path)
        expected = await canonical_dump(rag._kb)
    server.requests.clear()
    assert whole.cost is not None
    spent, attempts = 0.0, 0
    while True:
        share = chance.uniform(0.02, 0.4)
        ceiling = chance.choice(({"max_cost": share * whole.cost}, {"max_llm_calls": chance.randrange(1, 6)}))
        async with retriever(
            server, tmp_path / "parts", prices=PRICES, enable_llm_cache_for_entity_extract=False, **ceiling
        ) as rag:
            before = len(server.requests)
            report = await rag.ingest(path, raise_on_error=False)
            spent, attempts = spent + (report.cost or 0.0), attempts + 1
            assert (report.cost or 0.0) <= ceiling.get("max_cost", math.inf)
            calls = [request.path for request in server.requests[before:]]
            assert calls.count(CHAT) <= ceiling.get("max_llm_calls", math.inf)
            if report.status is DocStatus.PROCESSED and not report.warnings:  # a summary that was too dear is one
                assert (await rag.verify(deep=True)).clean
                assert await canonical_dump(rag._kb) == expected
                assert (await rag.usage()).total.known_cost == pytest.approx(spent)
                break
        assert attempts < 200
    assert attempts > 1
    assert asked_twice(server) == []
    assert spent == pytest.approx(whole.cost)


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


def cost_of(server: OpenAITestServer) -> float:
    """What the requests that came in cost, by the words the test server counts."""
    tokens = 0.0
    for request in server.requests:
        if request.path == CHAT:
            tokens += 1000 * sum(len(message["content"].split()) for message in request.body["messages"])
        if request.path == EMBEDDINGS:
            tokens += 100 * sum(len(text.split()) for text in request.body["input"])
    return tokens / 1_000_000 + 0.01 * server.count(RERANK)


async def test_answers_say_what_they_cost_and_the_ledger_remembers(server: OpenAITestServer, tmp_path: Path) -> None:
    prices = PRICES | {"chat": Price(input=1000)}
    async with retriever(server, tmp_path, prices=prices) as rag:
        await rag.ainsert(TEXT, ids="places", file_paths="places.md")
        ingested = cost_of(server)
        asked = await rag.aquery(QUESTION, QueryParam(mode="mix"))
        assert asked.usage.llm_calls == 2
        assert (asked.usage.embedding_calls, asked.usage.rerank_calls, asked.usage.cached_calls) == (1, 1, 0)
        assert asked.cost == pytest.approx(cost_of(server) - ingested)
        again = await rag.aquery(QUESTION, QueryParam(mode="mix"))
        assert (again.usage.llm_calls, again.usage.cached_calls) == (0, 2)
        await rag.retrieve(QUESTION)
    async with retriever(server, tmp_path) as rag:
        report = await rag.usage()
        assert report.total.known_cost == pytest.approx(cost_of(server))
        assert report.questions == 3
        assert set(report.activities) == {"ingest", "mix"}
        assert set(report.purposes) == {"extract", "embed", "summarize", "keywords", "answer", "rerank"}
        assert set(report.models) == {"chat", "embed", "rerank"}
        [document] = report.documents
        assert (document.document_id, document.name) == ("places", "places.md")
        assert document.total == document.live
        assert report.activities["ingest"].cost == pytest.approx(ingested)
        assert 0 < document.total.cost < ingested  # summaries after several texts belong to none of them
        await rag.adelete_by_doc_id("places")
        after = await rag.usage()
        assert (after.documents, after.total.usage.llm_calls) == ((), report.total.usage.llm_calls)


@pytest.mark.parametrize("store", ["sqlite", "files"])
async def test_a_cancelled_commit_is_paid_once(
    server: OpenAITestServer, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "places.md").write_text(TEXT)
    prices = PRICES | {"chat": Price(input=1000)}
    async with retriever(server, tmp_path / "base", prices=prices, **storage_set(store)) as rag:
        async with task_group() as group:
            task = group.create_task(rag.ingest(tmp_path / "places.md"))
            monkeypatch.setattr(committing, "failpoint", lambda name: task.cancel() if name == "tx-before-commit" else None)
        assert task.cancelled()
        monkeypatch.undo()
        assert (await rag.usage()).total.known_cost == pytest.approx(cost_of(server))
        assert (await rag.ingest(tmp_path / "places.md")).status is DocStatus.PROCESSED
        assert (await rag.usage()).total.known_cost == pytest.approx(cost_of(server))


async def test_a_streamed_answer_costs_the_same(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path, prices=PRICES, enable_llm_cache=False) as rag:
        await rag.ainsert(TEXT)
        whole = await rag.aquery(QUESTION, QueryParam(mode="naive"))
        streamed = await rag.aquery(QUESTION, QueryParam(mode="naive", stream=True))
        pieces = streamed.response_iterator
        assert isinstance(pieces, AnswerPieces)
        assert (await pieces.final()).usage == whole.usage
        async with rag.stream(QUESTION, QueryParam(mode="naive")) as events:
            [last] = [event async for event in events if isinstance(event, Done)]
        assert (last.result.usage, last.result.cost) == (whole.usage, whole.cost)
        async with rag.stream(QUESTION, QueryParam(mode="naive")) as events:
            async for event in events:
                if isinstance(event, Token):
                    break
        report = await rag.usage()
        assert report.questions == 4
        assert report.purposes["answer"].usage.llm_calls == 4
        assert report.purposes["answer"].usage.estimated_calls == 1


async def test_a_failed_question_is_paid_too(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert(TEXT)
        server.chat = lambda chat: ChatReply("")
        failed = await rag.aquery(QUESTION, QueryParam(mode="naive", raise_on_error=False))
        assert failed.status == "failure"
        assert failed.usage.llm_calls == 3
        assert (await rag.usage()).purposes["answer"].usage.llm_calls == 3


async def test_another_model_for_one_question_is_paid_and_bound_too(server: OpenAITestServer, tmp_path: Path) -> None:
    other = OpenAILLMService("other", server.base_url, "key", timeout=10)
    async with retriever(server, tmp_path, prices=PRICES, max_cost=100) as rag:
        await rag.ainsert(TEXT)
        with pytest.raises(ConfigError, match="'other' is not known"):
            await rag.aquery(QUESTION, QueryParam(mode="naive", model_func=other))
        strange = OpenAIRerankerService("strange", server.rerank_url, "key", timeout=10)
        with pytest.raises(ConfigError, match="'strange' is not known"):
            await rag.aquery(QUESTION, retrieval=NaiveRetrieval(reranker_service=strange))
    async with retriever(server, tmp_path, prices=PRICES) as rag:
        result = await rag.aquery(QUESTION, QueryParam(mode="naive", model_func=other))
        assert (result.usage.llm_calls, result.cost) == (1, None)
    await other.aclose()
    await strange.aclose()


async def test_a_ceiling_of_cost_wants_every_price(server: OpenAITestServer, tmp_path: Path) -> None:
    for missing in PRICES:
        prices = {model: price for model, price in PRICES.items() if model != missing}
        with pytest.raises(ConfigError, match=f"the price of '{missing}' is not known"):
            retriever(server, tmp_path, prices=prices, max_cost=1)
    assert server.requests == []
