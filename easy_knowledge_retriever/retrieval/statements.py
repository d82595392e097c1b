"""Where a walk starts and what statements count for: the arithmetic of the graph searches.

A *statement* is a relation that is described. Those nearest to a question lead to what it only points at: of "In which county is
the birthplace of Ida Brandt?" one says where she was born, and its other end is what the next passage is about.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.operations.indexing import ABOUT_HEADING
from easy_knowledge_retriever.types import GraphFacts, Hit, MentionEdge, RelationKey, Subgraph

__all__ = ["FOLLOWED", "even", "evidence_of", "seed_weights", "start_weights", "teleport"]

PASSAGE_SHARE = 0.01
"""Weight of the best chunk as a start beside a name of the question."""
SEED_CHUNKS = 5
"""Best hits of each seed ranking that the walk starts from: few, for a wrong start spreads."""
FOLLOWED = 4
"""Statements nearest to the question whose ends are followed: they may be what the question only points at."""
STATED = 0.3
"""Share of the similarity of a statement that counts for a chunk which makes it."""
LED_TO = 0.5
"""Share that counts for the chunks of its end, less where the end is in many."""
FACT_SHARE = 0.5
"""Weight of the best statement as a start beside a name of the question, at cosine 1."""


def evidence_of(facts: GraphFacts, nearness: Mapping[RelationKey, float], names: Collection[str]) -> dict[str, float]:
    """What statements add to the score of a chunk: the most that one of them does.

    Args:
        facts: Found for a question.
        nearness: Similarity of statements among them with the question, nearest first.
        names: Entity keys the question names: a statement leads to its other end.
    """
    relations = {relation.key: relation for relation in facts.relations}
    entities = {entity.key: entity for entity in facts.entities}
    evidence: dict[str, float] = {}
    for rank, (pair, similarity) in enumerate(nearness.items()):
        led_to = [entities[end] for end in pair if end in entities and end not in names] if rank < FOLLOWED else []
        rows = [(relations[pair].chunk_ids, STATED)]
        rows += [(entity.chunk_ids, LED_TO / math.sqrt(len(entity.chunk_ids))) for entity in led_to if entity.chunk_ids]
        for chunk_ids, share in rows:
            for chunk_id in chunk_ids:
                evidence[chunk_id] = max(evidence.get(chunk_id, 0.0), share * similarity)
    return evidence


def seed_weights(seeds: Sequence[Sequence[Hit]]) -> dict[str, float]:
    """The best chunks of each ranking as starts."""
    weights: dict[str, float] = {}
    for ranking in seeds:
        for rank, hit in enumerate(ranking[:SEED_CHUNKS], start=1):
            weights[hit.id] = weights.get(hit.id, 0.0) + 1 / rank
    return weights


def start_weights(
    anchors: Sequence[str], facts: Mapping[str, float], names: Mapping[str, Sequence[MentionEdge]]
) -> dict[str, float]:
    """The entities that a walk starts from: the names of the question and the ends of statements, rarer ones more."""
    weights: dict[str, float] = {}
    for key, weight in (*dict.fromkeys(anchors, 1.0).items(), *((key, FACT_SHARE * w) for key, w in facts.items())):
        if weight > 0 and names.get(key):
            weights[key] = weights.get(key, 0.0) + weight / len(names[key])
    return weights


def even(graph: Subgraph) -> Subgraph:
    """The graph with no relation drawing a walk more than the heaviest mention does, on whatever scale a model weighs."""
    chunks = len(graph.chunk_ids)
    between = (graph.first >= chunks) & (graph.second >= chunks)
    return replace(graph, weight=np.where(between, np.minimum(graph.weight, ABOUT_HEADING), graph.weight))


def teleport(graph: Subgraph, chunks: Mapping[str, float], starts: Mapping[str, float]) -> NDArray[np.float64]:
    """Where the walk starts: entities, and the best chunks."""
    start = np.zeros(graph.size)
    places = {chunk_id: i for i, chunk_id in enumerate(graph.chunk_ids)}
    for chunk_id, weight in chunks.items():
        start[places[chunk_id]] += PASSAGE_SHARE * weight
    places = {key: i for i, key in enumerate(graph.entity_keys, start=len(graph.chunk_ids))}
    for key, weight in starts.items():
        if key in places:
            start[places[key]] += weight
    return start
