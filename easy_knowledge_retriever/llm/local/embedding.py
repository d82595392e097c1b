"""Embeddings without a key and without a network."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.base import EmbeddingService, InputType
from easy_knowledge_retriever.llm.local.models import ENDPOINT_HINT, LOCAL_MODELS, LocalModel, described_folder
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.types import FloatVector, FloatVectors

if TYPE_CHECKING:
    from easy_knowledge_retriever.llm.local.encoder import Encoder

__all__ = ["LocalEmbeddingService"]

P = ParamSpec("P")
T = TypeVar("T")


class LocalEmbeddingService(EmbeddingService):
    """A sentence encoder that runs in this process, in worker threads.

    The vector of a text depends on the text and the model alone. An int8 encoder scales its activations by the largest
    value of whatever it is given at once, so every text is run by itself, on one thread; several texts run side by side.

    A text longer than the model's limit is read in windows of equal length, and its vector is the mean of theirs, so that
    no part of a long chunk is lost. That costs as much time as there is text, and pays: with chunks of 1,200 tokens the one
    that holds the answer came first for 60 of 100 questions, against 33 when chunks were cut off at the limit.

    Nothing is read until the first text comes. Services of one process share the loaded model.

    Args:
        model: A name of ``LOCAL_MODELS`` (``all-MiniLM-L6-v2``, English, is part of the package;
            ``multilingual-e5-small`` comes with the extra ``multilingual``), or the path of a folder with
            ``model.onnx``, ``tokenizer.json`` and ``config.json``, which is read at once.
        threads: How many texts run side by side; the number of processors if not given.

    Raises:
        ConfigError: There is no such model. That its files are missing or damaged is raised by ``embed``.
    """

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ConfigError(f"threads is {threads!r}", hint="give a number of at least 1")
        self._model = LOCAL_MODELS.get(model) or described_folder(Path(model))
        self._cache_dir = environment().cache_dir
        self._threads = threads or os.cpu_count() or 1
        self._workers = ThreadPoolExecutor(self._threads, thread_name_prefix="ekr-embedding")
        self._encoder: Encoder | None = None
        self._closed = False

    @property
    def embedding_dim(self) -> int:
        return self._model.dim

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def prefixes(self) -> tuple[str, str]:
        return self._model.query_prefix, self._model.document_prefix

    @property
    def is_pinned(self) -> bool:
        return True

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        if self._closed:
            raise RuntimeError("the embedding service is closed")
        if not texts:
            return np.empty((0, self.embedding_dim), np.float32)
        if self._encoder is None:
            self._encoder = await self._run(_load, self._model, self._cache_dir)
        encoder = self._encoder
        prefix = self._model.query_prefix if input_type == "query" else self._model.document_prefix

        async def vector(text: str) -> FloatVector:
            windows = await self._run(encoder.windows, text, prefix)
            vectors = [await self._run(encoder.vector, window) for window in windows]
            return vectors[0] if len(vectors) == 1 else _mean(vectors)

        # Twice as many as there are threads: none waits for the loop, and a question waits for few texts of an ingest.
        return np.stack(await map_bounded(vector, texts, limit=2 * self._threads))

    async def aclose(self) -> None:
        self._closed = True
        self._encoder = None
        self._workers.shutdown(wait=False)

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, lambda: function(*args, **kwargs))


def _load(model: LocalModel, cache_dir: Path) -> Encoder:
    try:
        # The runtime is slow to import, and who brings an endpoint need not have it.
        from easy_knowledge_retriever.llm.local.encoder import load  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"the runtime of local models cannot be imported: {error}", hint=ENDPOINT_HINT) from error
    return load(model, cache_dir)


def _mean(vectors: Sequence[FloatVector]) -> FloatVector:
    """The direction of the mean."""
    total: FloatVector = np.sum(vectors, axis=0)
    return total / np.linalg.norm(total)
