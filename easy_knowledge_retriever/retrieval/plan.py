"""What one question asks for, resolved: options of the strategy over those of ``QueryParam`` over the retriever's settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.budget import TokenBudget
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import SearchFilter

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A question's options with nothing left open."""

    strategy: Retrieval
    top_k: int
    chunk_top_k: int
    budget: TokenBudget
    low_keywords: tuple[str, ...]
    high_keywords: tuple[str, ...]
    history: tuple[Mapping[str, str], ...]
    reranker: RerankerService | None
    decompose: bool
    follow: int
    filter: SearchFilter
    config_hash: str = ""
    """Digest of the options above, the settings and the embedding model: with equal hashes the same base gives the same
    question the same context."""


def make_plan(
    settings: Settings, param: QueryParam, strategy: Retrieval, reranker: RerankerService | None, fingerprint: str
) -> Plan:
    """The plan of one question.

    Args:
        settings: Of the retriever.
        param: Of this question.
        strategy: Named by the mode, or given.
        reranker: Of the retriever.
        fingerprint: Of the embedding model.

    Raises:
        ConfigError: A number is below 1 (``follow`` below 0), or the history is not made of role and content.
    """
    used = strategy.reranker_service or reranker if strategy.enable_rerank and param.enable_rerank else None
    budget = TokenBudget(
        entities=_graph_budget("max_entity_tokens", settings, param, strategy),
        relations=_graph_budget("max_relation_tokens", settings, param, strategy),
        total=_number("max_total_tokens", settings, param, strategy),
    )
    follow = strategy.follows if strategy.follow is None else strategy.follow
    if follow < 0:
        raise ConfigError(f"follow is {follow!r}", hint="give a number of at least 0")
    plan = Plan(
        strategy=strategy,
        top_k=_number("top_k", settings, param, strategy),
        chunk_top_k=_number("chunk_top_k", settings, param, strategy),
        budget=budget,
        low_keywords=_keywords("ll_keywords", param, strategy),
        high_keywords=_keywords("hl_keywords", param, strategy),
        history=_history(strategy.conversation_history or param.conversation_history, param.history_turns),
        reranker=used,
        decompose=strategy.query_decomposition or param.query_decomposition,
        follow=follow,
        filter=param.filter,
    )
    return replace(plan, config_hash=_digest(settings, plan, fingerprint))


def _chosen(name: str, param: QueryParam, strategy: Retrieval) -> int | None:
    value: int | None = getattr(strategy, name, None)
    return getattr(param, name) if value is None else value


def _number(name: str, settings: Settings, param: QueryParam, strategy: Retrieval) -> int:
    value = _chosen(name, param, strategy)
    if value is None:
        value = int(getattr(settings, name))
    if value < 1:
        raise ConfigError(f"{name} is {value!r}", hint="give a number of at least 1")
    return value


def _graph_budget(name: str, settings: Settings, param: QueryParam, strategy: Retrieval) -> int:
    if _chosen(name, param, strategy) is None:
        return int(getattr(settings, name) * strategy.graph_share)
    return _number(name, settings, param, strategy)


def _keywords(name: str, param: QueryParam, strategy: Retrieval) -> tuple[str, ...]:
    given = getattr(strategy, name, ()) or getattr(param, name)
    return tuple(word.strip() for word in given if word.strip())


def _history(turns: Sequence[Mapping[str, str]], last: int) -> tuple[Mapping[str, str], ...]:
    """The last ``last`` turns (a question and its answer), or all."""
    if last < 0:
        raise ConfigError(f"history_turns is {last!r}", hint="0 means all of them")
    for turn in turns:
        if not all(isinstance(turn.get(name), str) for name in ("role", "content")):
            raise ConfigError("a turn of the conversation cannot be used", hint="give a role and a content, both text")
    questions = [position for position, turn in enumerate(turns) if turn["role"] == "user"]
    start = questions[-last] if 0 < last <= len(questions) else 0
    return tuple(turns[start:])


def _digest(settings: Settings, plan: Plan, fingerprint: str) -> str:
    """Digest of the resolved options, so that a mode and its strategy object have the same."""
    strategy = plan.strategy
    shared = {spec.name for spec in fields(Retrieval)} | {"ll_keywords", "hl_keywords"}
    own = {spec.name: getattr(strategy, spec.name) for spec in fields(strategy) if spec.name not in shared | _BUDGETS}
    resolved = {spec.name: getattr(plan, spec.name) for spec in fields(plan) if spec.name not in _NOT_HASHED}
    parts = [asdict(settings), strategy.mode, own, resolved, type(plan.reranker).__name__, fingerprint]
    return hashlib.blake2b(json.dumps(parts, sort_keys=True, default=_plain).encode(), digest_size=8).hexdigest()


_BUDGETS = {"max_entity_tokens", "max_relation_tokens"}
_NOT_HASHED = {"strategy", "reranker", "history", "config_hash"}


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {spec.name: getattr(value, spec.name) for spec in fields(value)}
    return sorted(map(str, value)) if isinstance(value, (frozenset, set)) else str(value)
