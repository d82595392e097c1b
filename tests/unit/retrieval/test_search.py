from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.retrieval.base import Searches
from easy_knowledge_retriever.retrieval.search import IndexSearches
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import AnalyzedQuery, GraphFacts, Hit, RelationKey, SearchFilter
from tests.flows.querying_base import small_base


@given(one=st.text(), other=st.text())
def test_the_id_of_a_relation_can_be_read_back(one: str, other: str) -> None:
    key = RelationKey.of(one, other)
    assert RelationKey.of_id(key.id) == key


def searches(kb: KnowledgeBase, **changes: object) -> IndexSearches:
    made = IndexSearches(
        kb=kb,
        filter=None,
        top_k=10,
        chunk_top_k=5,
        reranks=False,
        threshold=0.0,
        related_chunk_number=5,
        pick_method="VECTOR",
        max_graph_nodes=100,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


async def question(text: str, names: tuple[str, ...] = ()) -> AnalyzedQuery:
    (vector,) = await FakeEmbeddingService().embed([text], "query")
    return AnalyzedQuery(text, vector, names=names, anchors=names, low_vector=vector, high_vector=vector)


async def test_it_is_what_a_strategy_sees() -> None:
    seen: Searches = searches(await small_base())
    assert (seen.chunk_top_k, seen.reranks) == (5, False)


async def test_a_question_without_a_vector_or_terms_finds_nothing_there() -> None:
    index = searches(await small_base())
    query = AnalyzedQuery("bread")
    assert await index.dense(query, 5) == ()
    assert await index.bm25(query, 5, 1.5, 0.75) == ()
    assert await index.relations(query) == GraphFacts()
    assert await index.walk(query, (), 5) == ()


async def test_the_names_of_a_question_come_before_what_is_near() -> None:
    facts = await searches(await small_base(), top_k=2).entities(await question("Mount Kell", ("ida brandt",)))
    followed = ["verdel"]
    assert [entity.key for entity in facts.entities] == ["ida brandt", "mount kell", *followed]
    assert [relation.key for relation in facts.relations] == [
        RelationKey("mount kell", "verdel"),
        RelationKey("ida brandt", "mount kell"),
    ]


async def test_the_walk_reaches_a_passage_the_question_cannot_see() -> None:
    """From the river over the mountain it rises at to the passage about that mountain."""
    hits = await searches(await small_base(), threshold=0.5).walk(await question("qqqq", ("verdel",)), (), 10)
    ranked = [hit.id for hit in hits]
    assert set(ranked[:2]) == {"river.md#0", "river.md#1"}
    assert ranked[2:] == ["kell.md#0"]


async def test_the_walk_starts_from_hits_where_there_are_no_names() -> None:
    hits = await searches(await small_base()).walk(AnalyzedQuery("zzz"), ((Hit("bread.md#1", 1.0),),), 10)
    assert [hit.id for hit in hits] == ["bread.md#1", "bread.md#0"]


async def test_facts_lose_what_other_documents_say() -> None:
    only = SearchFilter(document_ids=frozenset({"river.md"}))
    facts = await searches(await small_base(), filter=only).entities(await question("Mount Kell", ("mount kell",)))
    (mountain,) = (entity for entity in facts.entities if entity.key == "mount kell")
    assert mountain.chunk_ids == ("river.md#0",)
    assert mountain.file_paths == ("river.md",)
    assert mountain.description == "Mount Kell in river.md"


@pytest.mark.parametrize("method", ["VECTOR", "WEIGHT"])
async def test_as_many_chunks_as_asked_for_each_fact(method: str) -> None:
    index = searches(await small_base(), pick_method=method, related_chunk_number=1)
    query = await question("Mount Kell was first climbed", ("mount kell",))
    facts = GraphFacts((await index.entities(query)).entities[:1])
    assert len(await index.chunks_of(facts, query)) == 1


async def test_chunks_that_more_facts_speak_of_come_first() -> None:
    index = searches(await small_base(), pick_method="WEIGHT")
    query = await question("zzz", ("verdel", "mount kell"))
    facts = GraphFacts((await index.entities(query)).entities[:2])
    hits = await index.chunks_of(facts, query)
    assert hits[0] == Hit("river.md#0", 2.0)


async def test_near_entities_obey_the_threshold() -> None:
    loose = await searches(await small_base(), threshold=-1.0).entities(await question("Mount Kell"))
    strict = await searches(await small_base(), threshold=0.9).entities(await question("Mount Kell"))
    assert len(strict.entities) < len(loose.entities)


async def test_the_walk_is_the_same_every_time() -> None:
    index = searches(await small_base())
    query = await question("Mount Kell", ("mount kell", "verdel"))
    seeds = (await index.dense(query, 5),)
    first = await index.walk(query, seeds, 10)
    assert first == await index.walk(query, seeds, 10)
    assert all(np.diff([hit.score for hit in first]) <= 0)
