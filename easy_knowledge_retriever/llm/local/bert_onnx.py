"""Write a BERT sentence encoder as an ONNX graph with int8 weights.

The graph takes token ids and an attention mask and gives one unit vector a text: embedding lookup, transformer layers
(Devlin et al. 2019, post-norm, exact GELU), the mean over the tokens under the mask (Reimers & Gurevych 2019) and L2
normalisation, all inside, so that whoever runs it needs a tokenizer and nothing else.

Matrices are quantised a column, the word table a row; activations as they come ("dynamic" quantisation, Jacob et al. 2018).
Matrices keep 7 of the 8 bits: processors without VNNI add pairs of products in 16 bits, where 255 · 64 · 2 is the most that
does not saturate. So the integer products are exact, and the same on every processor.

Only the export and the multilingual extra come here: the module needs the package ``onnx``, which running a model does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
IR_VERSION = 10
"""The oldest file format that knows the opset: older runtimes can still read the file."""

MATRIX_LEVELS = np.float32(64)
WORD_LEVELS = np.float32(127)
MASKED = np.finfo(np.float32).min


@dataclass(frozen=True, slots=True)
class BertShape:
    """What the weights alone do not say about an encoder."""

    layers: int
    heads: int
    layer_norm_eps: float = 1e-12


class _Graph:
    """Collects nodes and constants; every method gives the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def split(self, source: str, outputs: list[str]) -> list[str]:
        self.nodes.append(helper.make_node("Split", [source], outputs, name=f"{source}/split", axis=-1, num_outputs=len(outputs)))
        return outputs


