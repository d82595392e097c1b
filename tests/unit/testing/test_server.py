"""The test server: what the services do not show of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

import pytest

from easy_knowledge_retriever.errors import UpstreamUnavailable
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.prompts.extraction import PASSAGE
from easy_knowledge_retriever.prompts.summary import STATEMENTS
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.replies import (
    Chat,
    ChatReply,
    assistant,
    copying,
    extractor,
    gullible,
    lies,
    lying,
    reading,
)
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, MODELS, Fault, OpenAITestServer


async def post(server: OpenAITestServer, path: str, body: object | None = None) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    raw = b"" if body is None else json.dumps(body).encode()
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].split()[0])
        return int(head.split()[1]), await reader.readexactly(length)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def chat(*contents: str) -> Chat:
    return Chat("m", tuple({"role": "user", "content": content} for content in contents), {})


async def test_routes() -> None:
    async with OpenAITestServer(dimension=8) as server:
        status, answer = await post(server, MODELS)
        assert (status, json.loads(answer)["data"][0]["id"]) == (200, "test-model")
        assert (await post(server, "/v1/nothing"))[0] == 404
        status, answer = await post(server, EMBEDDINGS, {"input": "red fox"})
        assert len(json.loads(answer)["data"][0]["embedding"]) == 8
        assert server.rerank_url == f"{server.base_url}/rerank"


async def test_it_counts_and_records() -> None:
    async with OpenAITestServer(delay=0.01) as server:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        await asyncio.wait([asyncio.get_running_loop().create_task(post(server, CHAT, body)) for _ in range(3)])
        assert (server.count(CHAT), server.peak[CHAT]) == (3, 3)
        server.fail(CHAT, {2: Fault(500, {"x-told": "yes"})})
        assert [(await post(server, CHAT, body))[0] for _ in range(3)] == [200, 500, 200]


async def test_replies_may_be_a_list() -> None:
    async with OpenAITestServer(["one", ChatReply("two", "length"), faults.unavailable()]) as server:
        asked = {"messages": [{"role": "user", "content": "hi"}]}
        answers = [await post(server, CHAT, asked) for _ in range(4)]
    assert [status for status, _ in answers] == [200, 200, 503, 400]
    assert json.loads(answers[1][1])["choices"][0]["finish_reason"] == "length"
    assert b"the script is over" in answers[3][1]


async def test_every_fault_can_be_told() -> None:
    """None of them breaks the server: it answers the next request."""
    body = {"messages": [{"role": "user", "content": "hi"}]}
    async with OpenAITestServer() as server:
        for name, make in faults.ALL.items():
            server.fail(CHAT, {1: make()})
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError, IndexError):
                async with asyncio.timeout(0.5):
                    await post(server, CHAT, body)
            assert (await post(server, CHAT, body))[0] == 200, name


async def test_it_ends_with_requests_under_way() -> None:
    async with OpenAITestServer(delay=60) as server:
        task = asyncio.get_running_loop().create_task(post(server, CHAT, {"messages": []}))
        await asyncio.sleep(0.05)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await task


def test_the_assistant_summarises_statements() -> None:
    asked = STATEMENTS.render(name="Verdel", tag="t", statements="- It is long.\n- It is cold\n- It is long.")
    assert assistant(chat("rules", asked)) == "Verdel: It is long. It is cold."


def test_a_passage_that_was_read_before_is_read_the_same_way() -> None:
    mode = reading({"Ida\ufeff climbed  Kell.": "E | Ida | Person | Climbed.\nEND"})
    for passage in ("Ida climbed Kell.", "# Ida, a life\n\nIda climbed\nKell."):
        asked = PASSAGE.render(heading="", tag="t", text=passage)
        assert mode(chat("rules", asked)) == "E | Ida | Person | Climbed.\nEND"
        assert mode(chat("rules", asked, "and the rest?")) == "END"
    refused = mode(chat("rules", PASSAGE.render(heading="", tag="t", text="Nobody knows this.")))
    assert isinstance(refused, Fault)
    assert refused.status == 400


async def test_it_can_be_used_again() -> None:
    server = OpenAITestServer()
    for _ in range(2):
        async with server:
            assert (await post(server, MODELS))[0] == 200


async def test_it_runs_from_a_shell() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "easy_knowledge_retriever.testing.server", "--port", "0", "--fault", "overloaded", "--every", "2"),
        *("--chat", "lying"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()
    assert "answers until it is interrupted" in said
    service = OpenAILLMService("any", said.split()[0], timeout=5)
    assert "[99]" in (await service.complete((Message("user", "hi"),))).text
    with pytest.raises(UpstreamUnavailable):
        await service.complete((Message("user", "hi"),))
    await service.aclose()
    process.kill()
    await process.wait()


def test_the_extractor_lists_capitalised_words() -> None:
    text = "<text-1>\nMira Holt founded the Tidewater Observatory. It stands in Brenn.\n</text-1>"
    lines = extractor(chat(text)).splitlines()
    assert lines[0] == "E | Mira Holt | Concept | Mira Holt founded the Tidewater Observatory."
    assert any(line.startswith("R | Mira Holt | Tidewater Observatory | ") for line in lines)
    assert lines[-1] == "END"
    assert extractor(chat("more?")) == "END"
    assert assistant(chat(text, "the list", "more?")) == "END"


def test_the_copying_model_cites_sentences() -> None:
    context = (
        '<context-1>\n<passages>\n<passage id="1" document="a">\nFoxes are red &amp; quick. Owls are not.\n</passage>\n'
        "</passages>\n</context-1>\n\n... reply with exactly this sentence: Not covered.\n\nQuestion: "
    )
    assert copying(chat(f"{context}Which colour have foxes?")) == "Foxes are red & quick [1]."
    assert copying(chat(f"{context}Wherefore submarines?")) == "Not covered."
    assert copying(chat("nothing")) == "Nothing was given."


def test_the_other_models() -> None:
    assert assistant(chat("hello")) == "hello"
    assert assistant(chat("<question-1>\nWho led the Tidewater project?\n</question-1>")) == (
        "THEMES: tidewater; project\nDETAILS: Tidewater"
    )
    assert "[99]" in lying(chat("x"))
    context = (
        '<context-1>\n<passage id="1" document="a" page="3-4" heading="H">\nThe mill was built in 1906 by Ola.\n</passage>\n'
        '<passage id="2" document="b">\nBread needs salt and much water here.\n</passage>\n</context-1>'
        "\nQuestion: Who built the mill?"
    )
    assert {lie.kind: lie.text for lie in lies(chat(context))} == {
        "invented": "The moon is made of green cheese, as everybody in the ministry knows [1].",
        "uncited": "The treaty was signed under water by seven divers.",
        "id": "The mill was built in 1906 by Ola [99].",
        "page": "The mill was built in 1906 by Ola [1, p. 4711].",
        "addition": "The mill was built in 1906 by Ola, while the moon is made of green cheese, as everybody "
        "in the ministry knows [1, p. 3-4].",
        "other": "The mill was built in 1906 by Ola [2].",
        "number": "The mill was built in 13353 by Ola [1, p. 3-4].",
        "negation": "The mill was not built in 1906 by Ola [1, p. 3-4].",
    }
    assert copying(chat(context)) == "The mill was built in 1906 by Ola [1, p. 3-4]."
    assert gullible(chat("Say: pirate")).startswith("pirate\n")
    assert gullible(chat("hello")) == "hello"
