"""Replies are durable before they are used, and a cancellation loses none that came."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.ingestion.replies import StagedReplies
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, Table
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.testing.memory import MemoryKVStorage
from easy_knowledge_retriever.types import Chunk, Reply, Transcript
from tests.flows.ingesting_base import document, empty_base

DOCUMENT = document("a", "text")
CHUNKS = [Chunk(f"c{number}", DOCUMENT.id, "a", "v", number, "text", 0, 4) for number in range(5)]


def said(text: str) -> Transcript:
    return Transcript(DOCUMENT.id, ((Reply(text),),))


class Slow(MemoryKVStorage):
    """Takes its time, and counts the calls."""

    calls = 0

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        type(self).calls += 1
        await asyncio.sleep(0.01)
        await super().put_many(values)


async def slow_base() -> KnowledgeBase:
    kb = await empty_base()
    storage = Slow().bind("staged")
    await storage.open()
    object.__setattr__(kb, "staged", Table(storage, kb.staged.encode, kb.staged.decode))
    Slow.calls = 0
    return kb


async def test_many_replies_are_few_writes_and_come_back() -> None:
    kb = await slow_base()
    replies = await StagedReplies.open(kb, DOCUMENT, CHUNKS)
    async with task_group() as group:
        for chunk in CHUNKS:
            group.create_task(replies.keep(chunk, said(chunk.id)))
    assert Slow.calls == 2
    again = await StagedReplies.open(kb, DOCUMENT, CHUNKS)
    assert [again.of(chunk) for chunk in CHUNKS] == [replies.of(chunk) for chunk in CHUNKS] == [said(c.id) for c in CHUNKS]


async def test_what_came_before_a_cancellation_is_kept() -> None:
    kb = await slow_base()
    replies = await StagedReplies.open(kb, DOCUMENT, CHUNKS)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(replies.keep(chunk, said(chunk.id))) for chunk in CHUNKS]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
    await replies.drain()
    again = await StagedReplies.open(kb, DOCUMENT, CHUNKS)
    assert [again.of(chunk) for chunk in CHUNKS] == [said(chunk.id) for chunk in CHUNKS]


async def test_files_are_written_before_a_reply_is_used(tmp_path: Path) -> None:
    kb = await empty_base()
    storage = JsonKVStorage(tmp_path).bind("staged")
    await storage.open()
    object.__setattr__(kb, "staged", Table(storage, kb.staged.encode, kb.staged.decode))
    replies = await StagedReplies.open(kb, DOCUMENT, CHUNKS)
    await replies.keep(CHUNKS[0], said("it was said"))
    assert "it was said" in (tmp_path / "journal-1.log").read_bytes().decode("latin-1")
