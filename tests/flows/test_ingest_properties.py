"""Whatever was ingested, replaced and deleted before: a base is a function of the documents in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import Described, document, empty_base, ingestion
from tests.support.properties import examples

WORDS = ["Verdel", "Kell", "Brandt", "Ostrania", "Marlow", "river", "near", "the", "Kell.", "flows."]
names = st.sampled_from(["a", "b", "c"])
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)
steps = st.one_of(st.tuples(st.just("ingest"), names, texts), st.tuples(st.just("delete"), names, st.just("")))
TIGHT = Settings(max_source_ids_per_entity=2, max_source_ids_per_relation=2, max_file_paths=1, source_ids_limit_method="KEEP")


async def _after(steps: Sequence[tuple[str, str, str]], settings: Settings) -> KnowledgeBase:
    kb = await empty_base()
    flow = ingestion(kb, settings=settings, extractors=[Described("llm")])
    for step, name, text in steps:
        made = document(name, text, title="")
        if step == "ingest":
            await flow.ingest_document(made)
        else:
            await flow.delete_document(made.id)
    return kb


@examples(40)
@given(st.lists(steps, max_size=8), st.sampled_from([Settings(), TIGHT]), st.randoms())
def test_only_the_documents_that_are_left_matter(steps: list[tuple[str, str, str]], settings: Settings, random: Random) -> None:
    async def check() -> None:
        left: dict[str, tuple[str, str, str]] = {}
        for step in steps:
            left.pop(step[1], None)
            if step[0] == "ingest":
                left[step[1]] = step
        rest = list(left.values())
        random.shuffle(rest)
        long_way, short_way = await _after(steps, settings), await _after(rest, settings)
        report = await verify(long_way, deep=True, settings=settings)
        assert report.findings == ()
        without_model = [line for line in (await canonical_dump(long_way)).splitlines() if '"embedding"' not in line]
        assert without_model == [line for line in (await canonical_dump(short_way)).splitlines() if '"embedding"' not in line]

    asyncio.run(check())
