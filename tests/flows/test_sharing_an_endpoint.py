"""Services, loops and threads at one endpoint: one ceiling, one pause, queries first, one pool of connections, no redirect."""

from __future__ import annotations

import asyncio
import threading

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.endpoints.faults import RequestRefused
from easy_knowledge_retriever.endpoints.limiter import Limiter
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, RERANK, OpenAITestServer

ASK = (Message("user", "hello there"),)
KEY = "canary-key-0123456789"


async def test_two_services_share_one_ceiling(server: OpenAITestServer) -> None:
    """Each was promised not to pass its own, so the lower one holds for both."""
    server.delay = 0.02
    services = [OpenAILLMService(f"m{n}", server.base_url, KEY, max_async=most, timeout=5) for n, most in ((1, 8), (2, 4))]
    async with task_group() as group:
        for service in services:
            for _ in range(20):
                group.create_task(llm_stack(service).complete(ASK, priority="ingest"))
    assert server.peak[CHAT] == 4
    for service in services:
        await service.aclose()


async def test_so_do_the_loops_of_several_threads(server: OpenAITestServer) -> None:
    server.delay = 0.01

    async def many() -> None:
        service = OpenAILLMService("tiny", server.base_url, KEY, max_async=3, timeout=20)
        async with task_group() as group:
            for _ in range(12):
                group.create_task(llm_stack(service).complete(ASK, priority="ingest"))
        await service.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert (server.peak[CHAT], server.count(CHAT)) == (3, 36)


async def test_kinds_of_calls_are_limited_apart(server: OpenAITestServer) -> None:
    llm = OpenAILLMService("tiny", server.base_url, KEY, max_async=1, timeout=5)
    embedding = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, max_async=2, timeout=5)
    assert (llm.limiter.ceiling, embedding.limiter.ceiling) == (1, 2)
    await llm.aclose()
    await embedding.aclose()


async def test_a_query_waits_for_one_slot_at_most() -> None:
    """However long the queue of ingest is: between its asking and its turn nobody of ingest begins."""
    limiter = Limiter()
    limiter.narrow(4)
    begun: list[str] = []
    over = asyncio.Event()

    async def ingest() -> None:
        while not over.is_set():
            async with limiter.slot("ingest"):
                begun.append("ingest")
                await asyncio.sleep(0)

    async def query(name: str) -> None:
        async with limiter.slot("query"):
            begun.append(name)
            await asyncio.sleep(0)

    async with task_group() as group:
        for _ in range(200):
            group.create_task(ingest())
        await asyncio.sleep(0)
        for number in range(50):
            while limiter.in_flight < 4:  # noqa: ASYNC110 - the limiter has nothing to wait for
                await asyncio.sleep(0)
            asked = len(begun)
            waiting = group.create_task(query(f"query {number}"))
            await asyncio.sleep(0)  # it stands in the queue now
            queued = len(begun)
            await waiting
            place = begun.index(f"query {number}")
            # Those who had a slot before it asked may still begin; nobody is let in before it.
            assert place - asked <= 4 + (queued - asked)
        over.set()
    assert limiter.in_flight == 0


async def test_without_a_ceiling_it_finds_one(server: OpenAITestServer) -> None:
    """A server that takes three at once: it is sent fewer after each refusal, and everything is answered."""
    server.delay = 0.005
    service = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    ceilings: list[int] = []

    def overloaded(number: int, body: object) -> faults.Fault | None:
        ceilings.append(service.limiter.ceiling)
        return faults.rate_limited(milliseconds=1) if server._running[CHAT] > 3 else None

    server.fail(CHAT, overloaded)
    async with task_group() as group:
        for _ in range(30):
            group.create_task(llm_stack(service).complete(ASK, priority="ingest"))
    assert ceilings[0] == 8
    assert min(ceilings) <= 4
    await service.aclose()


async def test_a_service_has_one_pool(server: OpenAITestServer) -> None:
    """Connections are used again: ten requests after each other are one connection, and ten at once no more than ten."""
    llm = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    embedding = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, timeout=5)
    reranker = OpenAIRerankerService("tiny", server.rerank_url, KEY, timeout=5)
    for _ in range(10):
        await llm_stack(llm).complete(ASK)
        await embedding_stack(embedding).embed(["a"], "query")
        await reranker_stack(reranker).scores("a", ["a"])
    assert server.connections == 3
    server.delay = 0.01
    for _ in range(3):
        async with task_group() as group:
            for _ in range(5):
                group.create_task(llm.complete(ASK))
    assert server.connections == 3 + 4
    for service in (llm, embedding, reranker):
        await service.aclose()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_key_follows_a_redirect(server: OpenAITestServer, status: int) -> None:
    async with OpenAITestServer() as other:
        llm = OpenAILLMService("tiny", server.base_url, KEY, timeout=5, extra_headers={"x-gateway-key": KEY})
        embedding = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, timeout=5)
        reranker = OpenAIRerankerService("tiny", server.rerank_url, KEY, timeout=5)
        for path in (CHAT, EMBEDDINGS, RERANK):
            server.fail(path, lambda number, body: faults.Fault(status, {"location": f"{other.address}/elsewhere"}, b""))
        for call in (llm.complete(ASK), embedding.embed(["a"], "query"), reranker.scores("a", ["a"]), anext(llm.stream(ASK))):
            with pytest.raises(RequestRefused, match="final address"):
                await call
        assert other.requests == []
        assert other.connections == 0
        for service in (llm, embedding, reranker):
            await service.aclose()
