"""Replies of an endpoint, kept and given again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.errors import UpstreamAuth, UpstreamError
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.testing.recording import recorded
from easy_knowledge_retriever.testing.replies import ChatReply
from easy_knowledge_retriever.testing.server import OpenAITestServer

KEY = "canary-key-0123456789"
ASK = (Message("user", "a secret question"),)


async def use(server: OpenAITestServer) -> tuple[str, str, list[float], float]:
    """One of everything."""
    llm = OpenAILLMService("tiny", server.base_url, timeout=5)
    embedding = OpenAIEmbeddingService("tiny", server.base_url, None, 256, timeout=5)
    reranker = OpenAIRerankerService("tiny", server.rerank_url, timeout=5)
    try:
        whole = (await llm.complete(ASK)).text
        streamed = "".join([piece async for piece in llm.stream(ASK)])
        vector = (await embedding.embed(["a b"], "query"))[0]
        scores = await reranker.scores("a b", ["a", "c"])
    finally:
        for service in (llm, embedding, reranker):
            await service.aclose()
    return whole, streamed, scores, float(np.dot(vector, vector))


async def test_what_was_recorded_is_given_again(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "replies.jsonl"
    async with OpenAITestServer(lambda chat: ChatReply("42", message={"reasoning": "hm"}), api_key=KEY) as real:
        async with OpenAITestServer(recorded(file, real.base_url, api_key=KEY)) as proxy:
            first = await use(proxy)
            assert await use(proxy) == first
        assert len(real.requests) == 3, "whole and streamed are one reply"
    async with OpenAITestServer(recorded(file)) as server:
        assert await use(server) == first
        service = OpenAILLMService("tiny", server.base_url, timeout=5)
        with pytest.raises(UpstreamError, match="holds no reply"):
            await service.complete((Message("user", "another"),))
        await service.aclose()
    assert first[:3] == ("42", "42", [0.5, 0.0])
    assert first[3] == pytest.approx(1)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["path"] for row in rows] == ["/v1/chat/completions", "/v1/embeddings", "/v1/rerank"]
    assert len(recorded(file)) == 3
    assert not [canary for canary in (KEY, "secret question") if canary in file.read_text()]


async def test_failures_pass_and_are_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    async with OpenAITestServer(api_key=KEY) as real, OpenAITestServer(recorded(file, real.base_url, api_key="bad")) as proxy:
        service = OpenAILLMService("tiny", proxy.base_url, timeout=5)
        with pytest.raises(UpstreamAuth):
            await service.complete(ASK)
        await service.aclose()
    assert not file.exists()


def test_a_file_must_be_there_if_nobody_can_be_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        recorded(tmp_path / "none.jsonl")
