"""Azure's addresses, headers and variables; keys that stand elsewhere than usual."""

from __future__ import annotations

import traceback

import pytest

from easy_knowledge_retriever.errors import ConfigError, UpstreamAuth
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.openai_client import connection
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.testing.server import Fault, OpenAITestServer

ASK = (Message("user", "hello there"),)
KEY = "canary-key-0123456789"


async def test_variables_are_enough(server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{server.address}/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    path = "/openai/deployments/my-gpt/chat/completions"
    server.fail(path, lambda number, body: Fault(body={"choices": [{"message": {"content": "hi"}}]}))
    service = OpenAILLMService("my-gpt")
    assert (await service.complete(ASK)).text == "hi"
    await service.aclose()
    sent = server.requests[0]
    assert (sent.path, sent.query) == (path, "api-version=2024-10-21")
    assert sent.headers["api-key"] == KEY
    assert "authorization" not in sent.headers


async def test_without_a_version_the_address_for_all_deployments(
    server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.address)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    path = "/openai/v1/embeddings"
    server.fail(path, lambda number, body: Fault(body={"data": [{"index": 0, "embedding": [1, 0]}]}))
    service = OpenAIEmbeddingService("my-embedding", None, None, 2)
    await service.embed(["a"], "query")
    await service.aclose()
    assert (server.requests[0].path, server.requests[0].query) == (path, "")
    assert server.requests[0].headers["api-key"] == KEY


def test_an_azure_key_goes_to_azure_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    assert connection("http://localhost:1/v1", None, 1).api_key == "other"
    azure = connection("https://mine.openai.azure.com/openai/v1", None, 1)
    assert (azure.api_key, azure.key_header) == (KEY, "api-key")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://gateway.example")
    assert connection("https://gateway.example/openai/v1", None, 1).api_key == KEY
    assert connection("https://mine.openai.azure.com/openai/v1", None, 1).api_key == "other"
    assert connection(None, None, 1).url == "https://gateway.example/openai/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:2/v1")
    assert connection(None, None, 1).url == "http://localhost:2/v1"


def test_azure_is_not_called_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    monkeypatch.setenv("OPENAI_API_KEY", "another service's")
    with pytest.raises(ConfigError, match="AZURE_OPENAI_API_KEY"):
        OpenAILLMService("my-gpt")
    assert connection(None, None, 1, headers={"api-key": KEY}).key_header == "api-key"


async def test_a_token_that_is_fetched_is_a_bearer(server: OpenAITestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def token() -> str:
        return KEY

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.address)
    server.fail("/openai/v1/chat/completions", {1: Fault(body={"choices": [{"message": {"content": "hi"}}]})})
    service = OpenAILLMService("my-gpt", api_key=token)
    await service.complete(ASK)
    await service.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_extra_headers_query_and_body_pass_and_are_not_repeated(
    server: OpenAITestServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    service = OpenAILLMService(
        "tiny",
        server.base_url,
        extra_headers={"x-gateway-key": KEY, "x-team": "blue"},
        extra_query={"api-version": "7"},
        extra_body={"cache_salt": "x"},
    )
    await service.complete(ASK)
    sent = server.requests[0]
    assert (sent.headers["x-gateway-key"], sent.headers["x-team"], sent.query) == (KEY, "blue", "api-version=7")
    assert sent.body["cache_salt"] == "x"
    server.fail("/v1/chat/completions", lambda number, body: Fault(401, body={"error": {"message": f"no such key: {KEY}"}}))
    with pytest.raises(UpstreamAuth, match=r"no such key: \*\*\*") as caught:
        await service.complete(ASK)
    shown = [repr(service), service.identity, str(caught.value), "".join(traceback.format_exception(caught.value)), caplog.text]
    assert not [text for text in shown if KEY in text]
    await service.aclose()
