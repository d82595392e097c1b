"""Ranking of the nodes of a graph by personalised PageRank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.types import Subgraph

__all__ = ["personalised_pagerank"]


def personalised_pagerank(
    subgraph: Subgraph,
    teleport: NDArray[np.float64],
    *,
    damping: float = 0.5,
    iterations: int = 30,
    tolerance: float = 1e-9,
) -> NDArray[np.float64]:
    """Stationary distribution of a walk that goes along an edge with probability ``damping`` and else teleports.

    ``p = (1 - damping) * t + damping * W p`` by power iteration, where t is the normalised teleport vector and column j
    of W holds the edge weights at node j divided by their sum. Weight that would leave a node without edges teleports.

    Args:
        subgraph: Nodes and undirected, weighted edges.
        teleport: Shape (size,), not negative; where the walk starts and restarts. All zero gives all zero.
        damping: Between 0 (never leaves the start) and 1, exclusive.
        iterations: At most so many.
        tolerance: Ends when the scores change by less, summed.

    Returns:
        Shape (size,): scores that sum to 1.

    References:
        Page, Brin, Motwani, Winograd: The PageRank citation ranking. 1999. Haveliwala: Topic-sensitive PageRank. WWW 2002.
    """
    total = teleport.sum()
    if not subgraph.size or total <= 0:
        return np.zeros(subgraph.size)
    start = teleport / total
    source = np.concatenate([subgraph.first, subgraph.second])
    target = np.concatenate([subgraph.second, subgraph.first])
    weight = np.concatenate([subgraph.weight, subgraph.weight]).astype(np.float64)
    out = np.bincount(source, weights=weight, minlength=subgraph.size)
    transition = weight / out[source]
    dangling = out == 0
    scores: NDArray[np.float64] = start
    for _ in range(iterations):
        flow: NDArray[np.float64] = np.bincount(target, weights=transition * scores[source], minlength=subgraph.size).astype(
            np.float64
        )
        flow += scores[dangling].sum() * start
        following = (1 - damping) * start + damping * flow
        change = np.abs(following - scores).sum()
        scores = following
        if change < tolerance:
            break
    return scores
