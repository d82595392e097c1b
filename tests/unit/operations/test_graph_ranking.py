from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.graph_ranking import personalised_pagerank
from easy_knowledge_retriever.types import Subgraph


def graph(nodes: int, edges: list[tuple[int, int, float]]) -> Subgraph:
    first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
    return Subgraph(
        tuple(f"c{i}" for i in range(nodes)),
        (),
        np.array(first, np.int32),
        np.array(second, np.int32),
        np.array(weight, np.float32),
    )


def start_at(node: int, nodes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    teleport = np.zeros(nodes)
    teleport[node] = 1
    return teleport


def test_two_nodes_by_hand() -> None:
    """p0 = (1 - d) + d * p1 and p1 = d * p0 give p0 = 1 / (1 + d)."""
    scores = personalised_pagerank(graph(2, [(0, 1, 1.0)]), start_at(0, 2), damping=0.5, iterations=100)
    assert scores == pytest.approx([2 / 3, 1 / 3])


def test_heavier_edges_carry_more() -> None:
    """From the middle, d = 0.5: p1 = d * p0 * 3/4 and p2 = d * p0 * 1/4 with p0 = 2/3."""
    scores = personalised_pagerank(graph(3, [(0, 1, 3.0), (0, 2, 1.0)]), start_at(0, 3), damping=0.5, iterations=100)
    assert scores == pytest.approx([2 / 3, 1 / 4, 1 / 12])


def test_what_cannot_be_reached_scores_nothing() -> None:
    scores = personalised_pagerank(graph(4, [(0, 1, 1.0), (2, 3, 1.0)]), start_at(0, 4))
    assert scores[2:] == pytest.approx([0, 0])


def test_a_start_without_edges_keeps_everything() -> None:
    assert personalised_pagerank(graph(3, [(1, 2, 1.0)]), start_at(0, 3)) == pytest.approx([1, 0, 0])


@pytest.mark.parametrize("nodes", [0, 3])
def test_nowhere_to_start_gives_zeros(nodes: int) -> None:
    assert personalised_pagerank(graph(nodes, []), np.zeros(nodes)).tolist() == [0.0] * nodes


EDGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0.125, 8, width=32)).filter(lambda e: e[0] != e[1]), max_size=20
)


@given(edges=EDGES, start=st.integers(0, 7), damping=st.floats(0.05, 0.9))
def test_scores_are_a_distribution_and_repeat_exactly(edges: list[tuple[int, int, float]], start: int, damping: float) -> None:
    one = personalised_pagerank(graph(8, edges), start_at(start, 8), damping=damping)
    assert one.sum() == pytest.approx(1)
    assert (one >= 0).all()
    assert one[start] >= (1 - damping) * (1 - 1e-9)
    assert (one == personalised_pagerank(graph(8, edges), start_at(start, 8), damping=damping)).all()
