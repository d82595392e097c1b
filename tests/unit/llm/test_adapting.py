"""Requests that are changed until the endpoint takes them, and what is remembered of it."""

from __future__ import annotations

from typing import Any

import pytest

from easy_knowledge_retriever.endpoints.faults import OutOfRoom
from easy_knowledge_retriever.errors import ContentRefused
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.testing.replies import Chat, ChatReply
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, Fault, OpenAITestServer

ASK = (Message("user", "hello there"),)
SCHEMA = {"type": "object"}


def thinking(chat: Chat) -> ChatReply:
    """Reasons aloud until its tokens are spent, unless it is told not to."""
    quiet = chat.body.get("chat_template_kwargs", {}).get("enable_thinking") is False
    return ChatReply("done") if quiet else ChatReply(None, "length", {"reasoning_content": "hm " * 50}, pieces=())


async def test_a_model_that_thinks_its_budget_away_is_asked_once_more_without(
    server: OpenAITestServer, llm: OpenAILLMService
) -> None:
    server.chat = thinking
    completion = await llm_stack(llm).complete(ASK, priority="ingest", max_tokens=10)
    assert completion.text == "done"
    assert completion.usage.llm_calls == server.count(CHAT) == 2
    assert server.requests[1].body["max_tokens"] == 4096
    await llm.complete(ASK, priority="ingest")
    assert server.count(CHAT) == 3, "remembered: the next chunk is paid for once"
    await llm.complete(ASK, priority="query")
    assert "chat_template_kwargs" not in server.requests[3].body, "a question may think"


async def test_the_same_in_a_stream(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = thinking
    assert "".join([piece async for piece in llm.stream(ASK)]) == "done"
    assert server.count(CHAT) == 2


async def test_a_server_that_keeps_thinking_gets_more_room(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    def roomy(chat: Chat) -> ChatReply:
        return ChatReply("done") if chat.body.get("max_tokens", 0) > 1000 else thinking(chat)

    server.chat = roomy
    server.fail(CHAT, lambda number, body: Fault(400) if "chat_template_kwargs" in body else None)
    assert (await llm.complete(ASK, max_tokens=10)).text == "done"
    assert server.count(CHAT) == 3
    assert "reasoning_effort" not in server.requests[2].body
    server.chat = thinking
    with pytest.raises(OutOfRoom):
        await llm.complete(ASK, max_tokens=10)
    assert not any("chat_template_kwargs" in request.body for request in server.requests[3:])


async def test_what_the_user_said_about_thinking_stays(server: OpenAITestServer) -> None:
    service = OpenAILLMService("tiny", server.base_url, timeout=5, reasoning_effort="high", extra_body={"seed": 1})
    server.chat = thinking
    with pytest.raises(OutOfRoom):
        await service.complete(ASK)
    await service.aclose()
    assert [request.body["reasoning_effort"] for request in server.requests] == ["high", "high"]
    assert all(request.body["seed"] == 1 for request in server.requests)


async def test_hidden_reasoning_is_turned_down(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    spent: dict[str, Any] = {
        "choices": [{"message": {"content": ""}, "finish_reason": "length"}],
        "usage": {"completion_tokens": 5000, "completion_tokens_details": {"reasoning_tokens": 5000}},
    }
    server.fail(CHAT, {1: Fault(body=spent)})
    completion = await llm.complete(ASK)
    assert (completion.usage.llm_calls, completion.usage.completion_tokens) == (2, 5002)
    assert (server.requests[1].body["reasoning_effort"], server.requests[1].body["max_tokens"]) == ("low", 20_000)


async def test_a_model_without_room_is_a_diagnostic_after_one_more_try(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply("", "length")
    with pytest.raises(OutOfRoom, match="max_tokens"):
        await llm_stack(llm).complete(ASK)
    assert server.count(CHAT) == 2


async def test_room_that_was_needed_is_asked_for_at_once(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply("done") if "max_tokens" in chat.body else ChatReply("", "length")
    assert (await llm.complete(ASK)).text == "done"
    assert (await llm.complete(ASK)).text == "done"
    assert server.count(CHAT) == 3


async def test_a_temperature_that_is_refused_is_left_out(server: OpenAITestServer) -> None:
    service = OpenAILLMService("tiny", server.base_url, temperature=0.2, timeout=5)
    told = {"error": {"message": "Unsupported value: 'temperature' does not support 0.2 with this model."}}
    server.fail(CHAT, lambda number, body: Fault(400, body=told) if "temperature" in body else None)
    await service.complete(ASK)
    await service.complete(ASK)
    await service.aclose()
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]


async def test_a_server_that_passes_over_json_mode_is_noticed_once(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    def in_words_only(chat: Chat) -> str:
        return '{"a": 1}' if "matches this JSON schema" in chat.prompt else "certainly"

    server.chat = in_words_only
    completion = await llm.complete(ASK, json_schema=SCHEMA)
    assert (completion.text, completion.usage.llm_calls) == ('{"a": 1}', 2)
    assert (await llm.complete(ASK, json_schema=SCHEMA)).text == '{"a": 1}'
    kinds = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert kinds == ["json_schema", None, None]


async def test_a_model_that_knows_no_json_is_asked_once_from_then_on(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: "never"
    await llm.complete(ASK, json_schema=SCHEMA)
    before = server.count(CHAT)
    await llm.complete(ASK, json_schema=SCHEMA)
    assert server.count(CHAT) == before + 1


async def test_what_is_found_out_serves_every_service_of_the_process(server: OpenAITestServer) -> None:
    told = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}
    server.fail(CHAT, lambda number, body: Fault(400, body=told if "max_tokens" in body else None) if _is_refused(body) else None)
    server.chat = lambda chat: "{}"
    for _ in range(2):
        service = OpenAILLMService("tiny", server.base_url, timeout=5)
        await service.complete(ASK, max_tokens=5, json_schema=SCHEMA)
        await service.aclose()
    another = OpenAILLMService("another", server.base_url, timeout=5)
    await another.complete(ASK)
    await another.aclose()
    assert server.count(CHAT) == 4 + 1 + 1
    assert server.requests[4].body["max_completion_tokens"] == 5
    assert "max_tokens" not in server.requests[4].body
    assert "max_completion_tokens" not in server.requests[5].body


def _is_refused(body: Any) -> bool:
    return "max_tokens" in body or "response_format" in body


async def test_so_do_batches_and_encodings(server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKR_EMBEDDING_ENCODING_FORMAT", "base64")

    def limited(number: int, body: Any) -> Fault | None:
        if body.get("encoding_format") == "base64":
            return Fault(400, body={"error": {"message": "unknown value of encoding_format"}})
        return Fault(413) if len(body["input"]) > 2 else None

    server.fail(EMBEDDINGS, limited)
    for _ in range(2):
        service = OpenAIEmbeddingService("tiny", server.base_url, None, 256, batch_num=4, timeout=5)
        assert (await service.embed(["a", "b", "c", "d"], "document")).shape == (4, 256)
        await service.aclose()
    assert service.batch_num == 2
    # base64, then four floats refused, two and two; the second service begins with two and two
    assert [len(request.body["input"]) for request in server.requests] == [4, 4, 2, 2, 2, 2]


async def test_a_stream_that_is_declined_is_a_refusal(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda chat: ChatReply(None, message={"refusal": "I will not"}, pieces=())
    with pytest.raises(ContentRefused):
        _ = [piece async for piece in llm.stream(ASK)]
    server.chat = lambda chat: ChatReply("half", "content_filter")
    stream = llm.stream(ASK)
    assert await anext(stream) == "half"
    with pytest.raises(ContentRefused):
        await anext(stream)
