"""Port of rerankers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["RerankerService"]


class RerankerService(ABC):
    """A model that reads a question and a text together and scores how well the text answers."""

    @abstractmethod
    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """A score a text, in the order of the texts. Scores of different models are not comparable.

        Raises:
            UpstreamError: The endpoint failed.
        """

    async def aclose(self) -> None:
        """Frees its connections. A second call does nothing."""
