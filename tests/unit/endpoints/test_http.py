"""One client for each loop, on whichever HTTP library is there."""

from __future__ import annotations

import asyncio
import threading

import pytest

from easy_knowledge_retriever.endpoints.http import HttpClient, LoopBound, transport_error
from easy_knowledge_retriever.errors import UpstreamTimeout, UpstreamUnavailable
from easy_knowledge_retriever.testing.server import RERANK, Fault, OpenAITestServer


class Resource:
    """Something that belongs to the loop it was made in."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed_in: asyncio.AbstractEventLoop | None = None

    async def aclose(self) -> None:
        self.closed_in = asyncio.get_running_loop()


def bound() -> LoopBound[Resource]:
    return LoopBound(Resource, lambda resource: resource.aclose())


async def test_a_loop_has_one_and_closing_is_done_once() -> None:
    held = bound()
    first = held.get()
    assert held.get() is first
    await held.aclose()
    await held.aclose()
    assert first.closed_in is first.loop
    assert held.get() is not first


def test_each_loop_has_its_own_and_a_dead_one_is_forgotten() -> None:
    held = bound()

    async def get() -> Resource:
        return held.get()

    first, second = asyncio.run(get()), asyncio.run(get())
    assert first is not second
    assert len(held._held) == 1


async def test_what_another_loop_holds_is_closed_there() -> None:
    held = bound()
    ready, over = threading.Event(), threading.Event()
    made: list[Resource] = []

    async def elsewhere() -> None:
        made.append(held.get())
        ready.set()
        await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(ready.wait)
    mine = held.get()
    await held.aclose()
    over.set()
    await asyncio.to_thread(thread.join)
    assert mine.closed_in is asyncio.get_running_loop()
    assert made[0].closed_in is made[0].loop


async def test_a_loop_that_does_not_run_cannot_close_anything() -> None:
    held = bound()

    async def get() -> Resource:
        return held.get()

    loop = asyncio.new_event_loop()
    forgotten = await asyncio.to_thread(loop.run_until_complete, get())
    await held.aclose()
    loop.close()
    assert forgotten.closed_in is None


class ReadTimeoutOfSomeLibrary(Exception):
    """Named as the HTTP libraries name theirs, and without a message, as theirs may be."""


def test_a_transport_error_says_something() -> None:
    late = transport_error(ReadTimeoutOfSomeLibrary(), "the model 'm'")
    assert isinstance(late, UpstreamTimeout)
    assert str(late) == "the model 'm' did not answer in time (ReadTimeoutOfSomeLibrary)"
    down = transport_error(OSError(), "the model 'm'")
    assert isinstance(down, UpstreamUnavailable)
    assert str(down) == "the model 'm' cannot be reached: OSError"


async def test_a_post_goes_to_one_place_only() -> None:
    async with OpenAITestServer() as server, OpenAITestServer() as other:
        server.fail(RERANK, {1: Fault(307, {"location": other.rerank_url})})
        client = HttpClient(server.rerank_url, {"authorization": "Bearer canary"}, 5, ("canary",))
        reply = await client.post({"query": "q", "documents": []}, "there")
        assert (reply.status, other.requests) == (307, [])
        assert "final address" in str(client.failure(reply, "there"))
        server.fail(RERANK, {1: Fault(reset=True)})
        with pytest.raises(UpstreamUnavailable, match="there cannot be reached"):
            await client.post({}, "there")
        await client.aclose()
