"""What might be one entity is suggested with its evidence, and nothing else."""

from __future__ import annotations

import numpy as np

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.merges import suggested_merges
from easy_knowledge_retriever.types import Entity, MergeSuggestion, VectorRecord
from tests.flows.ingesting_base import empty_base

NORTH, NEAR, EAST = [1.0, 0.0], [0.96, 0.28], [0.0, 1.0]


async def _base(*entities: tuple[str, str, list[float]]) -> KnowledgeBase:
    kb = await empty_base()
    await kb.graph.put_entities([Entity(name.lower(), ((name, 1),), ((kind, 1),)) for name, kind, _ in entities])
    vectors = [VectorRecord(name.lower(), np.array(vector, dtype=np.float32)) for name, _, vector in entities]
    await kb.entity_vectors.put_many(vectors)
    return kb


async def test_alike_and_kin_is_suggested() -> None:
    kb = await _base(("Lind Works", "Organization", NORTH), ("Lind Ltd", "Organization", NEAR), ("Lind Bay", "", EAST))
    assert await suggested_merges(kb, 0.9, 10) == (MergeSuggestion("Lind Ltd", "Lind Works", 0.96, "lind"),)
    assert await suggested_merges(kb, 0.97, 10) == ()
    assert len(await suggested_merges(kb, 0.0, 2)) == 2


async def test_other_kinds_other_figures_and_no_common_word_are_not() -> None:
    kb = await _base(
        ("Lind Works", "Organization", NORTH),
        ("Ida Lind", "Person", NORTH),
        ("Plant Four", "", NORTH),
        ("Rule 4 Ostrania", "", NORTH),
        ("Rule 5 Ostrania", "", NORTH),
    )
    assert await suggested_merges(kb, 0.9, 10) == ()
