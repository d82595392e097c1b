"""Every base that a test fills is verified before it is closed, or when the test ends: a test need not think of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.verification import Finding, verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.settings import Settings

__all__ = ["Verified"]


class Verified:
    """Watches the bases that documents are taken into.

    Args:
        patch: Undoes what is put in the place of methods.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._settings: dict[int, tuple[KnowledgeBase, Settings]] = {}
        self._open: dict[int, KnowledgeBase] = {}
        self.findings: list[Finding] = []
        begin, open_base, close_base, watched = Ingestion.__init__, KnowledgeBase.open, KnowledgeBase.close, self

        def begun(self: Ingestion, kb: KnowledgeBase, settings: Settings, *others: Any, **named: Any) -> None:
            begin(self, kb, settings, *others, **named)
            watched._settings[id(kb)] = (kb, settings)

        async def opened(self: KnowledgeBase) -> None:
            await open_base(self)
            watched._open[id(self)] = self

        async def closed(self: KnowledgeBase) -> None:
            try:
                if watched._open.pop(id(self), None) is not None:
                    await watched._look(self)
            finally:
                await close_base(self)

        patch.setattr(Ingestion, "__init__", begun)
        patch.setattr(KnowledgeBase, "open", opened)
        patch.setattr(KnowledgeBase, "close", closed)

    async def look_at_open(self) -> None:
        """Verifies what was not closed."""
        for kb in self._open.values():
            await self._look(kb)

    async def _look(self, kb: KnowledgeBase) -> None:
        _, settings = self._settings.get(id(kb), (kb, None))
        if settings is not None:
            with suppress(StorageError):  # one that cannot be read any more, which is what its test is about
                self.findings += (await verify(kb, deep=True, settings=settings)).findings
