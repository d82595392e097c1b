"""Fusion of what several searches found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from easy_knowledge_retriever.ranking import interleave, min_rank, reciprocal_rank_fusion
from easy_knowledge_retriever.types import GraphFacts, Hit

__all__ = ["fuse_hits", "interleave_hits", "join_hits", "merge_facts", "share_places"]


def interleave_hits(*rankings: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits of several rankings taken in turns; each keeps the score of the ranking it was first seen in."""
    scores = {hit.id: hit.score for ranking in reversed(rankings) for hit in ranking}
    order = interleave([[hit.id for hit in ranking] for ranking in rankings])
    return tuple(Hit(item, scores[item]) for item in order)


def fuse_hits(stages: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], k: int) -> tuple[Hit, ...]:
    """The hits of several rankings by reciprocal rank fusion.

    Args:
        stages: Name of each search with its hits.
        weights: What a vote of each search counts.
        k: See :func:`ranking.reciprocal_rank_fusion`.
    """
    rankings = [[hit.id for hit in hits] for hits in stages.values()]
    fused = reciprocal_rank_fusion(rankings, k, [weights[name] for name in stages])
    return tuple(Hit(item, score) for item, score in fused)


def join_hits(*weighted: tuple[Sequence[Hit], float]) -> tuple[Hit, ...]:
    """The hits of several rankings by the best rank any gives them; the score is one over the new rank.

    Args:
        weighted: Each ranking with its weight, see :func:`ranking.min_rank`.
    """
    order = min_rank([[hit.id for hit in hits] for hits, _ in weighted], [weight for _, weight in weighted])
    return tuple(Hit(item, 1 / rank) for rank, item in enumerate(order, start=1))


def share_places(ranked: Sequence[str], parts: Sequence[Collection[str]]) -> list[str]:
    """A ranking in which the parts of a question take turns, each with its own hits in the order given.

    Args:
        ranked: Ids, best first.
        parts: What each part found. An id that none of them found, such as a following chunk, may come in any turn.
    """
    found = {item for part in parts for item in part}
    return interleave([[item for item in ranked if item in part or item not in found] for part in parts])


def merge_facts(*parts: GraphFacts) -> GraphFacts:
    """The facts of several searches taken in turns, each once."""
    entities = {entity.key: entity for part in parts for entity in part.entities}
    relations = {relation.key: relation for part in parts for relation in part.relations}
    return GraphFacts(
        tuple(entities[key] for key in interleave([[entity.key for entity in part.entities] for part in parts])),
        tuple(relations[key] for key in interleave([[relation.key for relation in part.relations] for part in parts])),
    )
