from __future__ import annotations

import dataclasses
import inspect

import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.retrieval import HybridMixRetrieval, NaiveRetrieval, RetrievalFactory
from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.testing.fakes import FakeRerankerService


def test_the_modes_are_those_promised() -> None:
    assert set(STRATEGIES) == {"naive", "local", "global", "hybrid", "mix", "hybrid_mix", "bypass", "bm25", "graph_walk"}


@pytest.mark.parametrize("strategy", STRATEGIES.values())
def test_a_strategy_is_frozen_and_says_what_to_search_and_nothing_else(strategy: type[Retrieval]) -> None:
    made = strategy()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.top_k = 3  # type: ignore[misc]
    own = {name for name, value in vars(strategy).items() if inspect.isfunction(value) and not name.startswith("__")}
    assert own == {"search"}


@pytest.mark.parametrize("mode", STRATEGIES)
def test_a_mode_makes_its_strategy(mode: str) -> None:
    made = RetrievalFactory.create_retrieval(QueryParam(mode=mode))
    assert type(made) is STRATEGIES[mode]
    assert made == STRATEGIES[mode]()


def test_a_given_reranker_is_the_strategys() -> None:
    service = FakeRerankerService()
    assert RetrievalFactory.create_retrieval(QueryParam(mode="naive"), service) == NaiveRetrieval(reranker_service=service)


def test_an_unknown_mode_is_a_config_error_and_a_value_error() -> None:
    for kind in (ConfigError, ValueError):
        with pytest.raises(kind, match="naive, local, global"):
            RetrievalFactory.create_retrieval(QueryParam(mode="Naive"))


def test_the_defaults_of_hybrid_mix() -> None:
    made = HybridMixRetrieval()
    assert (made.k1, made.b, made.rrf_k) == (1.5, 0.75, 60)
