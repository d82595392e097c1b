"""Keeps the vectors of two models apart: by name and dimension, and under one name by what the model makes of three texts."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import numpy as np

from easy_knowledge_retriever.errors import EmbeddingMismatchError
from easy_knowledge_retriever.ingestion.stamps import EmbeddingStamp, Stamps, probes_of, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import FloatVectors

__all__ = ["PROBES", "SAME_MODEL", "MadeBy", "ModelGuard", "check_dimension", "model_of"]

logger = logging.getLogger("easy_knowledge_retriever")

PROBES: Final = (
    "The harbour master counts the ships at dawn.",
    "How long does a certificate stay valid?",
    "Übermorgen 42 % Regen; 明日は晴れ。",
)
"""A statement, a question, and what is not English: the model of a base makes the same of them each time."""
SAME_MODEL: Final = 0.99
"""Cosine from which two vectors of one text are taken for those of one model: what servers round is far less."""
_HINT: Final = "run 'ekr reindex' to make the vectors anew with this model, or configure the one before"


def model_of(embedding: EmbeddingService) -> EmbeddingStamp:
    """What a base keeps of the model, without what it makes of the probes."""
    return EmbeddingStamp(embedding.fingerprint, embedding.embedding_dim, embedding.prefixes)


def check_dimension(stamps: Stamps, embedding: EmbeddingService) -> None:
    """Makes sure that the vectors of a base can be compared with those of a model at all.

    Raises:
        EmbeddingMismatchError: They have another dimension.
    """
    made = stamps.embedding
    if made is not None and made.dimension != embedding.embedding_dim:
        raise EmbeddingMismatchError(_differ(made, model_of(embedding)), hint=_HINT)


def _differ(made: EmbeddingStamp, asked: EmbeddingStamp) -> str:
    return (
        f"the base was made with {made.fingerprint!r} of dimension {made.dimension}, "
        f"the model configured is {asked.fingerprint!r} of dimension {asked.dimension}"
    )


@dataclass(frozen=True, slots=True)
class MadeBy:
    """The model that made the vectors of a base."""

    fingerprint: str
    dimension: int
    is_configured: bool
    """Whether it is the one that is configured."""


class ModelGuard:
    """Tells whether a base may be searched and filled with a model.

    Args:
        kb: The base.
        embedding: The model.
        settings: Say whether another model of the same dimension is an error.
    """

    def __init__(self, kb: KnowledgeBase, embedding: EmbeddingService, settings: Settings) -> None:
        self._kb = kb
        self._embedding = embedding
        self._lenient = settings.embedding_check == "warn"
        self._turn = asyncio.Lock()
        self._known: EmbeddingStamp | None = None
        self._probed = False
        self._own: FloatVectors | None = None

    def forget(self) -> None:
        """Looks at everything anew: the base was opened again, or its vectors were made anew."""
        self._known, self._probed, self._own = None, False, None

    async def check(self, kb: KnowledgeBase | None = None) -> None:
        """Compares by name and dimension. Asks no model, and is cheap enough for each question.

        Args:
            kb: A view of the base; the base as it is if None.

        Raises:
            EmbeddingMismatchError: The vectors are of another dimension, or of another model and that is an error.
        """
        self.compare(await stamps_of(kb or self._kb))

    def compare(self, stamps: Stamps) -> None:
        """The same with stamps that were read already.

        Raises:
            EmbeddingMismatchError: As :meth:`check`.
        """
        made, asked = stamps.embedding, model_of(self._embedding)
        if made in {None, asked, self._known}:
            return
        check_dimension(stamps, self._embedding)
        self._known = made
        self._refuse(_differ(made or asked, asked))

    async def made_by(self) -> MadeBy | None:
        """The model that made the vectors; None while there are none."""
        made = (await stamps_of(self._kb)).embedding
        return MadeBy(made.fingerprint, made.dimension, made == model_of(self._embedding)) if made is not None else None

    async def probe(self) -> None:
        """Compares what the model makes of the probes with what it made of them once; asked for once an opening.

        Raises:
            EmbeddingMismatchError: It makes something else of them, and that is an error.
            UpstreamError: It could not be asked, which says nothing about its vectors.
        """
        async with self._turn:
            if self._probed or self._embedding.is_pinned:
                return
            made, stored = (await stamps_of(self._kb)).embedding, await probes_of(self._kb)
            if made is None:
                return
            if made == model_of(self._embedding) and stored is not None:
                least = float(np.min(np.sum(stored * await self._vectors(), axis=1)))
                self._probed = least >= SAME_MODEL or self._lenient
                if least < SAME_MODEL:
                    self._refuse(
                        f"{made.fingerprint!r} is not the model it was when the base was made: "
                        f"the cosine of a text with itself is {least:.2f}"
                    )
            self._probed = True

    async def stamp(self) -> EmbeddingStamp:
        """What a base keeps of the model, with what it makes of the probes.

        Raises:
            UpstreamError: It could not be asked.
        """
        model = model_of(self._embedding)
        if self._embedding.is_pinned:
            return model
        async with self._turn:
            vectors = await self._vectors()
        return EmbeddingStamp(model.fingerprint, model.dimension, model.prefixes, vectors.astype("<f4").tobytes())

    async def _vectors(self) -> FloatVectors:
        if self._own is None:
            self._own = await self._embedding.embed(PROBES, "document")
        return self._own

    def _refuse(self, message: str) -> None:
        if not self._lenient:
            raise EmbeddingMismatchError(message, hint=_HINT)
        logger.warning("%s", message)
