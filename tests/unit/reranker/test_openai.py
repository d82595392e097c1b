"""The rerank service against a server of our own, and against answers of others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.errors import BadResponse, ConfigError, ContextTooLong, UpstreamAuth, UpstreamError, UpstreamTimeout
from easy_knowledge_retriever.events import ModelCalled
from easy_knowledge_retriever.reranker.callables import as_reranker_service
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.fakes import FakeRerankerService, RecordingObserver
from easy_knowledge_retriever.testing.server import RERANK, TEI_RERANK, Fault, OpenAITestServer

TEXTS = ["nothing here", "a red fox", "a red fox runs"]
FAST = RetryPolicy(first_wait=0.001, longest_wait=0.002)


@pytest.fixture
async def service(server: OpenAITestServer) -> AsyncIterator[OpenAIRerankerService]:
    reranker = OpenAIRerankerService("tiny", server.rerank_url, "canary", timeout=5)
    yield reranker
    await reranker.aclose()


async def test_rerank_gives_the_best_first(server: OpenAITestServer, service: OpenAIRerankerService) -> None:
    rows = await service.rerank("red fox runs", TEXTS)
    assert [row["index"] for row in rows] == [2, 1, 0]
    assert rows[0] == {"index": 2, "relevance_score": 1.0}
    assert await service.rerank("red fox runs", TEXTS, top_n=1) == rows[:1]
    assert server.requests[0].body["top_n"] == 3
    assert server.requests[0].headers["authorization"] == "Bearer canary"


async def test_equal_scores_keep_the_order(service: OpenAIRerankerService) -> None:
    assert [row["index"] for row in await service.rerank("zebra", TEXTS)] == [0, 1, 2]


async def test_scores_are_in_the_order_of_the_texts(service: OpenAIRerankerService) -> None:
    assert await service.scores("red fox runs", TEXTS) == [0, pytest.approx(2 / 3), 1]
    assert await service.scores("red fox runs", []) == []


async def test_the_shape_of_requests_is_found_out_and_remembered(server: OpenAITestServer) -> None:
    service = OpenAIRerankerService("tiny", server.tei_rerank_url, None, timeout=5)
    first = await service.scores("red fox runs", TEXTS)
    second = await service.scores("red fox runs", TEXTS)
    await service.aclose()
    assert first == second == [0, pytest.approx(2 / 3), 1]
    assert ["texts" in request.body for request in server.requests] == [False, True, True]
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("voyage", {"model": "tiny", "query": "q", "documents": ["a"], "top_k": 1}),
        (
            "dashscope",
            {
                "model": "tiny",
                "input": {"query": "q", "documents": ["a"]},
                "parameters": {"top_n": 1, "return_documents": False},
            },
        ),
        ("tei", {"query": "q", "texts": ["a"], "truncate": True}),
    ],
)
async def test_a_style_can_be_set(server: OpenAITestServer, style: Any, expected: Mapping[str, Any]) -> None:
    server.fail(RERANK, {1: Fault(body={"results": [{"index": 0, "relevance_score": 1}]})})
    service = OpenAIRerankerService("tiny", server.rerank_url, None, style=style, timeout=5)
    assert await service.scores("q", ["a"]) == [1.0]
    assert server.requests[0].body == expected
    await service.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": -3}]},
        {"results": [{"index": 0, "relevance_score": -3, "document": {"text": "a"}}, {"index": 1, "relevance_score": 0.9}]},
        [{"index": 1, "score": 0.9, "text": "b"}, {"index": 0, "score": -3}],
        {"output": {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": -3}]}, "usage": {}},
        {"object": "list", "data": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": -3}]},
    ],
)
async def test_the_answers_of_all_servers_are_read(
    server: OpenAITestServer, service: OpenAIRerankerService, reply: object
) -> None:
    server.fail(RERANK, {1: Fault(body=json.dumps(reply))})
    assert await service.scores("q", ["a", "b"]) == [-3, 0.9]


async def test_a_text_that_is_left_out_comes_last(server: OpenAITestServer, service: OpenAIRerankerService) -> None:
    server.fail(RERANK, {1: Fault(body={"results": [{"index": 1, "relevance_score": 0.5}]})})
    scores = await service.scores("q", ["a", "b"])
    assert scores[1] == 0.5
    assert scores[0] < 0.5


@pytest.mark.parametrize(
    "body",
    [
        {"results": [{"index": 2, "relevance_score": 1}]},
        {"results": [{"index": -1, "relevance_score": 1}]},
        {"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 1}]},
        {"results": [{"index": "0", "relevance_score": 1}]},
        {"results": [{"index": 0, "relevance_score": "high"}]},
        {"results": [{"index": 0}]},
        '{"results": [{"index": 0, "relevance_score": NaN}]}',
        {"results": []},
        {"output": {"results": []}},
        {"error": {"message": "no"}},
        {"results": ["a"]},
        "[]",
        "null",
        "<html>",
        "",
    ],
)
async def test_an_answer_against_the_protocol_is_a_bad_response(
    server: OpenAITestServer, service: OpenAIRerankerService, body: Any
) -> None:
    server.fail(RERANK, lambda number, request: Fault(body=body))
    with pytest.raises(BadResponse):
        await service.scores("q", ["a", "b"])


async def test_many_texts_go_in_batches(server: OpenAITestServer) -> None:
    service = OpenAIRerankerService("tiny", server.rerank_url, None, batch_num=10, timeout=5)
    scores = await service.scores("word7", [f"word{number}" for number in range(25)])
    await service.aclose()
    assert [len(request.body["documents"]) for request in server.requests] == [10, 10, 5]
    assert scores.index(1.0) == 7


@pytest.mark.parametrize("status", [413, 422])
async def test_a_batch_that_is_too_large_is_halved(server: OpenAITestServer, status: int) -> None:
    told = {"error": {"message": "batch size 8 > maximum allowed batch size 2"}}
    server.fail(TEI_RERANK, lambda number, body: Fault(status, body=told) if len(body.get("texts", ())) > 2 else None)
    service = OpenAIRerankerService("tiny", server.tei_rerank_url, None, style="tei", timeout=5)
    scores = await service.scores("word5", [f"word{number}" for number in range(8)])
    assert scores.index(1.0) == 5
    before = len(server.requests)
    await service.scores("word5", [f"word{number}" for number in range(8)])
    assert len(server.requests) - before == 4
    await service.aclose()


async def test_failures_are_typed_and_show_no_key(server: OpenAITestServer, service: OpenAIRerankerService) -> None:
    server._api_key = "another"
    with pytest.raises(UpstreamAuth) as caught:
        await service.scores("q", TEXTS)
    assert "canary" not in f"{caught.value} {service!r}"
    assert server.count(RERANK) == 1


async def test_refusals_of_every_shape_end_in_the_first_one(server: OpenAITestServer, service: OpenAIRerankerService) -> None:
    server.fail(RERANK, lambda number, body: Fault(400, body={"error": {"message": f"refusal {number}"}}))
    with pytest.raises(UpstreamError, match="refusal 1"):
        await service.scores("q", TEXTS)


async def test_a_late_answer_is_a_timeout(server: OpenAITestServer) -> None:
    service = OpenAIRerankerService("tiny", server.rerank_url, None, timeout=1)
    server.delay = 30
    with pytest.raises(UpstreamTimeout):
        await service.scores("q", TEXTS)
    await service.aclose()


@pytest.mark.parametrize("name", ["jina", "cohere", "vllm", "tei", "dashscope", "voyage"])
async def test_the_one_client_finds_out_each_shape(server: OpenAITestServer, name: str) -> None:
    service = OpenAIRerankerService("tiny", server.rerank_urls[name], None, batch_num=2, timeout=5)
    assert await service.scores("red fox runs", TEXTS) == [0, pytest.approx(2 / 3), 1]
    found_out = len(server.requests)
    assert await service.scores("red fox runs", TEXTS) == [0, pytest.approx(2 / 3), 1]
    assert len(server.requests) == found_out + 2, "two batches, nothing to find out"
    await service.aclose()


async def test_another_service_of_the_process_need_not_find_out(server: OpenAITestServer) -> None:
    for _ in range(2):
        service = OpenAIRerankerService("tiny", server.rerank_urls["voyage"], None, timeout=5)
        await service.scores("red fox runs", TEXTS)
        await service.aclose()
    assert len(server.requests) == 4 + 1


async def test_texts_are_cut_to_what_the_model_reads_once(
    server: OpenAITestServer, service: OpenAIRerankerService, caplog: pytest.LogCaptureFixture
) -> None:
    too_long = faults.context_too_long()
    server.fail(RERANK, lambda number, body: too_long if max(map(len, body["documents"])) > 1000 else None)
    texts = ["red fox " * 500, "fox"]
    assert await service.scores("red fox", texts) == [1, 0.5]
    assert [max(map(len, request.body["documents"])) for request in server.requests] == [4000, 2000, 1000]
    assert len([record for record in caplog.records if "are cut" in record.message]) == 2
    await service.scores("red fox", texts)
    assert len(server.requests) == 4
    server.fail(RERANK, lambda number, body: too_long)
    with pytest.raises(ContextTooLong):
        await service.scores("red fox", ["fox"])


async def test_further_headers_and_fields_pass(server: OpenAITestServer) -> None:
    service = OpenAIRerankerService(
        "tiny", server.rerank_url, extra_headers={"api-key": "canary"}, extra_body={"max_tokens_per_doc": 9}, timeout=5
    )
    await service.scores("q", TEXTS)
    assert server.requests[0].headers["api-key"] == "canary"
    assert server.requests[0].body["max_tokens_per_doc"] == 9
    server.fail(RERANK, {1: Fault(401, body={"error": {"message": "no such key: canary"}})})
    with pytest.raises(UpstreamAuth, match=r"no such key: \*\*\*"):
        await service.scores("q", TEXTS)
    await service.aclose()


def test_an_unusable_address_is_refused() -> None:
    with pytest.raises(ConfigError):
        OpenAIRerankerService("tiny", "localhost/rerank", None)


async def test_the_stack_retries_and_tells(server: OpenAITestServer, service: OpenAIRerankerService) -> None:
    server.fail(RERANK, {1: Fault(503), 2: Fault(429)})
    observer = RecordingObserver()
    stacked = reranker_stack(reranker_stack(service, policy=FAST, observer=observer))
    assert await stacked.scores("red fox runs", TEXTS) == [0, pytest.approx(2 / 3), 1]
    assert [event.model for event in observer.of(ModelCalled)] == ["tiny"]
    assert server.count(RERANK) == 3
    assert await stacked.scores("q", []) == []


async def test_a_local_reranker_is_wrapped_alike() -> None:
    fake = FakeRerankerService()
    stacked = reranker_stack(fake)
    assert await stacked.scores("red", ["red", "blue"]) == [1, 0]
    await stacked.aclose()
    assert fake.closed


async def test_a_function_is_a_reranker() -> None:
    async def by_length(query: str, documents: list[str]) -> list[float]:
        return [len(text) for text in documents]

    def rows(query: str, documents: list[str]) -> list[dict[str, float]]:
        return [{"index": 1, "relevance_score": 2.0}]

    assert await as_reranker_service(by_length).scores("q", ["a", "bb"]) == [1, 2]
    partial = await as_reranker_service(rows).scores("q", ["a", "bb"])
    assert partial[1] == 2.0
    assert partial[0] < 2.0
    fake = FakeRerankerService()
    assert as_reranker_service(fake) is fake
    with pytest.raises(ConfigError):
        as_reranker_service("reranker")
    with pytest.raises(BadResponse):
        await as_reranker_service(lambda query, documents: [1.0]).scores("q", ["a", "b"])
    with pytest.raises(BadResponse):
        await as_reranker_service(lambda query, documents: [{"index": 9, "relevance_score": 1}]).scores("q", ["a", "b"])
