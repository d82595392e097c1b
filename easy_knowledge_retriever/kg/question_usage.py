"""What questions spent, collected and written to the ledger now and then: no question waits for its own bookkeeping."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import add_question_usage
from easy_knowledge_retriever.spending.account import Account, Amount, Line

__all__ = ["QuestionUsage"]

logger = logging.getLogger("easy_knowledge_retriever")

_WRITTEN_EVERY: Final = 5.0


@dataclass(slots=True)
class _Collected:
    lines: dict[Line, Amount] = field(default_factory=dict)
    questions: int = 0

    def add(self, lines: dict[Line, Amount], questions: int) -> None:
        for line, amount in lines.items():
            self.lines[line] = self.lines.get(line, Amount()) + amount
        self.questions += questions


class QuestionUsage:
    """The accounts of questions, by mode, that are not written down yet.

    Args:
        kb: The base.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._collected: dict[str, _Collected] = {}
        self._written = time.monotonic()

    async def add(self, mode: str, account: Account) -> None:
        """Takes what a question of this mode spent since it was added last; writes if the last time is a while ago."""
        if not account.has_unwritten:
            return
        with account.writing() as unwritten:
            first = 0 if account.is_known else 1
            self._collected.setdefault(mode, _Collected()).add(unwritten(), first)
        account.is_known = True
        if time.monotonic() - self._written >= _WRITTEN_EVERY:
            await self.write()

    async def write(self) -> None:
        """Writes down everything collected. If that fails, it is said, and the next time tries again."""
        self._written = time.monotonic()
        taken, self._collected = self._collected, {}
        if not taken:
            return
        try:
            async with self._kb.transaction() as inside:
                for mode, collected in taken.items():
                    await add_question_usage(inside, mode, collected.lines, collected.questions)
        except BaseException as error:
            for mode, collected in taken.items():
                self._collected.setdefault(mode, _Collected()).add(collected.lines, collected.questions)
            if not isinstance(error, StorageError):
                raise
            logger.warning("what questions cost could not be written down: %s", error)
