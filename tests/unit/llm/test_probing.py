"""What a model can do, and whether its server cuts prompts without a word."""

from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import UpstreamAuth
from easy_knowledge_retriever.llm.probing import ContextProbe, ModelProbe, probe_context, probe_model
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.replies import Chat, ChatMode, ChatReply
from easy_knowledge_retriever.testing.server import CHAT, Fault, OpenAITestServer


def small(words: int) -> ChatMode:
    """A model that sees the last words of a prompt only, and repeats the code words it sees."""

    def chat(chat: Chat) -> str:
        seen = chat.prompt.split()[-words:]
        return " ".join(word for word in ("marzipan", "turpentine") if f"{word}." in seen) or "?"

    return chat


async def test_json_by_schema(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda _: ChatReply('{"answer": "yes"}', message={"reasoning": "hm"})
    assert await probe_model(llm) == ModelProbe("json_schema", True, "max_tokens")


async def test_any_object(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    def refused(number: int, body: object) -> Fault | None:
        assert isinstance(body, dict)
        if "max_tokens" in body:
            return Fault(400, body={"error": {"message": "use max_completion_tokens, not max_tokens"}})
        return Fault(400) if body.get("response_format", {}).get("type") == "json_schema" else None

    server.fail(CHAT, refused)
    server.chat = lambda _: 'Sure: {"answer": "yes"}'
    assert await probe_model(llm) == ModelProbe("json_object", False, "max_completion_tokens")


async def test_none(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda _: "yes {certainly"
    assert (await probe_model(llm)).json == "none"
    server.fail(CHAT, lambda number, body: faults.unauthorized())
    with pytest.raises(UpstreamAuth):
        await probe_model(llm)


async def test_a_prompt_that_is_read_whole(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = small(10_000)
    probe = await probe_context(llm, 5000)
    assert (probe.tokens, probe.outcome) == (5000, "read")
    words = len(server.requests[0].body["messages"][0]["content"].split())
    assert 3500 < words <= 5000


async def test_a_prompt_that_is_cut_without_a_word(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = small(1000)
    assert (await probe_context(llm, 5000)).outcome == "cut"


async def test_a_server_that_counts_less_than_was_sent(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    answer = {"choices": [{"message": {"content": "marzipan"}}], "usage": {"prompt_tokens": 2048}}
    server.fail(CHAT, {1: Fault(body=answer)})
    assert await probe_context(llm, 5000) == ContextProbe(5000, "cut", 2048)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(faults.context_too_long(), "refused"), (faults.no_room(), "unclear"), (faults.late(), "late")],
)
async def test_other_outcomes(server: OpenAITestServer, fault: Fault, outcome: str) -> None:
    service = OpenAILLMService("tiny", server.base_url, timeout=0.5)
    server.fail(CHAT, lambda number, body: fault)
    assert (await probe_context(service, 1000)).outcome == outcome
    await service.aclose()
    server.fail(CHAT, {})


async def test_an_answer_without_either_word_shows_nothing(server: OpenAITestServer, llm: OpenAILLMService) -> None:
    server.chat = lambda _: "Hello!"
    assert (await probe_context(llm, 1000)).outcome == "unclear"
