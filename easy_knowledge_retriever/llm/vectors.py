"""Reads the answer to an embedding request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from easy_knowledge_retriever.errors import BadResponse
from easy_knowledge_retriever.types import FloatVector, FloatVectors

__all__ = ["read_vectors"]


def read_vectors(reply: Mapping[str, Any], count: int, dimension: int) -> FloatVectors:
    """The vectors of a reply in the order of the inputs, each of length 1.

    Args:
        reply: The JSON object.
        count: How many texts were sent.
        dimension: Length that each vector must have.

    Raises:
        BadResponse: Anything is missing, of another length, not finite or zero; the message names the positions.
    """
    rows = reply.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise BadResponse("the embedding endpoint answered no list of vectors")
    if len(rows) != count:
        sizes = sorted({len(row["embedding"]) for row in rows if isinstance(row.get("embedding"), list)})
        of = f" of dimension {', '.join(map(str, sizes[:10]))} (expected {dimension})" if sizes and sizes != [dimension] else ""
        raise BadResponse(f"the embedding endpoint answered {len(rows)} vectors{of} for {count} texts")
    vectors = [_vector(row.get("embedding"), position) for position, row in _ordered(rows)]
    wrong = {position: len(vector) for position, vector in enumerate(vectors) if len(vector) != dimension}
    if wrong:
        found = ", ".join(map(str, sorted(set(wrong.values()))))
        raise BadResponse(
            f"the embedding endpoint answered dimension {found} at {_positions(list(wrong))}, expected {dimension}",
            hint="set embedding_dim to the dimension of the model",
        )
    return _normalised(np.stack(vectors) if vectors else np.zeros((0, dimension), np.float32))


def _ordered(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    places = [row.get("index") for row in rows]
    if all(place is None for place in places):
        return list(enumerate(rows))
    if sorted(place for place in places if isinstance(place, int)) != list(range(len(rows))):
        raise BadResponse(f"the embedding endpoint numbered its vectors {places[:20]!r}")
    return sorted(zip((int(place or 0) for place in places), rows, strict=True), key=lambda pair: pair[0])


def _vector(value: object, position: int) -> FloatVector:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
            vector = np.asarray(value, dtype=np.float32)
    except (ValueError, TypeError, OverflowError, binascii.Error) as cause:
        raise BadResponse(f"the embedding endpoint answered no numbers at position {position}") from cause
    if vector.ndim != 1:
        raise BadResponse(f"the embedding endpoint answered no vector at position {position}")
    return vector


def _normalised(vectors: FloatVectors) -> FloatVectors:
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)))
    if bad.size:
        raise BadResponse(f"the embedding endpoint answered zero or not finite vectors at {_positions(bad.tolist())}")
    result: FloatVectors = (vectors / norms).astype(np.float32)
    return result


def _positions(positions: Sequence[int]) -> str:
    shown = ", ".join(map(str, positions[:10]))
    return f"position{'s' if len(positions) > 1 else ''} {shown}{' …' if len(positions) > 10 else ''}"
