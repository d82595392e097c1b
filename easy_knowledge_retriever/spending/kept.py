"""What was paid for during one ingest and is not durable yet: it is written beside the work, and no attempt pays for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import FloatVector, FloatVectors

__all__ = ["KeptReplies", "KeptVectors"]


class KeptReplies:
    """Replies about one document, for the cache.

    Args:
        document_id: The document; the cache sees a digest of it.
    """

    def __init__(self, document_id: str) -> None:
        self.owner = digest(document_id)[:_OWNER]
        self.used: set[str] = set()
        """Keys of what this ingest asked for, found or not."""
        self.unsaved: dict[str, Mapping[str, str | int]] = {}

    def key(self, request: str) -> str:
        """What the reply to a request is kept under."""
        return f"{self.owner}/{request}"

    def keep(self, rows: Mapping[str, Mapping[str, str | int]]) -> None:
        """Takes replies, by their requests."""
        fresh = {self.key(request): row for request, row in rows.items()}
        self.unsaved |= fresh
        self.used.update(fresh)

    def saved(self, keys: Iterable[str]) -> None:
        """Notes what is durable now."""
        for key in keys:
            self.unsaved.pop(key, None)


_OWNER: Final = 24


class KeptVectors:
    """Text → vector, for the texts of one document."""

    def __init__(self) -> None:
        self._known: dict[str, FloatVector] = {}
        self.unsaved: dict[str, FloatVector] = {}
        """What an interrupted ingest would lose."""

    def load(self, vectors: Mapping[str, FloatVector]) -> None:
        """Takes what an earlier attempt saved."""
        self._known.update(vectors)

    @staticmethod
    def key(fingerprint: str, text: str) -> str:
        """What a text is kept under: another model makes another vector."""
        return digest(f"{fingerprint}\n{text}")

    def missing(self, keys: Sequence[str]) -> list[int]:
        """Places of the keys that are not known."""
        return [place for place, key in enumerate(keys) if key not in self._known]

    def keep(self, keys: Sequence[str], vectors: FloatVectors) -> None:
        """Takes what was just paid for."""
        fresh = dict(zip(keys, vectors, strict=True))
        self._known |= fresh
        self.unsaved |= fresh

    def saved(self, keys: Iterable[str]) -> None:
        """Notes what is durable now."""
        for key in keys:
            self.unsaved.pop(key, None)

    def all(self, keys: Sequence[str]) -> FloatVectors:
        """The vectors of known keys, in order."""
        return np.stack([self._known[key] for key in keys])
