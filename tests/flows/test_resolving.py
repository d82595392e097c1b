"""Variants of a name are one entity, whatever the order of the documents, and nothing is left of a document that goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import NotFound
from easy_knowledge_retriever.ingestion.deciding import decided_apart, decided_one
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.graph_storage.sqlite_impl import SqliteGraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteDocStatusStorage, SqliteKVStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.operations.merges import merges_in
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.memory import MemoryGraphStorage, MemoryKVStorage
from tests.flows.changing_base import TIGHT, Step, assert_only_what_is_left_matters, left_after, take
from tests.flows.ingesting_base import document, empty_base, ingestion
from tests.flows.naming_base import SENTENCES, Known
from tests.support.properties import examples

READS = {
    MemoryKVStorage: ("get_many",),
    MemoryGraphStorage: ("entities", "relations", "relations_of", "mentions_of", "mentions_in"),
}
names = st.sampled_from(["a", "b", "c", "d"])
texts = st.lists(st.sampled_from(sorted(SENTENCES)), min_size=1, max_size=4).map(
    lambda lines: "".join(line + ("\n\n" if at % 2 else " ") for at, line in enumerate(lines))
)
steps = st.one_of(st.tuples(st.just("ingest"), names, texts), st.tuples(st.just("delete"), names, st.just("")))


async def _memory(_: Path) -> KnowledgeBase:
    return await empty_base()


async def _sqlite(folder: Path) -> KnowledgeBase:
    kb = knowledge_base(
        SqliteKVStorage(folder),
        SqliteDocStatusStorage(folder),
        SqliteVectorStorage(folder),
        SqliteLexicalStorage(folder),
        SqliteGraphStorage(folder),
    )
    await kb.open()
    return kb


@contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    """Counts the rows that every in-memory storage gives from now on, by method."""
    rows: Counter[str] = Counter()

    def counting(name: str, read: Callable[..., Awaitable[dict[str, Any]]]) -> Callable[..., Awaitable[dict[str, Any]]]:
        async def counted(*arguments: Any, **options: Any) -> dict[str, Any]:
            found = await read(*arguments, **options)
            rows[name] += sum(len(row) if isinstance(row, list) else 1 for row in found.values())
            return found

        return counted

    with ExitStack() as stack:
        for storage, methods in READS.items():
            for method in methods:
                stack.enter_context(patch.object(storage, method, counting(method, getattr(storage, method))))
        yield rows


async def _after(steps: Sequence[Step], settings: Settings, base: KnowledgeBase | None = None) -> KnowledgeBase:
    kb = base or await empty_base()
    await take(ingestion(kb, settings=settings, extractors=[Known()]), steps)
    return kb


@examples(60)
@given(st.lists(steps, max_size=9), st.sampled_from([Settings(), TIGHT]), st.randoms())
def test_only_the_documents_that_are_left_matter(steps: list[Step], settings: Settings, random: Random) -> None:
    asyncio.run(assert_only_what_is_left_matters(steps, settings, random, _after))


KEPT = ("The Beatles sang in Ostrania.", "Some Beatles records were sold to Ada Lind.", "EU law binds Ostrania.")


async def _decided(kb: KnowledgeBase) -> None:
    flow = ingestion(kb, extractors=[Known()])
    await flow.decide(lambda: decided_apart(kb, "The Beatles"))
    await flow.decide(lambda: decided_one(kb, ["EU"], "Ostrania"))


@examples(30)
@given(st.lists(steps, max_size=6), st.randoms())
def test_what_a_user_decided_holds_whatever_comes_and_goes(steps: list[Step], random: Random) -> None:
    kept = [("ingest", f"kept {number}", text) for number, text in enumerate(KEPT)]

    async def check() -> None:
        rest = [*kept, *left_after(steps, random)]
        random.shuffle(rest)
        long_way, short_way = await _after(kept, Settings()), await _after(rest, Settings())
        await _decided(long_way)
        await _after(steps, Settings(), long_way)
        await _decided(short_way)
        assert (await verify(long_way, deep=True)).findings == ()
        assert await canonical_dump(long_way) == await canonical_dump(short_way)

    asyncio.run(check())


@pytest.mark.parametrize("make", [_memory, _sqlite])
async def test_undone_and_redone_a_base_is_what_it_was(make: Callable[[Path], Awaitable[KnowledgeBase]], tmp_path: Path) -> None:
    kb = await make(tmp_path)
    await _after([("ingest", line, line) for line in sorted(SENTENCES)], Settings(), kb)
    flow = ingestion(kb, extractors=[Known()])
    before = await canonical_dump(kb)
    await flow.decide(lambda: decided_apart(kb, "Dr. Ada Lind"))
    assert set(await kb.graph.entities(["dr. ada lind", "ada lind"])) == {"dr. ada lind", "ada lind"}
    assert (await verify(kb, deep=True)).findings == ()
    await flow.decide(lambda: decided_one(kb, ["Mercury (Person)", "dr. ada lind"], "mercury"))
    assert await kb.graph.entities(["mercury (person)"]) == {}
    assert [merge.kind for merge in await merges_in(kb, "Mercury")] == ["manual"]
    assert (await verify(kb, deep=True)).findings == ()
    await flow.decide(lambda: decided_apart(kb, "Mercury (Person)"))
    await flow.decide(lambda: decided_apart(kb, "Dr. Ada Lind"))
    await flow.decide(lambda: decided_one(kb, ["Dr. Ada Lind"], "Ada Lind"))
    assert await canonical_dump(kb) == before
    with pytest.raises(NotFound, match="not merged"):
        await flow.decide(lambda: decided_apart(kb, "Ada Lind"))
    with pytest.raises(NotFound, match="no document"):
        await flow.decide(lambda: decided_one(kb, ["Nobody"], "Ada Lind"))
    with pytest.raises(NotFound, match="no document"):
        await flow.decide(lambda: decided_one(kb, ["Ada Lind"], "Nobody"))
    await kb.close()


async def test_a_merge_is_recorded_with_its_evidence() -> None:
    lines = (
        "EU law binds Ostrania.",
        "The European Union (EU) met.",
        "The European Union binds Ostrania.",
        "E.U. rules are long.",
    )
    kb = await _after([("ingest", line, line) for line in lines], Settings())
    merges = await merges_in(kb)
    assert [(merge.variant, merge.entity, merge.kind, merge.file_path) for merge in merges] == [
        ("E.U.", "EU", "acronym", lines[1]),
        ("EU", "EU", "acronym", lines[1]),
        ("The European Union", "EU", "article", ""),
    ]
    assert await merges_in(kb, "eu") == await merges_in(kb, "the european union") == merges
    stating = await kb.chunks.get_many([merges[0].chunk_id])
    assert stating[merges[0].chunk_id].text == lines[1]
    with pytest.raises(NotFound):
        await merges_in(kb, "Nobody")
    flow = ingestion(kb, extractors=[Known()])
    await flow.delete_document(document(lines[1], lines[1]).id)
    assert [merge.kind for merge in await merges_in(kb)] == ["spacing"]


async def test_one_more_document_costs_the_same_however_often_its_names_are_mentioned() -> None:
    """A hub with many mentions is read as one row, and never through its mentions, unless a name moves."""

    async def reads(mentions: int) -> int:
        kb = await empty_base()
        flow = ingestion(kb, extractors=[Known()])
        await flow.ingest_document(document("first", "The European Union (EU) met. The European Union binds Ostrania."))
        for number in range(mentions):
            await flow.ingest_document(document(f"{number}", "EU law binds Ostrania."))
        with counted_reads() as rows:
            await flow.ingest_document(document("last", "EU law binds Ostrania. The European Union (EU) met."))
        return sum(rows.values())

    few, many = await reads(3), await reads(40)
    assert many == few


async def test_a_relation_of_an_entity_with_itself_is_none() -> None:
    kb = await _after([("ingest", "a", "The European Union (EU) met.")], Settings())
    assert await kb.graph.relation_keys() == []
    assert await kb.graph.keys() == ["european union"]
    await ingestion(kb, extractors=[Known()]).decide(lambda: decided_apart(kb, "EU"))
    assert [tuple(key) for key in await kb.graph.relation_keys()] == [("eu", "european union")]


async def test_a_base_is_taken_over_from_before_names_were_resolved() -> None:
    """Documents without a naming keep their names; those that come are resolved, and take the old ones with them."""
    kb = await _after([("ingest", "a", "The Beatles sang in Ostrania.")], Settings(resolution="off"))
    assert [key async for key, _ in kb.names.scan()] == [key async for key, _ in kb.naming.scan()] == []
    assert "the beatles" in await kb.graph.keys()
    await _after([("ingest", "b", "Some Beatles records were sold to Ada Lind.")], Settings(), kb)
    assert (await verify(kb, deep=True)).findings == ()
    await _after([("ingest", "c", "Ada Lind (1960-2020) sang with The Beatles.")], Settings(), kb)
    assert "the beatles" not in await kb.graph.keys()
    assert (await kb.graph.entities(["beatles"]))["beatles"].mention_count == 3
    assert (await verify(kb, deep=True)).findings == ()
    await _after([("delete", "a", "")], Settings(), kb)
    assert (await verify(kb, deep=True)).findings == ()
