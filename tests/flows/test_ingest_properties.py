"""Whatever was ingested, replaced and deleted before: a base is a function of the documents in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.settings import Settings
from tests.flows.changing_base import TIGHT, Step, assert_only_what_is_left_matters, take
from tests.flows.ingesting_base import Described, empty_base, ingestion
from tests.support.properties import examples

WORDS = ["Verdel", "Kell", "Brandt", "Ostrania", "Marlow", "river", "near", "the", "Kell.", "flows."]
names = st.sampled_from(["a", "b", "c"])
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)
steps = st.one_of(st.tuples(st.just("ingest"), names, texts), st.tuples(st.just("delete"), names, st.just("")))


async def _after(steps: Sequence[Step], settings: Settings) -> KnowledgeBase:
    kb = await empty_base()
    await take(ingestion(kb, settings=settings, extractors=[Described("llm")]), steps)
    return kb


@examples(40)
@given(st.lists(steps, max_size=8), st.sampled_from([Settings(), TIGHT]), st.randoms())
def test_only_the_documents_that_are_left_matter(steps: list[Step], settings: Settings, random: Random) -> None:
    asyncio.run(assert_only_what_is_left_matters(steps, settings, random, _after))
