"""The OpenAI services against a server of our own."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator

import numpy as np
import openai
import pytest

from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.errors import (
    BadResponse,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EKRError,
    RateLimited,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.llm.base import Ending, Message
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.testing.replies import Chat, ChatReply
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, Fault, OpenAITestServer
from easy_knowledge_retriever.types import Usage

ASK = (Message("user", "hello there"),)
FAST = RetryPolicy(first_wait=0.001, longest_wait=0.002)
KEY = "canary-key-0123456789"


@pytest.fixture
async def llm(server: OpenAITestServer) -> AsyncIterator[OpenAILLMService]:
    service = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    yield service
    await service.aclose()


@pytest.fixture
async def embedding(server: OpenAITestServer) -> AsyncIterator[OpenAIEmbeddingService]:
    service = OpenAIEmbeddingService("tiny-embedding", server.base_url, KEY, embedding_dim=256, timeout=5)
    yield service
    await service.aclose()


async def test_a_chat_is_answered(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    completion = await llm.complete(ASK)
    assert completion.text == "hello there"
    assert (completion.usage.llm_calls, completion.usage.prompt_tokens, completion.usage.completion_tokens) == (1, 2, 2)
    sent = server.requests[0]
    assert sent.body == {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}], "temperature": 1.0}
    assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_further_keywords_go_into_the_request(server: OpenAITestServer) -> None:
    service = OpenAILLMService(
        "tiny", server.base_url, temperature=0.0, top_p=0.5, extra_body={"cache_salt": "x"}, extra_headers={"api-key": "azure"}
    )
    await service.complete(ASK, max_tokens=7)
    await service.aclose()
    body = server.requests[0].body
    assert (body["temperature"], body["top_p"], body["cache_salt"], body["max_tokens"]) == (0.0, 0.5, "x", 7)
    assert server.requests[0].headers["api-key"] == "azure"


async def test_a_service_can_be_called(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    history = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "second"}]
    assert await llm("third", "be kind", history) == "third"
    roles = [message["role"] for message in server.requests[0].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "".join([piece async for piece in await llm("one two three", stream=True)]) == "one two three"
    with pytest.raises(ConfigError):
        await llm("third", history_messages=[{"role": "nobody", "content": "x"}])


async def test_a_stream_gives_pieces(llm: OpenAILLMService) -> None:
    pieces = [piece async for piece in llm.stream(ASK)]
    assert pieces == ["hello", " there", ""]
    ending = pieces[-1]
    assert isinstance(ending, Ending)
    assert (ending.usage, ending.finish_reason) == (Usage(llm_calls=1, prompt_tokens=2, completion_tokens=2), "stop")


async def test_an_endpoint_that_counts_no_stream_is_asked_again_without(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    body = {"error": {"message": "Unrecognized request argument supplied: stream_options"}}
    server.fail(CHAT, lambda number, sent: Fault(400, body=body) if "stream_options" in sent else None)
    for _ in range(2):
        pieces = [piece async for piece in llm.stream(ASK)]
        assert "".join(pieces) == "hello there"
        assert isinstance(pieces[-1], Ending)
        assert pieces[-1].usage == Usage(llm_calls=1)
    assert server.count(CHAT) == 3


async def test_a_stream_that_was_filtered_is_a_refusal(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply("half an ans", finish_reason="content_filter")
    seen = []
    with pytest.raises(ContentRefused):
        async for piece in llm.stream(ASK):
            seen += [piece]
    assert "".join(seen) == "half an ans"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<think>secret</think>open", "open"),
        ("<THINK>secret</think>\n\nopen <think>more</think>door", "open door"),
        ("secret without an opening tag</think>open", "open"),
        ("open<think>never closed", "open"),
        ("a < b <thin> c", "a < b <thin> c"),
    ],
)
async def test_reasoning_is_taken_out(server: OpenAITestServer, llm: OpenAILLMService, content: str, shown: str) -> None:
    server.chat = lambda chat: ChatReply(content, message={"reasoning_content": "secret", "reasoning": "secret"})
    assert (await llm.complete(ASK)).text == shown


async def test_reasoning_is_taken_out_of_a_stream_cut_anywhere(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    text = "<think>secret <b></think>open <think>x</think>door <th"
    server.chat = lambda chat: ChatReply(None, message={"reasoning_content": "secret"}, pieces=list(text))
    assert "".join([piece async for piece in llm.stream(ASK)]) == "open door <th"


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"role": "assistant", "content": None}}]},
        {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "length"}]},
        {"choices": [{"message": {"role": "assistant", "content": "<think>all of it"}}]},
        {"choices": "rubbish"},
        {"error": {"message": "no"}},
        "<html>a proxy says hello</html>",
        "[]",
        "null",
        b"\xff\xfe",
        "",
    ],
)
async def test_an_answer_against_the_protocol_is_a_bad_response(
    server: OpenAITestServer, llm: OpenAILLMService, body: object
) -> None:
    server.fail(CHAT, lambda number, request: Fault(body=body))  # type: ignore[arg-type]
    with pytest.raises(BadResponse) as caught:
        await llm.complete(ASK)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(400, body={"error": {"message": "maximum context length is 4096 tokens"}}), ContextTooLong),
        (Fault(400, body={"error": {"message": "rejected by the content filter"}}), ContentRefused),
        (Fault(400), UpstreamError),
        (Fault(401), UpstreamAuth),
        (Fault(403), UpstreamAuth),
        (Fault(404), UpstreamError),
        (Fault(413), UpstreamError),
        (Fault(422), UpstreamError),
        (Fault(429), RateLimited),
        (Fault(429, body={"error": {"message": "You exceeded your current quota"}}), UpstreamError),
        (Fault(500), UpstreamUnavailable),
        (Fault(529), UpstreamUnavailable),
        (Fault(302, {"location": "http://127.0.0.1:9/v1"}), UpstreamError),
        (Fault(reset=True), UpstreamUnavailable),
        (Fault(reset=True, body='{"choices": ['), UpstreamUnavailable),
    ],
)
async def test_a_failure_is_typed(
    server: OpenAITestServer, llm: OpenAILLMService, fault: Fault, expected: type[EKRError]
) -> None:
    server.fail(CHAT, {1: fault})
    with pytest.raises(expected) as caught:
        await llm.complete(ASK)
    assert isinstance(caught.value, expected)
    assert caught.value.__cause__ is not None
    assert "tiny" in str(caught.value)
    assert server.count(CHAT) == 1


async def test_an_endpoint_that_is_not_there() -> None:
    service = OpenAILLMService("tiny", "http://127.0.0.1:9/v1", timeout=5)
    with pytest.raises(UpstreamUnavailable, match="cannot be reached"):
        await service.complete(ASK)
    await service.aclose()


async def test_a_late_answer_is_a_timeout(server: OpenAITestServer) -> None:
    service = OpenAILLMService("tiny", server.base_url, timeout=1)
    server.delay = 30
    with pytest.raises(UpstreamTimeout):
        await service.complete(ASK)
    await service.aclose()


async def test_refusals_are_told_apart(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply(None, message={"refusal": "I will not"})
    with pytest.raises(ContentRefused):
        await llm.complete(ASK)
    server.chat = lambda chat: ChatReply("half", "content_filter")
    with pytest.raises(ContentRefused):
        await llm.complete(ASK)


async def test_max_tokens_is_renamed_once_and_remembered(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    told = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}
    server.fail(CHAT, lambda number, body: Fault(400, body=told) if "max_tokens" in body else None)
    await llm.complete(ASK, max_tokens=5)
    await llm.complete(ASK, max_tokens=5)
    assert ["max_tokens" in request.body for request in server.requests] == [True, False, False]
    assert server.requests[-1].body["max_completion_tokens"] == 5


async def test_max_tokens_is_renamed_in_a_stream(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.fail(CHAT, lambda number, body: Fault(400, body={"error": {"message": "max_tokens"}}) if number == 1 else None)
    assert "".join([piece async for piece in llm.stream(ASK, max_tokens=5)]) == "hello there"
    assert server.requests[-1].body["max_completion_tokens"] == 5


async def test_json_is_asked_for_in_the_way_the_endpoint_knows(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    def only_words(number: int, body: object) -> Fault | None:
        return Fault(400) if isinstance(body, dict) and "response_format" in body else None

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    server.chat = lambda chat: '{"city": "Brenn"}'
    await llm.complete(ASK, json_schema=schema)
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == schema
    server.fail(CHAT, only_words)
    await llm.complete(ASK, json_schema=schema)
    await llm.complete(ASK, json_schema=schema)
    kinds = [request.body.get("response_format", {"type": "text"})["type"] for request in server.requests]
    assert kinds == ["json_schema", "json_schema", "json_object", "text", "text"]
    assert json.dumps(schema) in server.requests[-1].body["messages"][-1]["content"]


async def test_a_request_refused_for_another_reason_does_not_change_the_way(
    server: OpenAITestServer, llm: OpenAILLMService
) -> None:
    server.chat = lambda chat: "{}"
    server.fail(CHAT, lambda number, body: Fault(400) if number <= 3 else None)
    with pytest.raises(UpstreamError):
        await llm.complete(ASK, json_schema={})
    await llm.complete(ASK, json_schema={})
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: {"error":{"message":"overloaded"}}\n\n', UpstreamError),
        ('data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: {"error":{"type":"rate_limit"}}\n\n', UpstreamError),
        ('data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: rubbish\n\n', BadResponse),
    ],
)
async def test_a_stream_that_breaks_off_raises_after_its_pieces(
    server: OpenAITestServer, llm: OpenAILLMService, body: str, expected: type[EKRError]
) -> None:
    server.fail(CHAT, {1: Fault(200, {"content-type": "text/event-stream"}, body)})
    stream = llm.stream(ASK)
    assert await anext(stream) == "half"
    with pytest.raises(expected):
        await anext(stream)


async def test_a_stream_cut_in_the_middle_is_an_error(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    body = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'
    server.fail(CHAT, {1: Fault(body=body, headers={"content-type": "text/event-stream"}, reset=True)})
    with pytest.raises(UpstreamUnavailable):
        _ = [piece async for piece in llm.stream(ASK)]


async def test_a_stream_that_falls_silent_is_a_timeout(server: OpenAITestServer) -> None:
    service = OpenAILLMService("tiny", server.base_url, timeout=1)
    server.fail(CHAT, {1: Fault(headers={"content-type": "text/event-stream"}, body=b": wait\n", reset=True, stall=30)})
    with pytest.raises(UpstreamTimeout):
        _ = [piece async for piece in service.stream(ASK)]
    await service.aclose()


async def test_a_stream_does_not_last_for_ever(server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("easy_knowledge_retriever.llm.openai_client._LONGEST_STREAM", 0)
    service = OpenAILLMService("tiny", server.base_url, timeout=5)
    with pytest.raises(UpstreamTimeout):
        _ = [piece async for piece in service.stream(ASK)]
    await service.aclose()


async def test_an_answer_is_cut_and_a_stream_stopped_at_two_million_characters(
    server: OpenAITestServer, llm: OpenAILLMService
) -> None:
    size = 2 * 1024 * 1024
    server.chat = lambda chat: ChatReply("x" * (size + 10), pieces=["x" * size, "x"])
    completion = await llm.complete(ASK)
    assert set(completion.text) == {"x"}
    assert size - 1000 < len(completion.text) <= size
    assert completion.finish_reason == "length"
    with pytest.raises(BadResponse, match="does not stop"):
        _ = [piece async for piece in llm.stream(ASK)]


async def test_unusual_events_are_read(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    body = (
        ": a comment\n\n"
        'data:{"choices":[{"delta":{"content":"é"}}]}\n\n'
        'data: {"choices":[]}\n\n'
        'data: {"choices":[{"delta":{"content":"té"}}]}\n\n'
    )
    server.fail(CHAT, {1: Fault(200, {"content-type": "text/event-stream"}, body)})
    assert "".join([piece async for piece in llm.stream(ASK)]) == "été"


async def test_a_stream_without_text_is_a_bad_response(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply(None, pieces=())
    with pytest.raises(BadResponse):
        _ = [piece async for piece in llm.stream(ASK)]


def test_a_service_outlives_its_loop() -> None:
    """One service, several loops one after the other: no client is bound to a loop that is gone."""

    async def ask(service: OpenAILLMService) -> str:
        completion = await service.complete(ASK)
        await service.aclose()
        return completion.text

    async def run() -> None:
        async with OpenAITestServer() as server:
            service = OpenAILLMService("tiny", server.base_url, timeout=5)
            first = await ask(service)
            second = await asyncio.to_thread(lambda: asyncio.run(ask(service)))
            third = await ask(service)
            assert [first, second, third] == ["hello there"] * 3

    asyncio.run(run())


async def test_no_key_is_ever_shown(server: OpenAITestServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server._api_key = "another"
    llm = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    embedding = OpenAIEmbeddingService("tiny", server.base_url, KEY, timeout=5)
    shown = [repr(llm), repr(embedding), llm.identity, embedding.fingerprint, repr(llm._link)]
    for call in (llm.complete(ASK), embedding.embed(["x"], "query")):
        with pytest.raises(UpstreamAuth) as caught:
            await call
        shown += [str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))]
    await llm.aclose()
    await embedding.aclose()
    shown.append(caplog.text)
    assert not [text for text in shown if KEY in text]
    assert "Incorrect API key provided: ***" in shown[-2]


async def test_a_client_of_the_users_own_is_used_and_left_open(server: OpenAITestServer) -> None:
    own = openai.DefaultAsyncHttpxClient(headers={"x-mine": "yes"}, timeout=5)
    for _ in range(2):
        service = OpenAILLMService("tiny", server.base_url, KEY, timeout=5, http_client=own)
        assert (await service.complete(ASK)).text == "hello there"
        await service.aclose()
    assert [request.headers["x-mine"] for request in server.requests] == ["yes", "yes"]
    assert not own.is_closed
    await own.aclose()


def test_openai_is_not_called_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAILLMService("gpt")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAILLMService("gpt")._link.api_key == KEY
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1/")
    assert OpenAILLMService("gpt")._link.url == "http://localhost:1/v1"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "/v1", "http://host:port"])
def test_an_unusable_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="full URL"):
        OpenAILLMService("tiny", url, KEY)


def test_an_address_with_credentials_is_refused() -> None:
    with pytest.raises(ConfigError, match="credentials") as caught:
        OpenAILLMService("tiny", "http://user:password@localhost/v1", KEY)
    assert "password" not in str(caught.value)


def test_settings_come_from_the_environment_when_a_service_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EKR_LLM_TIMEOUT": "7", "EKR_EMBEDDING_TIMEOUT": "8", "EKR_EMBEDDING_BATCH_NUM": "3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EKR_MAX_ASYNC", "5")
    monkeypatch.setenv("EKR_EMBEDDING_ENCODING_FORMAT", "base64")
    llm = OpenAILLMService("tiny", "http://localhost:1/env")
    embedding = OpenAIEmbeddingService("tiny", "http://localhost:1/env", None)
    assert (llm._link.timeout, llm.limiter.ceiling) == (7, 5)
    assert (embedding._link.timeout, embedding.batch_num, embedding._encoding) == (8, 3, "base64")


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_vectors_are_read_in_both_encodings(
    server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("EKR_EMBEDDING_ENCODING_FORMAT", encoding)
    service = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, timeout=5)
    vectors = await service.embed(["a b", "b a", "c"], "document")
    await service.aclose()
    assert server.requests[0].body["encoding_format"] == encoding
    assert vectors.shape == (3, 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[1])


async def test_no_texts_need_no_request(server: OpenAITestServer, embedding: OpenAIEmbeddingService) -> None:
    assert (await embedding.embed([], "query")).shape == (0, 256)
    assert (await embedding_stack(embedding).embed([], "query")).shape == (0, 256)
    assert server.requests == []


async def test_batches_run_at_once_up_to_the_ceiling(server: OpenAITestServer) -> None:
    server.delay = 0.02
    service = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, batch_num=10, max_async=3, timeout=5)
    texts = [f"word{number}" for number in range(95)]
    vectors = await embedding_stack(service).embed(texts, "document")
    assert server.count(EMBEDDINGS) == 10
    assert server.peak[EMBEDDINGS] == 3
    np.testing.assert_allclose(vectors, await service.embed(texts, "document"), atol=1e-6)
    await service.aclose()


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_batch_that_is_too_large_is_halved(server: OpenAITestServer, status: int) -> None:
    told = {"error": {"message": "batch size 16 > maximum allowed batch size 4"}}
    server.fail(EMBEDDINGS, lambda number, body: Fault(status, body=told) if len(body["input"]) > 4 else None)
    service = OpenAIEmbeddingService("tiny", server.base_url, KEY, 256, batch_num=16, timeout=5)
    texts = [f"word{number}" for number in range(16)]
    vectors = await service.embed(texts, "document")
    assert service.batch_num == 4
    assert vectors.shape == (16, 256)
    before = server.count(EMBEDDINGS)
    np.testing.assert_allclose(await service.embed(texts, "document"), vectors)
    assert server.count(EMBEDDINGS) - before == 4
    await service.aclose()


async def test_a_text_that_is_too_long_is_cut(
    server: OpenAITestServer, embedding: OpenAIEmbeddingService, caplog: pytest.LogCaptureFixture
) -> None:
    told = {"error": {"message": "This model's maximum context length is 500 tokens"}}
    server.fail(EMBEDDINGS, lambda number, body: Fault(400, body=told) if len("".join(body["input"])) > 500 else None)
    vectors = await embedding.embed(["short", "long " * 300], "document")
    assert vectors.shape == (2, 256)
    assert [record.message for record in caplog.records if record.name == "easy_knowledge_retriever"] == [
        "1 of 2 texts, the longest of 1500 characters, are too long for tiny-embedding and are cut",
    ]
    server.fail(EMBEDDINGS, lambda number, body: Fault(400, body=told))
    with pytest.raises(ContextTooLong):
        await embedding.embed(["short"], "query")


async def test_a_refusal_that_is_not_about_size_is_not_halved(
    server: OpenAITestServer, embedding: OpenAIEmbeddingService
) -> None:
    server.fail(EMBEDDINGS, lambda number, body: Fault(404))
    with pytest.raises(UpstreamError, match="404"):
        await embedding.embed(["a", "b"], "query")
    assert server.count(EMBEDDINGS) == 1


def row(index: object, embedding: object) -> dict[str, object]:
    return {"index": index, "embedding": embedding}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(0, [1, 0])], "1 vectors for 2 texts"),
        ([row(0, [1, 0, 0, 1])], r"1 vectors of dimension 4 \(expected 2\) for 2 texts"),
        ([row(0, [1, 0]), row(1, [0, 1]), row(2, [1, 1])], "3 vectors for 2 texts"),
        ([row(0, [1, 0]), row(0, [1, 0])], "numbered"),
        ([row(0, [1, 0]), row(2, [1, 0])], "numbered"),
        ([row(0, [1, 0]), row(1, [1, 0, 0])], "dimension 3 at position 1, expected 2"),
        ([row(0, [1, 0]), row(1, [0, 0])], "position 1"),
        ([row(0, [float("nan"), 0]), row(1, [0, 1e999])], "positions 0, 1"),
        ([row(0, [1, 0]), row(1, "rubbish!")], "position 1"),
        ([row(0, [1, 0]), row(1, None)], "position 1"),
        ([row(0, [1, 0]), row(1, [[1, 0]])], "position 1"),
        ([row(0, [1, 0]), row(1, ["x", 0])], "position 1"),
        ("rubbish", "no list"),
    ],
)
async def test_vectors_against_the_protocol_are_a_bad_response(server: OpenAITestServer, rows: object, message: str) -> None:
    server.fail(EMBEDDINGS, {1: Fault(body=json.dumps({"data": rows}))})
    service = OpenAIEmbeddingService("tiny", server.base_url, KEY, 2, timeout=5)
    with pytest.raises(BadResponse, match=message):
        await service.embed(["a", "b"], "document")
    await service.aclose()


async def test_vectors_are_put_in_the_order_of_the_texts(server: OpenAITestServer) -> None:
    server.fail(EMBEDDINGS, {1: Fault(body={"data": [row(1, [0, 2]), row(0, [3, 0])]})})
    service = OpenAIEmbeddingService("tiny", server.base_url, KEY, 2, timeout=5)
    np.testing.assert_allclose(await service.embed(["a", "b"], "document"), [[1, 0], [0, 1]])
    await service.aclose()


async def test_the_stack_has_one_retry_layer(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.fail(CHAT, lambda number, body: Fault(503))
    stacked = llm_stack(llm_stack(llm, policy=FAST), policy=FAST)
    with pytest.raises(UpstreamUnavailable):
        await stacked.complete(ASK)
    assert server.count(CHAT) == FAST.tries == 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refused_request_is_not_sent_again(server: OpenAITestServer, llm: OpenAILLMService, status: int) -> None:
    server.fail(CHAT, lambda number, body: Fault(status))
    with pytest.raises(UpstreamError):
        await llm_stack(llm, policy=FAST).complete(ASK)
    assert server.count(CHAT) == 1


async def test_a_bad_answer_is_asked_for_twice_more(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.fail(CHAT, lambda number, body: Fault(body={"choices": []}))
    with pytest.raises(BadResponse):
        await llm_stack(llm, policy=FAST).complete(ASK)
    assert server.count(CHAT) == 3


async def test_ingest_never_passes_the_ceiling_and_queries_go_first(server: OpenAITestServer) -> None:
    order: list[str] = []

    def noting(chat: Chat) -> str:
        order.append(chat.prompt)
        return "yes"

    server.chat, server.delay = noting, 0.01
    service = OpenAILLMService("tiny", server.base_url, max_async=2, timeout=5)
    stack = llm_stack(service)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(stack.complete([Message("user", f"ingest {number}")], priority="ingest"))
        await asyncio.sleep(0.005)
        group.create_task(stack.complete([Message("user", "query")], priority="query"))
    await service.aclose()
    assert server.peak[CHAT] == 2
    assert order.index("query") <= 3
