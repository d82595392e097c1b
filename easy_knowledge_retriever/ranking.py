"""Fusion of rankings: pure functions over ids, best first."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

__all__ = ["interleave", "min_rank", "reciprocal_rank_fusion"]

Id = TypeVar("Id", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Id]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Id, float]]:
    """Ids by the sum of ``weight / (k + rank)`` over the rankings that hold them, best first.

    Ties keep the order of first appearance, reading the rankings one after the other.

    Args:
        rankings: Each without duplicates; rank 1 is first.
        k: Larger values flatten the difference between ranks.
        weights: One a ranking; all 1 if not given.

    References:
        Cormack, Clarke, Büttcher: Reciprocal rank fusion outperforms Condorcet and individual rank learning methods. SIGIR 2009.
    """
    scores: dict[Id, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weight / (k + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])


def min_rank(rankings: Sequence[Sequence[Id]], weights: Sequence[float] | None = None) -> list[Id]:
    """Ids by the best rank any ranking gives them, best first; ties keep the order of the rankings.

    Also known as CombMAX over ranks: a noisy list cannot push a good item down by more than one place per list.

    Args:
        rankings: Each without duplicates.
        weights: One a ranking, all 1 if not given; a ranking of weight 2 gives two items for one of weight 1.

    References:
        Fox, Shaw: Combination of multiple searches. TREC-2, 1994.
    """
    best: dict[Id, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, item in enumerate(ranking):
            best[item] = min(rank / weight, best.get(item, math.inf))
    return sorted(best, key=lambda item: best[item])


def interleave(rankings: Iterable[Sequence[Id]]) -> list[Id]:
    """The first of each ranking, then the second of each, and so on; an id already taken is skipped."""
    lists = [list(ranking) for ranking in rankings]
    taken: dict[Id, None] = {}
    for rank in range(max(map(len, lists), default=0)):
        for items in lists:
            if rank < len(items):
                taken.setdefault(items[rank])
    return list(taken)
