"""Load a sentence encoder once a process and run it on one text at a time."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tokenizers
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as failures

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.local.built import built_files
from easy_knowledge_retriever.llm.local.models import ENDPOINT_HINT, LocalModel, verified
from easy_knowledge_retriever.types import FloatVector

__all__ = ["Encoder", "load"]

TokenIds = NDArray[np.int64]

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

# A loaded model never changes and costs memory, so services share it for as long as one of them holds it.
_loaded: weakref.WeakValueDictionary[tuple[str, str], Encoder] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def load(model: LocalModel, cache_dir: Path) -> Encoder:
    """The encoder of a model, shared within the process. Blocks while it loads.

    Args:
        model: Which model.
        cache_dir: Where a model that is built on this machine is kept.

    Raises:
        ConfigError: Its files are missing, damaged or not a sentence encoder, or a package is missing.
    """
    key = (model.fingerprint, str(model.folder or cache_dir))
    with _loading:
        encoder = _loaded.get(key)
        if encoder is None:
            graph, tokenizer = _files(model, cache_dir)
            encoder = _loaded[key] = Encoder(_session(graph, model), _tokenizer(tokenizer, model), model)
        return encoder


def _files(model: LocalModel, cache_dir: Path) -> tuple[bytes, bytes]:
    if model.folder is None:
        return built_files(model, cache_dir)
    graph, tokenizer = (verified(model.folder / file.name, file.sha256) for file in model.files)
    return graph, tokenizer


def _session(graph: bytes, model: LocalModel) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # One thread a run: the caller runs several texts side by side, and a fixed split of the work fixes the result.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Every text has its own length; a memory plan kept for each of them would only grow.
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except (
        failures.Fail,
        failures.InvalidArgument,
        failures.InvalidGraph,
        failures.InvalidProtobuf,
        failures.NotImplemented,
        failures.RuntimeException,
    ) as error:
        raise ConfigError(f"onnxruntime cannot load {model.source!r}: {error}", hint=ENDPOINT_HINT) from error


def _tokenizer(content: bytes, model: LocalModel) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"tokenizers cannot load {model.source!r}: {error}", hint=ENDPOINT_HINT) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True, slots=True)
class _Specials:
    """The ids a tokenizer puts before and behind every text."""

    before: list[int]
    behind: list[int]


class Encoder:
    """A loaded model. Its methods block and may be called from any thread."""

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: tokenizers.Tokenizer, model: LocalModel) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._model = model
        self._inputs = frozenset(part.name for part in session.get_inputs())
        outputs = session.get_outputs()
        if not self._inputs <= _INPUTS or len(outputs[0].shape) not in (2, 3) or outputs[0].shape[-1] != model.dim:
            raise ConfigError(
                f"{model.source!r} is not a sentence encoder: it takes {sorted(self._inputs)} "
                f"and gives {outputs[0].name!r} of shape {outputs[0].shape}",
                hint=f"expected inputs are among {sorted(_INPUTS)}, and a last axis of {model.dim}",
            )
        self._output = outputs[0].name
        self._specials = _specials(tokenizer)

    def windows(self, text: str, prefix: str) -> list[TokenIds]:
        """Token ids of a text, cut into as few windows of equal length as the model's limit allows.

        Args:
            text: Anything, of any length.
            prefix: Put before the text, and before every window of it.
        """
        # What cannot be written as UTF-8 (half of a surrogate pair) cannot be tokenised either.
        whole = (prefix + text).encode("utf-8", "replace").decode("utf-8")
        encoding = self._tokenizer.encode(whole, add_special_tokens=False)
        ids: list[int] = encoding.ids
        room = self._model.max_tokens - len(self._specials.before) - len(self._specials.behind)
        if len(ids) <= room:
            return [self._window(ids)]
        prefix_end = len(prefix.rstrip())
        start = sum(1 for _, end in encoding.offsets[: len(prefix)] if end <= prefix_end)
        count = -(-(len(ids) - start) // (room - start))
        parts = np.array_split(np.asarray(ids[start:], np.int64), count)
        return [self._window([*ids[:start], *part.tolist()]) for part in parts]

    def vector(self, window: TokenIds) -> FloatVector:
        """The unit vector of one window."""
        feed: dict[str, Any] = {"input_ids": window[None, :]}
        if "attention_mask" in self._inputs:
            feed["attention_mask"] = np.ones_like(feed["input_ids"])
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = np.zeros_like(feed["input_ids"])
        (output,) = self._session.run([self._output], feed)
        row: FloatVector = np.asarray(output[0], dtype=np.float32)
        if row.ndim == 2:
            row = row[0] if self._model.pooling == "cls" else row.mean(axis=0)
        vector: FloatVector = row / np.linalg.norm(row)
        return vector

    def _window(self, ids: list[int]) -> TokenIds:
        return np.array([*self._specials.before, *ids, *self._specials.behind], np.int64)


def _specials(tokenizer: tokenizers.Tokenizer) -> _Specials:
    encoding = tokenizer.encode("a")
    text = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
    return _Specials(before=encoding.ids[: text[0]], behind=encoding.ids[text[-1] + 1 :])
