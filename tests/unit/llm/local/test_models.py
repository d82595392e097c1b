from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.local.encoder import load
from easy_knowledge_retriever.llm.local.models import LOCAL_MODELS, described_folder, verified
from tests.unit.llm.local.tiny import WORDS

MINILM = LOCAL_MODELS["all-MiniLM-L6-v2"]


def token_model() -> bytes:
    """A model as hubs have them: three inputs, and a vector a token (here its row of a table, and its type)."""
    table = np.zeros((len(WORDS), 32), np.float32)
    table[[2, 3, 7], [0, 1, 2]] = [3, 4, 5]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["types", "axis"], ["column"]),
        helper.make_node("Add", ["rows", "column"], ["last_hidden_state"]),
    ]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", 32])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([2], np.int64), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, [3, 4, 5]),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, [3, 4, 5]),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, [1, 0, 0]),
    ],
)
def test_vectors_of_tokens_are_pooled_as_the_folder_says(
    model_folder: Path, config: dict[str, bool] | None, expected: list[int]
) -> None:
    (model_folder / "model.onnx").write_bytes(token_model())
    if config:
        (model_folder / "1_Pooling").mkdir()
        (model_folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    encoder = load(described_folder(model_folder), model_folder)
    (window,) = encoder.windows("red", "")
    row = np.array(expected) / np.linalg.norm(expected)
    assert encoder.vector(window)[:3] == pytest.approx(row, abs=1e-6)


def test_another_pooling_is_refused(model_folder: Path) -> None:
    (model_folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": 32, "pooling_mode_max_tokens": True}
    (model_folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ConfigError, match="pooling_mode_max_tokens"):
        described_folder(model_folder)


def test_the_limit_of_a_sentence_model_goes_before_that_of_its_encoder(model_folder: Path) -> None:
    (model_folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}', encoding="utf-8")
    assert described_folder(model_folder).max_tokens == 8


@pytest.mark.parametrize("config", ["", "[]", "{}", '{"hidden_size": "32", "max_position_embeddings": 16}'])
def test_a_config_that_says_nothing_is_refused(model_folder: Path, config: str) -> None:
    (model_folder / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises(ConfigError, match="config"):
        described_folder(model_folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(model_folder: Path, name: str) -> None:
    (model_folder / name).unlink()
    with pytest.raises(ConfigError, match=name):
        described_folder(model_folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_no_model_is_refused(model_folder: Path, name: str) -> None:
    (model_folder / name).write_text('{"model": 1}', encoding="utf-8")
    with pytest.raises(ConfigError, match="OpenAIEmbeddingService"):
        load(described_folder(model_folder), model_folder)


def test_a_model_of_another_size_is_refused(model_folder: Path) -> None:
    (model_folder / "config.json").write_text('{"hidden_size": 64, "max_position_embeddings": 16}', encoding="utf-8")
    with pytest.raises(ConfigError, match="not a sentence encoder"):
        load(described_folder(model_folder), model_folder)


def test_a_file_that_changed_since_the_service_was_built_is_refused(model_folder: Path) -> None:
    model = described_folder(model_folder)
    (model_folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged"):
        load(model, model_folder)


def test_a_package_without_its_model_tells_of_endpoints(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="OpenAIEmbeddingService"):
        load(dataclasses.replace(MINILM, folder=tmp_path), tmp_path)


def test_the_shipped_files_are_the_ones_of_the_table() -> None:
    assert MINILM.folder is not None
    for file in MINILM.files:
        assert verified(MINILM.folder / file.name, file.sha256)
    assert {path.name for path in MINILM.folder.iterdir()} == {"LICENSE", "NOTICE", "model.onnx", "tokenizer.json"}
