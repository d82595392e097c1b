"""The graph against the same network written down in numpy, in double precision and without quantisation."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from easy_knowledge_retriever.llm.local.bert_onnx import encoder_graph
from tests.unit.llm.local.tiny import SHAPE, bert_weights

Array = NDArray[np.float64]


def _layer_norm(x: Array, weights: dict[str, Array], name: str) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + SHAPE.layer_norm_eps)
    scaled: Array = centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return scaled


def _linear(x: Array, weights: dict[str, Array], name: str) -> Array:
    product: Array = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return product


def _gelu(x: Array) -> Array:
    erf: Array = np.vectorize(math.erf)(x / math.sqrt(2))
    return x / 2 * (1 + erf)


def reference(single: dict[str, NDArray[np.float32]], ids: list[int]) -> Array:
    weights = {name: array.astype(np.float64) for name, array in single.items()}
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = _layer_norm(x, weights, "embeddings.LayerNorm")
    for layer in range(SHAPE.layers):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            np.stack(np.split(_linear(x, weights, f"{name}.attention.self.{part}"), SHAPE.heads, axis=1))
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        heads = scores / scores.sum(axis=-1, keepdims=True) @ value
        attended = _linear(np.concatenate(list(heads), axis=1), weights, f"{name}.attention.output.dense")
        x = _layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm")
        inner = _gelu(_linear(x, weights, f"{name}.intermediate.dense"))
        x = _layer_norm(x + _linear(inner, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm")
    mean = x.mean(axis=0)
    unit: Array = mean / np.linalg.norm(mean)
    return unit


def _run(model: bytes, ids: list[list[int]], mask: list[list[int]]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feed = {"input_ids": np.array(ids, np.int64), "attention_mask": np.array(mask, np.int64)}
    (output,) = session.run(["sentence_embedding"], feed)
    rows: NDArray[np.float32] = output
    return rows


@pytest.mark.parametrize("ids", [[2, 3], [2, 7, 3], [2, 8, 9, 10, 7, 3]])
def test_the_graph_computes_the_network(ids: list[int]) -> None:
    weights = bert_weights()
    (row,) = _run(encoder_graph(weights, SHAPE), [ids], [[1] * len(ids)])
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)
    # Seven bits a weight and eight an activation: the direction is off by a few degrees, any mistake by far more.
    assert float(row @ reference(weights, ids)) > 0.995


def test_padding_does_not_count() -> None:
    model = encoder_graph(bert_weights(), SHAPE)
    (alone,) = _run(model, [[2, 7, 8, 3]], [[1, 1, 1, 1]])
    (padded,) = _run(model, [[2, 7, 8, 3, 10, 10]], [[1, 1, 1, 1, 0, 0]])
    assert float(alone @ padded) > 0.999


def test_the_same_weights_give_the_same_bytes() -> None:
    assert encoder_graph(bert_weights(), SHAPE) == encoder_graph(bert_weights(), SHAPE)
    assert encoder_graph(bert_weights(), SHAPE) != encoder_graph(bert_weights(seed=8), SHAPE)


def test_rows_and_columns_of_zeros_stay_zero() -> None:
    weights = bert_weights()
    weights["embeddings.word_embeddings.weight"][7] = 0
    weights["encoder.layer.0.output.dense.weight"][0] = 0
    (row,) = _run(encoder_graph(weights, SHAPE), [[2, 7, 3]], [[1, 1, 1]])
    assert float(row @ reference(weights, [2, 7, 3])) > 0.995
