"""A sentence encoder small enough to be made in a test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.llm.local.bert_onnx import BertShape

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", "passage", ":", "red", "green", "blue", "fish")
WIDTH, INNER, POSITIONS = 32, 64, 16
SHAPE = BertShape(layers=2, heads=4, layer_norm_eps=1e-5)


def bert_weights(seed: int = 7) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": normal(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": normal(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + normal(WIDTH),
        "embeddings.LayerNorm.bias": normal(WIDTH),
    }
    for layer in range(SHAPE.layers):
        name = f"encoder.layer.{layer}"
        for part, rows, columns in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            weights[f"{name}.{part}.weight"] = normal(rows, columns)
            weights[f"{name}.{part}.bias"] = normal(rows)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights[f"{name}.{part}.weight"] = 1 + normal(WIDTH)
            weights[f"{name}.{part}.bias"] = normal(WIDTH)
    return weights


def word_tokenizer() -> dict[str, object]:
    cls, sep = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ("[CLS]", "[SEP]"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    ids = {word: place for place, word in enumerate(WORDS)}
    return {
        "version": "1.0",
        # Published tokenizers come with limits of their own, which must not cut or fill a text.
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, text, sep],
            "pair": [cls, text, sep],
            "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }
