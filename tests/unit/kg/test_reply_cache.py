"""The cache of replies: what belongs to a document, what is counted, and what goes first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from easy_knowledge_retriever.kg.reply_cache import (
    CacheSize,
    ReplyCache,
    cache_size,
    drop_replies,
    owners_of_replies,
    put_replies,
    trim_replies,
)
from easy_knowledge_retriever.spending.account import Account, charging
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.testing.memory import MemoryKVStorage


class Counting(MemoryKVStorage):
    """Counts how often it is looked at as a whole."""

    scans = 0

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, object]]:  # type: ignore[override]
        type(self).scans += 1
        async for row in super().scan(prefix):
            yield row


@pytest.fixture
async def store() -> AsyncIterator[MemoryKVStorage]:
    storage = MemoryKVStorage().bind("llm_cache")
    await storage.open()
    yield storage
    await storage.close()


@contextmanager
def about(document_id: str) -> Iterator[KeptReplies]:
    account = Account()
    account.replies = KeptReplies(document_id)
    with charging(account):
        yield account.replies


def row(text: str, at: int = 1) -> dict[str, str | int]:
    return {"text": text, "at": at}


async def keys(store: MemoryKVStorage) -> list[str]:
    return [key async for key, _ in store.scan() if key != "size"]


async def test_a_reply_to_a_question_is_kept_at_once(store: MemoryKVStorage) -> None:
    cache = ReplyCache(store)
    await cache.put_many({"a": row("one"), "b": row("two")})
    assert await cache.get_many(["a", "c"]) == {"a": row("one")}
    assert await cache_size(store) == CacheSize(2, 2 * (100 + 1 + 3))
    assert await owners_of_replies(store) == set()


async def test_a_reply_about_a_document_waits_for_its_commit_and_is_found_meanwhile(store: MemoryKVStorage) -> None:
    cache = ReplyCache(store)
    with about("doc") as ours:
        await cache.put_many({"a": row("one")})
        assert await cache.get_many(["a", "b"]) == {"a": row("one")}
        assert await keys(store) == []
        await put_replies(store, ours.unsaved)
        ours.saved(list(ours.unsaved))
        assert await cache.get_many(["a"]) == {"a": row("one")}
    with about("other"):
        assert await cache.get_many(["a"]) == {}
    assert await cache.get_many(["a"]) == {}
    assert await owners_of_replies(store) == {KeptReplies("doc").owner}
    assert not [key for key in await keys(store) if "doc" in key]


async def test_the_replies_of_a_document_go_with_it(store: MemoryKVStorage) -> None:
    await put_replies(store, {KeptReplies("doc").key("a"): row("x"), KeptReplies("doc/2").key("a"): row("y"), "q": row("z")})
    await drop_replies(store, KeptReplies("doc"))
    assert await keys(store) == sorted([KeptReplies("doc/2").key("a"), "q"])


async def test_what_an_ingest_did_not_ask_for_goes_with_its_commit(store: MemoryKVStorage) -> None:
    cache, before = ReplyCache(store), KeptReplies("doc")
    await put_replies(store, {before.key("stays"): row("x"), before.key("goes"): row("y")})
    with about("doc") as ours:
        await cache.get_many(["stays"])
        await cache.get_many(["never there"])
        await drop_replies(store, ours, unused_only=True)
    assert await keys(store) == [before.key("stays")]


async def test_the_oldest_go_first_when_there_is_too_much(store: MemoryKVStorage) -> None:
    text = "x" * 900  # with key and row a reply takes 1,001 bytes
    for at in (5, 1, 4, 2, 3):
        await put_replies(store, {str(at): row(text, at)})
    await trim_replies(store, 0.005_005)
    assert len(await keys(store)) == 5
    await trim_replies(store, 0.005)
    assert await keys(store) == ["3", "4", "5"]
    assert (await store.get_many(["size"]))["size"] == {"replies": 3, "bytes": 3003}
    await trim_replies(store, None)
    await trim_replies(store, 0)
    assert await keys(store) == []


async def test_a_put_looks_at_everything_only_when_the_cap_is_passed() -> None:
    store = Counting().bind("llm_cache")
    await store.open()
    cache = ReplyCache(store, 0.01)
    Counting.scans = 0
    for at in range(40):
        await cache.put_many({f"{at:02}": row("x" * 398, at)})
    assert (await cache_size(store)).bytes <= 10_000
    # 500 bytes each: the cap is passed by the 21st, and again when five more are there: by the 26th, 31st and 36th
    assert Counting.scans - 1 == 4
    await store.close()


async def test_a_wrong_count_is_put_right(store: MemoryKVStorage) -> None:
    await put_replies(store, {"a": row("one")})
    await store.put_many({"size": {"replies": 99, "bytes": 10**9}})
    await trim_replies(store, 1)
    assert await keys(store) == ["a"]
    assert (await store.get_many(["size"]))["size"] == {"replies": 1, "bytes": 104}
