"""Embeddings kept between runs: the same text is embedded once, however often a measurement is repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from easy_knowledge_retriever.llm.base import EmbeddingService, InputType
from easy_knowledge_retriever.types import FloatVector, FloatVectors

__all__ = ["CachedEmbeddings", "text_key"]


def text_key(text: str, input_type: InputType) -> str:
    """What a text's vector is kept under."""
    return hashlib.blake2b(f"{input_type}\n{text}".encode(), digest_size=16).hexdigest()


class CachedEmbeddings(EmbeddingService):
    """A service that asks another one only for what it has not seen.

    Args:
        service: Embeds what is new.
        folder: Holds one file of vectors and one of keys for each model.
    """

    def __init__(self, service: EmbeddingService, folder: Path) -> None:
        self._service = service
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(service.fingerprint.encode(), digest_size=8).hexdigest()
        self._keys_file, self._vectors_file = folder / f"{name}.keys", folder / f"{name}.f32"
        keys = self._keys_file.read_text("ascii").split() if self._keys_file.exists() else []
        self._rows = {key: row for row, key in enumerate(keys)}
        self._vectors: list[FloatVector] = []
        if keys:
            self._vectors = list(np.fromfile(self._vectors_file, np.float32).reshape(-1, service.embedding_dim)[: len(keys)])

    @property
    def embedding_dim(self) -> int:
        return self._service.embedding_dim

    @property
    def fingerprint(self) -> str:
        return self._service.fingerprint

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        if not texts:
            return np.empty((0, self.embedding_dim), np.float32)
        keys = [text_key(text, input_type) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if missing:
            self._add(list(missing), await self._service.embed(list(missing.values()), input_type))
        return np.stack([self._vectors[self._rows[key]] for key in keys])

    async def aclose(self) -> None:
        await self._service.aclose()

    def _add(self, keys: Sequence[str], vectors: FloatVectors) -> None:
        fresh = [(key, vector) for key, vector in zip(keys, vectors, strict=True) if key not in self._rows]
        with self._vectors_file.open("ab") as file:
            file.write(b"".join(vector.astype(np.float32).tobytes() for _, vector in fresh))
        with self._keys_file.open("a", encoding="ascii") as file:
            file.write("".join(f"{key}\n" for key, _ in fresh))
        for key, vector in fresh:
            self._rows[key] = len(self._vectors)
            self._vectors.append(vector)
