from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.budget import TokenBudget
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.retrieval import BM25Retrieval, HybridMixRetrieval, LocalRetrieval, MixRetrieval, NaiveRetrieval
from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.retrieval.plan import Plan, make_plan
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import FakeRerankerService
from easy_knowledge_retriever.types import SearchFilter

TURNS = tuple({"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant"))


def plan(strategy: Retrieval, settings: Settings | None = None, **param: object) -> Plan:
    return make_plan(settings or Settings(), QueryParam(**param), strategy, None, "model")  # type: ignore[arg-type]


def test_defaults_are_those_of_the_settings() -> None:
    made = plan(MixRetrieval(), Settings(top_k=7, chunk_top_k=3, max_total_tokens=500))
    assert (made.top_k, made.chunk_top_k, made.budget) == (7, 3, TokenBudget(6000, 8000, 500))


def test_the_graph_part_of_hybrid_mix_is_smaller_unless_told() -> None:
    assert plan(HybridMixRetrieval()).budget == TokenBudget(3000, 4000, 30000)
    assert plan(HybridMixRetrieval(max_entity_tokens=50), max_relation_tokens=60).budget == TokenBudget(50, 60, 30000)


def test_strategy_before_param_before_settings() -> None:
    assert plan(NaiveRetrieval(top_k=1), Settings(top_k=3), top_k=2).top_k == 1
    assert plan(NaiveRetrieval(), Settings(top_k=3), top_k=2).top_k == 2


def test_the_reranker_of_the_strategy_before_that_of_the_retriever() -> None:
    mine, theirs = FakeRerankerService(), FakeRerankerService()
    assert make_plan(Settings(), QueryParam(), NaiveRetrieval(), theirs, "m").reranker is theirs
    assert make_plan(Settings(), QueryParam(), NaiveRetrieval(reranker_service=mine), theirs, "m").reranker is mine
    assert make_plan(Settings(), QueryParam(enable_rerank=False), NaiveRetrieval(), theirs, "m").reranker is None


def test_keywords_are_trimmed_and_empty_ones_dropped() -> None:
    assert plan(LocalRetrieval(ll_keywords=[" salt ", ""])).low_keywords == ("salt",)
    assert plan(LocalRetrieval(), ll_keywords=["water"]).low_keywords == ("water",)


@pytest.mark.parametrize(("last", "first"), [(0, "user 0"), (1, "user 2"), (2, "user 1"), (9, "user 0")])
def test_the_last_turns_of_a_conversation(last: int, first: str) -> None:
    assert plan(NaiveRetrieval(), conversation_history=TURNS, history_turns=last).history[0]["content"] == first


def test_following_is_the_strategys_own_unless_told() -> None:
    assert (plan(HybridMixRetrieval()).follow, plan(NaiveRetrieval()).follow, plan(NaiveRetrieval(follow=2)).follow) == (1, 0, 2)
    with pytest.raises(ConfigError):
        plan(NaiveRetrieval(follow=-1))


def test_equal_wishes_have_equal_hashes_however_they_are_told() -> None:
    assert plan(NaiveRetrieval(chunk_top_k=3)).config_hash == plan(NaiveRetrieval(), chunk_top_k=3).config_hash
    assert plan(NaiveRetrieval(), only_need_context=True, stream=True).config_hash == plan(NaiveRetrieval()).config_hash


def test_what_changes_a_context_changes_the_hash() -> None:
    hashes = {
        plan(NaiveRetrieval()).config_hash,
        plan(BM25Retrieval()).config_hash,
        plan(BM25Retrieval(k1=1.2)).config_hash,
        plan(NaiveRetrieval(), Settings(related_chunk_number=6)).config_hash,
        plan(NaiveRetrieval(), filter=SearchFilter(collections=frozenset({"a"}))).config_hash,
        make_plan(Settings(), QueryParam(), NaiveRetrieval(), None, "another model").config_hash,
        make_plan(Settings(), QueryParam(), NaiveRetrieval(), FakeRerankerService(), "model").config_hash,
    }
    assert len(hashes) == 7
