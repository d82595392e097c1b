"""How much of what is wanted is there: shares of terms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["coverage", "idf_of"]


def idf_of(texts: Iterable[Sequence[str]]) -> dict[str, float]:
    """Inverse document frequency of each term over some texts, ``ln(1 + N / n)``."""
    sets = [set(terms) for terms in texts]
    counts = Counter(term for terms in sets for term in terms)
    return {term: math.log1p(len(sets) / count) for term, count in counts.items()}


def coverage(wanted: Iterable[str], held: Iterable[str], idf: Mapping[str, float]) -> float:
    """Share of the wanted terms that are held, weighted by idf; a term no text holds weighs as much as the rarest."""
    rarest = max(idf.values(), default=1.0)
    weights = {term: idf.get(term, rarest) for term in wanted}
    there = set(held)
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in there) / total if total else 0.0
