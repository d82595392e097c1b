"""Starts of a walk and the weight of statements, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.retrieval.search import IndexSearches
from easy_knowledge_retriever.retrieval.statements import (
    FACT_SHARE,
    FOLLOWED,
    LED_TO,
    PASSAGE_SHARE,
    STATED,
    even,
    evidence_of,
    seed_weights,
    start_weights,
    teleport,
)
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import (
    AnalyzedQuery,
    Entity,
    Fragment,
    GraphFacts,
    Hit,
    MentionEdge,
    Relation,
    RelationKey,
    SearchFilter,
    Subgraph,
    VectorRecord,
)
from tests.flows.querying_base import small_base
from tests.unit.retrieval.test_search import searches

BORN = RelationKey("brandt", "marlow")
FACTS = GraphFacts(
    (Entity("brandt", chunk_ids=("c0", "c1")), Entity("marlow", chunk_ids=("c2", "c3", "c4", "c5"))),
    (Relation(BORN, fragments=(Fragment("c1", "born in"),), chunk_ids=("c1",)),),
)


def test_a_statement_counts_for_the_chunk_that_makes_it_and_for_those_it_leads_to() -> None:
    evidence = evidence_of(FACTS, {BORN: 0.8}, {"brandt"})
    assert evidence == pytest.approx({"c1": 0.8 * STATED} | dict.fromkeys(("c2", "c3", "c4", "c5"), 0.8 * LED_TO / 2))


def test_the_most_that_one_statement_adds_counts() -> None:
    other = RelationKey("marlow", "ostrania")
    facts = GraphFacts(FACTS.entities, (*FACTS.relations, Relation(other, chunk_ids=("c1", "c2"))))
    evidence = evidence_of(facts, {BORN: 0.8, other: 0.2}, {"brandt"})
    assert evidence["c1"] == pytest.approx(0.8 * STATED)
    assert evidence["c2"] == pytest.approx(0.8 * LED_TO / 2)


def test_only_the_nearest_are_followed() -> None:
    pairs = [RelationKey("brandt", f"end {n}") for n in range(FOLLOWED + 1)]
    facts = GraphFacts(tuple(Entity(pair.second, chunk_ids=(pair.second,)) for pair in pairs), tuple(map(Relation, pairs)))
    evidence = evidence_of(facts, {pair: 1 / (n + 1) for n, pair in enumerate(pairs)}, {"brandt"})
    assert list(evidence) == [pair.second for pair in pairs[:FOLLOWED]]


def test_starts_are_weighed_by_rank_and_rarity() -> None:
    assert seed_weights([[Hit("a", 9.0), Hit("b", 8.0)], [Hit("b", 1.0)]]) == {"a": 1.0, "b": 1.5}
    edges = {
        key: [MentionEdge(key, f"c{n}", "d") for n in range(count)] for key, count in {"kell": 2, "marlow": 4, "x": 0}.items()
    }
    weights = start_weights(["kell", "x"], {"kell": 0.5, "marlow": 0.8, "gone": 1.0}, edges)
    assert weights == pytest.approx({"kell": (1 + 0.5 * FACT_SHARE) / 2, "marlow": 0.8 * FACT_SHARE / 4})


GRAPH = Subgraph(
    ("c0",),
    ("kell", "verdel"),
    np.array([0, 0, 1], np.int32),
    np.array([1, 2, 2], np.int32),
    np.array([5.0, 1.0, 10.0], np.float32),
)


def test_a_relation_draws_no_more_than_the_heaviest_mention() -> None:
    assert even(GRAPH).weight.tolist() == [5.0, 1.0, 3.0]
    assert even(GRAPH).weight.dtype == np.float32


def test_where_a_walk_starts() -> None:
    assert teleport(GRAPH, {"c0": 2.0}, {"verdel": 0.5, "gone": 1.0}).tolist() == [2 * PASSAGE_SHARE, 0.0, 0.5]


STATEMENT = "Ida Brandt was born in the town of Lund"


async def stated() -> KnowledgeBase:
    """The small base with one statement more, whose other end is what the passages about bread speak of."""
    kb, embedder = await small_base(), FakeEmbeddingService()
    pair = RelationKey.of("ida brandt", "lund")
    await kb.graph.put_entities([Entity("lund", (("Lund", 1),), chunk_ids=("bread.md#0",), mention_count=1)])
    said = (Fragment("kell.md#0", STATEMENT),)
    await kb.graph.put_relations([Relation(pair, "Ida Brandt", "Lund", fragments=said, weight=9.0, chunk_ids=("kell.md#0",))])
    await kb.graph.put_mentions([MentionEdge("lund", "bread.md#0", "bread.md")])
    (vector,) = await embedder.embed([STATEMENT], "document")
    await kb.relation_vectors.put_many([VectorRecord(pair.id, vector)])
    return kb


async def asked(text: str, names: tuple[str, ...] = (), anchors: tuple[str, ...] = ()) -> AnalyzedQuery:
    (vector,) = await FakeEmbeddingService().embed([text], "query")
    return AnalyzedQuery(text, vector, names=names, anchors=anchors)


async def test_the_walk_starts_from_the_ends_of_the_nearest_statement() -> None:
    index: IndexSearches = searches(await stated(), threshold=0.5)
    hits = await index.walk(await asked("In which town was Ida Brandt born?"), (), 10)
    assert {hit.id for hit in hits[:2]} == {"brandt.md#0", "bread.md#0"}
    with_name = await index.walk(await asked("In which town was Ida Brandt born?", anchors=("ida brandt",)), (), 10)
    assert "bread.md#0" in [hit.id for hit in with_name]
    without = searches(await small_base(), threshold=0.5)
    assert await without.walk(await asked("In which town was Ida Brandt born?"), (), 10) == ()


async def test_what_a_filter_hides_is_no_start() -> None:
    hidden = searches(await stated(), filter=SearchFilter(document_ids=frozenset({"river.md"})))
    assert await hidden.walk(await asked("In which town was Ida Brandt born?"), (), 10) == ()


async def test_the_passage_that_a_statement_leads_to_gains_by_its_nearness() -> None:
    index = searches(await stated())
    query = await asked("In which town was Ida Brandt born?", ("ida brandt",))
    facts = await index.entities(query)
    assert facts.relations[0].description == STATEMENT
    assert "lund" in {entity.key for entity in facts.entities}
    led = {hit.id: hit.score for hit in await index.chunks_of(facts, query)}
    unled = {hit.id: hit.score for hit in await index.chunks_of(GraphFacts(facts.entities), query)}
    common_words, asked_words, said_words = 6, 7, 9
    nearness = common_words / (asked_words * said_words) ** 0.5
    assert led["bread.md#0"] - unled["bread.md#0"] == pytest.approx(LED_TO * nearness, abs=1e-3)
    assert led["kell.md#0"] - unled["kell.md#0"] == pytest.approx(STATED * nearness, abs=1e-3)
    assert list(led.values()) == sorted(led.values(), reverse=True)