def encoder_graph(weights: Mapping[str, NDArray[np.float32]], shape: BertShape) -> bytes:
    """Give the serialised int8 ONNX model of a BERT encoder.

    Args:
        weights: Arrays under the names of a ``transformers`` ``BertModel`` (``embeddings.word_embeddings.weight``, …).
        shape: Layers, heads and the epsilon of the layer norms.

    Returns:
        A model with the inputs ``input_ids`` and ``attention_mask`` (int64, batch × tokens) and the output
        ``sentence_embedding`` (float32, batch × dimensions, rows of length 1). The same weights give the same bytes.
    """
    graph = _Graph()
    hidden = _embeddings(graph, weights, shape)
    graph.op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    bias = _mask_bias(graph)
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    graph.constant("heads_shape", np.array([0, 0, shape.heads, width // shape.heads], np.int64))
    graph.constant("last_axis", np.array([2], np.int64))
    graph.constant("width_shape", np.array([0, 0, width], np.int64))
    for layer in range(shape.layers):
        hidden = _layer(graph, weights, shape, layer, hidden, bias)
    _pool(graph, hidden)
    tokens = ["batch", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "sentence_encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, tokens) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", width])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    return bytes(model.SerializeToString(deterministic=True))


def _embeddings(graph: _Graph, weights: Mapping[str, NDArray[np.float32]], shape: BertShape) -> str:
    # Every text is of token type 0, so its row is added to the positions once and for all.
    positions = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    levels, scales = _quantised(weights["embeddings.word_embeddings.weight"], axis=1, most=WORD_LEVELS)
    graph.constant("words", levels)
    graph.constant("word_scales", scales)
    graph.constant("positions", positions)
    graph.constant("first", np.array([0], np.int64))
    graph.constant("second", np.array([1], np.int64))
    graph.op("Gather", ["words", "input_ids"], "word_rows")
    graph.op("Gather", ["word_scales", "input_ids"], "row_scales")
    graph.op("Cast", ["word_rows"], "word_levels", to=TensorProto.FLOAT)
    graph.op("Mul", ["word_levels", "row_scales"], "word_vectors")
    graph.op("Shape", ["input_ids"], "length", start=1, end=2)
    graph.op("Slice", ["positions", "first", "length", "first"], "position_vectors")
    graph.op("Add", ["word_vectors", "position_vectors"], "embedded")
    return _layer_norm(graph, weights, shape, "embeddings.LayerNorm", "embedded")


def _mask_bias(graph: _Graph) -> str:
    graph.constant("one", np.array(1.0, np.float32))
    graph.constant("masked", np.array(MASKED, np.float32))
    graph.constant("head_and_query_axes", np.array([1, 2], np.int64))
    graph.op("Sub", ["one", "mask"], "padding")
    graph.op("Mul", ["padding", "masked"], "padding_bias")
    return graph.op("Unsqueeze", ["padding_bias", "head_and_query_axes"], "attention_bias")


def _layer(
    graph: _Graph, weights: Mapping[str, NDArray[np.float32]], shape: BertShape, layer: int, hidden: str, bias: str
) -> str:
    name = f"encoder.layer.{layer}"
    attended = _attention(graph, weights, shape, name, hidden, bias)
    projected = _linear(graph, weights, f"{name}.attention.output.dense", attended)
    graph.op("Add", [projected, hidden], f"{name}.attention.sum")
    hidden = _layer_norm(graph, weights, shape, f"{name}.attention.output.LayerNorm", f"{name}.attention.sum")
    widened = _linear(graph, weights, f"{name}.intermediate.dense", hidden)
    activated = graph.op("Gelu", [widened], f"{name}.intermediate.gelu")
    narrowed = _linear_by_peak(graph, weights, f"{name}.output.dense", activated)
    graph.op("Add", [narrowed, hidden], f"{name}.output.sum")
    return _layer_norm(graph, weights, shape, f"{name}.output.LayerNorm", f"{name}.output.sum")


def _attention(
    graph: _Graph, weights: Mapping[str, NDArray[np.float32]], shape: BertShape, name: str, hidden: str, bias: str
) -> str:
    """Multi-head scaled dot-product attention (Vaswani et al. 2017), the three projections as one product."""
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    matrices = [weights[f"{part}.weight"].T for part in parts]
    vectors = [weights[f"{part}.bias"] for part in parts]
    scale = np.float32(1 / np.sqrt(matrices[0].shape[1] // shape.heads))
    matrices[0], vectors[0] = matrices[0] * scale, vectors[0] * scale
    graph.constant(f"{name}.qkv.bias", np.concatenate(vectors))
    product = _product(graph, f"{name}.qkv", hidden, np.concatenate(matrices, axis=1))
    graph.op("Add", [product, f"{name}.qkv.bias"], f"{name}.qkv")
    query, key, value = graph.split(f"{name}.qkv", [f"{name}.query", f"{name}.key", f"{name}.value"])
    for part, axes in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3])):
        graph.op("Reshape", [part, "heads_shape"], f"{part}.heads")
        graph.op("Transpose", [f"{part}.heads"], f"{part}.ready", perm=axes)
    graph.op("MatMul", [f"{query}.ready", f"{key}.ready"], f"{name}.scores")
    graph.op("Add", [f"{name}.scores", bias], f"{name}.masked_scores")
    graph.op("Softmax", [f"{name}.masked_scores"], f"{name}.attention_weights", axis=-1)
    graph.op("MatMul", [f"{name}.attention_weights", f"{value}.ready"], f"{name}.context.heads")
    graph.op("Transpose", [f"{name}.context.heads"], f"{name}.context.merged", perm=[0, 2, 1, 3])
    return graph.op("Reshape", [f"{name}.context.merged", "width_shape"], f"{name}.context")


def _linear(graph: _Graph, weights: Mapping[str, NDArray[np.float32]], name: str, source: str) -> str:
    graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    product = _product(graph, name, source, weights[f"{name}.weight"].T)
    return graph.op("Add", [product, f"{name}.bias"], name)


def _linear_by_peak(graph: _Graph, weights: Mapping[str, NDArray[np.float32]], name: str, source: str) -> str:
    """A linear layer whose input is divided by the largest value of each token, and multiplied again behind.

    GELU leaves a few tokens with values far above the others. As int8 knows one scale a tensor, they would take the
    precision of all; dividing first gives each token a scale of its own and takes a third off the error of the encoder.
    """
    graph.op("Abs", [source], f"{name}.magnitudes")
    graph.op("ReduceMax", [f"{name}.magnitudes", "last_axis"], f"{name}.peak", keepdims=1)
    graph.op("Div", [source, f"{name}.peak"], f"{name}.relative")
    product = _product(graph, name, f"{name}.relative", weights[f"{name}.weight"].T)
    graph.op("Mul", [product, f"{name}.peak"], f"{name}.scaled")
    graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    return graph.op("Add", [f"{name}.scaled", f"{name}.bias"], name)


def _product(graph: _Graph, name: str, source: str, matrix: NDArray[np.float32]) -> str:
    """A matrix product in int8, in the sequence of nodes that runtimes know to merge into one."""
    levels, scales = _quantised(matrix, axis=0, most=MATRIX_LEVELS)
    graph.constant(f"{name}.levels", levels)
    graph.constant(f"{name}.scales", scales[0])
    activation = [f"{name}.input", f"{name}.input_scale", f"{name}.input_zero"]
    graph.nodes.append(helper.make_node("DynamicQuantizeLinear", [source], activation, name=f"{name}.quantise"))
    graph.op("MatMulInteger", [activation[0], f"{name}.levels", activation[2]], f"{name}.integers")
    graph.op("Cast", [f"{name}.integers"], f"{name}.sums", to=TensorProto.FLOAT)
    graph.op("Mul", [activation[1], f"{name}.scales"], f"{name}.scale")
    return graph.op("Mul", [f"{name}.sums", f"{name}.scale"], f"{name}.product")


def _quantised(matrix: NDArray[np.float32], axis: int, most: np.float32) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The matrix as ``levels * scales``, levels from ``-most`` to ``most``, with one scale along the axis."""
    peaks = np.abs(matrix).max(axis=axis, keepdims=True)
    scales = np.maximum(peaks, np.finfo(np.float32).tiny) / most
    return np.rint(matrix / scales).astype(np.int8), scales


def _layer_norm(graph: _Graph, weights: Mapping[str, NDArray[np.float32]], shape: BertShape, name: str, source: str) -> str:
    graph.constant(f"{name}.weight", weights[f"{name}.weight"])
    graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    inputs = [source, f"{name}.weight", f"{name}.bias"]
    return graph.op("LayerNormalization", inputs, name, axis=-1, epsilon=shape.layer_norm_eps)


def _pool(graph: _Graph, hidden: str) -> None:
    graph.op("Unsqueeze", ["mask", "last_axis"], "mask_column")
    graph.op("Mul", [hidden, "mask_column"], "kept")
    # The mean and the sum point the same way, and only the direction outlives the normalisation.
    graph.op("ReduceSum", ["kept", "second"], "pooled", keepdims=0)
    graph.op("LpNormalization", ["pooled"], "sentence_embedding", axis=-1, p=2)
