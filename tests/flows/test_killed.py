"""``kill -9`` at random points of an ingest that pays for each call: nothing is paid twice but what was under way."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.replies import Chat, ChatReply, assistant
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, Fault, OpenAITestServer
from tests.flows.paying import AT_ONCE, play, retriever

SAVED_AT_ONCE = 64
"""Vectors between two savings."""
ROOT = Path(__file__).resolve().parents[2]
PEOPLE = ["Ida Brandt", "Jon Lind", "Mira Holt", "Per Aas", "Eva Krog", "Kai Moen", "Liv Dahl", "Ole Vik"]
PLACES = ["Marlow", "Lund", "Brenn", "Norland", "Kell", "Verdel", "Ostrania"]


def text_of(chunks: int, seed: int) -> str:
    """So many paragraphs, each long enough for a chunk of its own."""
    choose = random.Random(seed)
    lines = []
    for number in range(chunks):
        first, second = choose.sample(PEOPLE, 2)
        place = choose.choice(PLACES)
        lines.append(
            f"In the year {1900 + number} {first} came to {place} with {second} and a letter of {choose.choice(PEOPLE)}, "
            f"which said that the bridge number {number} had to be built before the winter came."
        )
    return "# Chronicle\n\n" + "\n\n".join(lines)


def paid_twice(server: OpenAITestServer, path: str) -> int:
    """How many requests came in that had come in before."""
    counts = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests if request.path == path)
    return sum(counts.values()) - len(counts)


def embedded_twice(server: OpenAITestServer) -> int:
    """How many chunks were embedded that had been embedded before."""
    texts = (text for request in server.requests if request.path == EMBEDDINGS for text in request.body["input"])
    counts = Counter(text for text in texts if text.startswith("Chronicle\n"))
    return sum(counts.values()) - len(counts)


async def dump_of(folder: Path, url: str) -> str:
    """The base, written out."""
    async with retriever(folder, url) as rag:
        assert (await rag.verify(deep=True)).findings == ()
        return await canonical_dump(rag._kb)


class Killing:
    """A model that kills who asks it when so many requests have come."""

    def __init__(self, server: OpenAITestServer, choose: random.Random) -> None:
        self._server = server
        self._choose = choose
        self.point = 0
        self.due = asyncio.Event()

    def __call__(self, chat: Chat) -> str | ChatReply | Fault:
        if self._server.count(CHAT) >= self.point:
            self.due.set()
        return assistant(chat)

    async def kill(self, folder: Path, file: Path, point: int) -> int:
        """Runs the ingest until the point and a moment longer; the exit code."""
        self.point = point
        self.due.clear()
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.flows.paying", str(folder), self._server.base_url, str(file)), cwd=ROOT
        )
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(child.wait())
            due = group.create_task(self.due.wait())
            await asyncio.wait([ended, due], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(self._choose.uniform(0, 0.08))
            if not ended.done():
                child.send_signal(signal.SIGKILL)
            await ended
            due.cancel()
        return ended.result()


@pytest.mark.parametrize(("kills", "chunks"), [(5, 40), pytest.param(20, 200, marks=pytest.mark.long)])
async def test_killed_and_taken_up_again_nothing_is_paid_twice(tmp_path: Path, kills: int, chunks: int) -> None:
    choose = random.Random(kills)
    file = tmp_path / "chronicle.md"
    file.write_text(text_of(chunks, seed=kills))
    async with OpenAITestServer(delay=0.02) as server:
        whole = await play(tmp_path / "whole", server.base_url, file)
        expected, calls = await dump_of(tmp_path / "whole", server.base_url), server.count(CHAT)
        assert whole.chunks >= chunks
        assert paid_twice(server, CHAT) == 0

        server.requests.clear()
        killing = Killing(server, choose)
        server.chat = killing
        killed = 0
        for point in [*sorted(choose.sample(range(1, calls), kills - 1)), calls]:
            killed += await killing.kill(tmp_path / "killed", file, point) == -signal.SIGKILL
            assert paid_twice(server, CHAT) <= killed * AT_ONCE
            assert embedded_twice(server) <= killed * SAVED_AT_ONCE
        server.chat = assistant
        await play(tmp_path / "killed", server.base_url, file)
        assert killed >= kills - 1
        assert calls <= server.count(CHAT) <= calls + killed * AT_ONCE
        assert await dump_of(tmp_path / "killed", server.base_url) == expected
