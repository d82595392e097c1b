"""How alike two texts are by their embeddings, on a scale that means the same with every model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from easy_knowledge_retriever.types import FloatVectors

__all__ = ["PROBES", "likeness"]

PROBES = (
    "The cat slept on the warm windowsill all afternoon.",
    "Mix the flour with two eggs and a pinch of salt.",
    "Le train de huit heures est parti en retard.",
    "She painted the garden fence green last summer.",
)
"""Sentences about nothing anyone asks: what a model's cosine is worth is measured against its cosine to these."""


def likeness(texts: FloatVectors, others: FloatVectors, probes: FloatVectors) -> FloatVectors:
    """The cosine of each text with each other one, 0 where it is that of unrelated texts and 1 where they are the same.

    Args:
        texts: Vectors of length 1, shape (n, dim).
        others: The same, shape (m, dim).
        probes: Vectors of :data:`PROBES`.

    Returns:
        Shape (n, m).
    """
    floor = (texts @ probes.T).mean(axis=1, keepdims=True)
    scaled: Sequence[float] = (texts @ others.T - floor) / np.maximum(1 - floor, 1e-6)
    return np.clip(scaled, 0, 1).astype(np.float32)
