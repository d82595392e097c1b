from __future__ import annotations

import json
from pathlib import Path

import pytest

from easy_knowledge_retriever.llm.local.bert_onnx import encoder_graph
from tests.unit.llm.local.tiny import POSITIONS, SHAPE, WIDTH, bert_weights, word_tokenizer


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A model as a user keeps it."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(encoder_graph(bert_weights(), SHAPE))
    (folder / "tokenizer.json").write_text(json.dumps(word_tokenizer()), encoding="utf-8")
    config = {"hidden_size": WIDTH, "max_position_embeddings": POSITIONS}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
