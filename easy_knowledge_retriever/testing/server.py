"""An OpenAI-compatible server on this machine: chat, embeddings, rerank, models; scripted replies and faults.

    async with OpenAITestServer(["first reply", "second reply"]) as server:
        service = OpenAILLMService("any", base_url=server.base_url)

From a shell: ``python -m easy_knowledge_retriever.testing.server --port 8000``. See ``docs/how-to/testing.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import itertools
import json
import math
import re
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from struct import pack
from typing import Any, Self

from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.faults import Fault
from easy_knowledge_retriever.testing.recording import Recording, recorded
from easy_knowledge_retriever.testing.replies import (
    Chat,
    ChatMode,
    ChatReply,
    assistant,
    copying,
    extractor,
    gullible,
    lying,
    scripted,
)
from easy_knowledge_retriever.testing.rerank_shapes import PATHS, SHAPES, Refusal

__all__ = ["Fault", "OpenAITestServer", "Recorded"]

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
MODELS = "/v1/models"
RERANK = PATHS["jina"]
TEI_RERANK = PATHS["tei"]
_MODEL = "test-model"
_HELP = "An OpenAI-compatible server on this machine, for tests: it serves until it is interrupted."
_MODES: Mapping[str, ChatMode] = {mode.__name__: mode for mode in (assistant, copying, extractor, gullible, lying)}
_EVENT_STREAM = {"content-type": "text/event-stream"}
_LARGEST_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that came in."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    query: str = ""
    """What stood after the question mark of the address."""


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    """Sent one after the other instead of the body."""
    pause: float = 0.0
    """Seconds between two of them."""


class OpenAITestServer:
    """Serves on 127.0.0.1 while its block runs.

    ``requests`` holds what came in, with headers and bodies; ``peak`` how many requests of a path ran at once at most;
    ``left`` how many clients of a path went away before the end of a streamed answer; ``connections`` how many connections
    were made.

    Args:
        chat: Answers chats: a function, a list of replies in order, or a recording, which answers every path;
            :func:`~easy_knowledge_retriever.testing.replies.assistant` does what our prompts ask for.
        dimension: Length of the vectors, hashed bags of words.
        delay: Seconds each request takes.
        port: Port; any free one if 0.
        api_key: The key that is asked for; none if None.
    """

    def __init__(
        self,
        chat: ChatMode | Sequence[str | ChatReply | Fault] | Recording = assistant,
        *,
        dimension: int = 256,
        delay: float = 0.0,
        port: int = 0,
        api_key: str | None = None,
    ) -> None:
        self._recording = chat if isinstance(chat, Recording) else None
        self.chat: ChatMode = assistant if isinstance(chat, Recording) else chat if callable(chat) else scripted(chat)
        self.delay = delay
        self.requests: list[Recorded] = []
        self.peak: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.connections = 0
        self._dimension = dimension
        self._port = port
        self._api_key = api_key
        self._running: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._faults: dict[str, Callable[[int, Mapping[str, Any]], Fault | None]] = {}
        self._server: asyncio.Server | None = None
        self._over = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self._routes: dict[str, Callable[[Mapping[str, Any]], _Response | Fault]] = {
            CHAT: self._chat,
            EMBEDDINGS: self._embeddings,
            MODELS: self._models,
        }
        self._routes |= {path: functools.partial(_rerank, SHAPES[style]) for style, path in PATHS.items()}

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """What the services take as ``base_url``."""
        return f"{self.address}/v1"

    @property
    def rerank_url(self) -> str:
        """What a reranker service takes as ``base_url``."""
        return f"{self.address}{RERANK}"

    @property
    def tei_rerank_url(self) -> str:
        """The same in the shape of Text Embeddings Inference."""
        return f"{self.address}{TEI_RERANK}"

    @property
    def rerank_urls(self) -> Mapping[str, str]:
        """The full address of each request shape, by the name of who knows it: jina, cohere, vllm, tei, dashscope, voyage."""
        return {style: f"{self.address}{path}" for style, path in PATHS.items()}

    def fail(self, path: str, faults: Mapping[int, Fault] | Callable[[int, Mapping[str, Any]], Fault | None]) -> None:
        """Sets what goes wrong at a path.

        Args:
            path: Such as ``/v1/chat/completions``.
            faults: By the number of the request, from 1; or a function of that number and the body.
        """
        self._seen[path] = 0
        self._faults[path] = faults if callable(faults) else lambda number, _: faults.get(number)

    def count(self, path: str) -> int:
        """How many requests came in at a path."""
        return sum(request.path == path for request in self.requests)

    async def __aenter__(self) -> Self:
        self._over.clear()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._server is None:
            return
        self._over.set()
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await self._idle.wait()
        await self._server.wait_closed()
        self._server = None
        if self._recording is not None:
            await self._recording.aclose()

    async def serve_forever(self) -> None:
        """Serves until it is cancelled."""
        async with self:
            await asyncio.Event().wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self.connections += 1
        self._idle.clear()
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            self._connections.discard(writer)
            if not self._connections:
                self._idle.set()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False when the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        path, _, query = head[0].split()[1].partition("?")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(min(int(headers.get("content-length", "0")), _LARGEST_BODY))
        body = json.loads(raw) if raw else {}
        async with self._counted(path):
            request = Recorded(path, headers, body, query)
            self.requests.append(request)
            self._seen[path] += 1
            fault = self._faults[path](self._seen[path], body) if path in self._faults else None
            if fault is None:
                await self._pause(self.delay)
                answer = await self._answer(path, headers, body)
                if isinstance(answer, _Response):
                    return await self._send(path, reader, writer, answer)
                fault = answer
            return await self._fail(reader, writer, fault, request)

    async def _fail(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault, request: Recorded) -> bool:
        await self._pause(fault.delay)
        if fault.reset or fault.half_closed:
            await _promise(writer, fault)
            await self._pause(fault.stall)
            if fault.reset:
                writer.transport.abort()
            return False
        response = _failed(fault)
        if response is None:  # it was only late
            answer = await self._answer(request.path, request.headers, request.body)
            response = (_failed(answer) or _error(500, "late for ever")) if isinstance(answer, Fault) else answer
        return await self._send(request.path, reader, writer, response)

    async def _send(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, response: _Response) -> bool:
        lines = [f"HTTP/1.1 {response.status} Told", *(f"{name}: {value}" for name, value in response.headers.items())]
        if response.pieces is None:
            lines.append(f"content-length: {len(response.body)}")
            writer.write("\r\n".join([*lines, "\r\n"]).encode() + response.body)
            await writer.drain()
            return True
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "\r\n"]).encode())
        whole = await self._streamed(reader, writer, response)
        self.left[path] += not whole
        return whole

    async def _streamed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, response: _Response) -> bool:
        """Sends a streamed answer piece by piece; False if the client went away before its end."""
        for piece in itertools.chain(response.pieces or (), [b""]):
            if reader.at_eof() or writer.is_closing():
                return False
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            try:
                await writer.drain()
            except ConnectionError:
                return False
            if piece:
                await self._pause(response.pause)
        return True

    async def _pause(self, seconds: float) -> None:
        if not seconds:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    @asynccontextmanager
    async def _counted(self, path: str) -> AsyncIterator[None]:
        self._running[path] += 1
        self.peak[path] = max(self.peak[path], self._running[path])
        try:
            yield
        finally:
            self._running[path] -= 1

    async def _answer(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> _Response | Fault:
        if self._api_key is not None and headers.get("authorization") != f"Bearer {self._api_key}":
            given = headers.get("authorization", "").removeprefix("Bearer ")
            return _error(401, f"Incorrect API key provided: {given}")
        if self._recording is not None and path != MODELS:
            status, reply = await self._recording.reply(path, body)
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return _replayed(reply, with_usage) if status == 200 and body.get("stream") else _json(reply, status)
        route = self._routes.get(path)
        return route(body) if route else _error(404, f"there is no {path}")

    def _chat(self, body: Mapping[str, Any]) -> _Response | Fault:
        answer = self.chat(Chat(str(body.get("model", "")), tuple(body.get("messages", ())), body))
        if isinstance(answer, Fault):
            return answer
        reply = ChatReply(answer) if isinstance(answer, str) else answer
        if body.get("stream"):
            options = body.get("stream_options") or {}
            events = _events(reply, _usage(reply, body) if options.get("include_usage") else None)
            return _Response(200, b"", _EVENT_STREAM, events, reply.pause)
        message = {"role": "assistant", "content": reply.text, **reply.message}
        return _json(
            {
                "id": "chat-1",
                "object": "chat.completion",
                "created": 0,
                "model": body.get("model"),
                "choices": [{"index": 0, "finish_reason": reply.finish_reason, "message": message}],
                "usage": _usage(reply, body),
            }
        )

    def _embeddings(self, body: Mapping[str, Any]) -> _Response:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = [_bag_of_words(text, self._dimension) for text in texts]
        coded: Sequence[object] = vectors
        if body.get("encoding_format") == "base64":
            coded = [base64.b64encode(pack(f"<{len(vector)}f", *vector)).decode() for vector in vectors]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(coded)]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    def _models(self, body: Mapping[str, Any]) -> _Response:
        return _json({"object": "list", "data": [{"id": _MODEL, "object": "model", "created": 0, "owned_by": "test"}]})


def _bag_of_words(text: str, dimension: int) -> list[float]:
    vector = [0.0] * dimension
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[zlib.crc32(word.encode()) % dimension] += 1.0
    norm = math.sqrt(sum(value * value for value in vector))
    return [value / norm for value in vector]


def _rerank(shape: Callable[[Mapping[str, Any]], object], body: Mapping[str, Any]) -> _Response:
    try:
        return _json(shape(body))
    except Refusal as refusal:
        return _error(refusal.status, str(refusal))


def _replayed(reply: object, with_usage: bool) -> _Response:
    """A recorded reply as a stream."""
    match reply:
        case {"choices": [{"message": dict(message), **choice}, *_], **rest}:
            usage: Any = rest.get("usage") if with_usage else None
            further = {name: value for name, value in message.items() if name not in {"role", "content"} and value}
            finish = str(choice.get("finish_reason") or "stop")
            return _Response(200, b"", _EVENT_STREAM, _events(ChatReply(message.get("content"), finish, further), usage))
        case _:
            return _json(reply)


def _usage(reply: ChatReply, body: Mapping[str, Any]) -> dict[str, int]:
    prompt = sum(len(str(message.get("content", "")).split()) for message in body.get("messages", ()))
    completion = len((reply.text or "".join(reply.pieces or ())).split())
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _events(reply: ChatReply, usage: Mapping[str, int] | None) -> list[bytes]:
    """A streamed chat as server-sent events, with what it took if that was asked for."""
    pieces = reply.pieces if reply.pieces is not None else re.findall(r"\s*\S+|\s+$", reply.text or "")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{name: value} for name, value in reply.message.items()]
    deltas += [{"content": piece} for piece in pieces]
    head = {"id": "chat-1", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    sent: list[dict[str, Any]] = []
    for delta, finish in [*((delta, None) for delta in deltas), ({}, reply.finish_reason)]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        sent.append({**head, "choices": [choice]})
    if usage is not None:
        sent.append({**head, "choices": [], "usage": usage})
    return [*(f"data: {json.dumps(event)}\n\n".encode() for event in sent), b"data: [DONE]\n\n"]


def _json(value: object, status: int = 200) -> _Response:
    return _Response(status, json.dumps(value).encode(), {"content-type": "application/json"})


def _error(status: int, message: str) -> _Response:
    return _json({"error": {"message": message, "type": "test", "code": None}}, status)


def _failed(fault: Fault) -> _Response | None:
    """The response a fault stands for, if it stands for one."""
    status = fault.status or 200
    if fault.pieces is not None:
        return _Response(status, b"", {"content-type": "application/json", **fault.headers}, fault.pieces, fault.pause)
    if fault.status is None and fault.body is None:
        return None
    if fault.body is None:
        response = _error(status, f"told to answer {status}")
    elif isinstance(fault.body, Mapping):
        response = _json(fault.body, status)
    else:
        raw = fault.body.encode() if isinstance(fault.body, str) else fault.body
        response = _Response(status, raw, {"content-type": "application/json"})
    return _Response(status, response.body, {**response.headers, **fault.headers})


async def _promise(writer: asyncio.StreamWriter, fault: Fault) -> None:
    """The beginning of an answer that promises more than it holds; nothing if the fault has no body."""
    if fault.body is None:
        return
    raw = fault.body if isinstance(fault.body, bytes) else str(fault.body).encode()
    kind = fault.headers.get("content-type", "application/json")
    head = f"HTTP/1.1 {fault.status or 200} Told\r\ncontent-type: {kind}\r\ncontent-length: {len(raw) + 1000}\r\n\r\n"
    writer.write(head.encode() + raw)
    await writer.drain()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until it is interrupted.

    Args:
        arguments: Of the command line; those of the process if None.
    """
    parser = argparse.ArgumentParser(prog="python -m easy_knowledge_retriever.testing.server", description=_HELP)
    parser.add_argument("--port", type=int, default=8000, help="any free one if 0")
    parser.add_argument("--dimension", type=int, default=256, help="length of the vectors")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds each request takes")
    parser.add_argument("--chat", choices=sorted(_MODES), default="assistant", help="how chats are answered")
    parser.add_argument("--recorded", metavar="FILE", help="answer with the replies in this file")
    parser.add_argument("--upstream", metavar="URL", help="ask this endpoint for what the file lacks, with OPENAI_API_KEY")
    parser.add_argument("--fault", choices=sorted(faults.ALL), help="what goes wrong with chats")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="with each Nth of them only")
    options = parser.parse_args(arguments)
    chat: ChatMode | Recording = _MODES[options.chat]
    if options.recorded:
        chat = recorded(options.recorded, options.upstream, api_key=environment().openai_api_key)
    server = OpenAITestServer(chat, dimension=options.dimension, delay=options.delay, port=options.port)
    if options.fault:
        server.fail(CHAT, lambda number, _: None if number % options.every else faults.ALL[options.fault]())
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_and_say(server))


async def _serve_and_say(server: OpenAITestServer) -> None:
    async with server:
        sys.stdout.write(f"{server.base_url} answers until it is interrupted\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
