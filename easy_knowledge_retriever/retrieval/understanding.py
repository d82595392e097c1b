"""What is asked: the follow-up as a question of its own, its parts, and the keywords of each. No storage is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.operations.base import KeywordExtractor, Keywords, Rewriter, Splitter
from easy_knowledge_retriever.text.analyzer import analyze_question
from easy_knowledge_retriever.types import AnalyzedQuery

if TYPE_CHECKING:
    from easy_knowledge_retriever.retrieval.plan import Plan
    from easy_knowledge_retriever.retrieval.record import Record

__all__ = ["Understanding", "Understood"]


@dataclass(frozen=True, slots=True)
class Understood:
    """A question with nothing left to the conversation, and what to search for."""

    question: str
    queries: tuple[AnalyzedQuery, ...]


@dataclass(frozen=True, slots=True)
class Understanding:
    """Steps 4 and 5 of one question: rewrite it, split it, find its keywords."""

    rewriter: Rewriter
    splitter: Splitter
    extractor: KeywordExtractor
    plan: Plan
    record: Record

    async def understand(self, question: str) -> Understood:
        """What to search for.

        Raises:
            EKRError: A model failed where nothing stands in for it.
        """
        asked = await self._rewritten(question)
        parts = await self._parts(asked)
        queries = [AnalyzedQuery(part, terms=analyze_question(part)) for part in parts]
        if self.plan.strategy.uses_keywords:
            with self.record.timed("keywords"):
                queries = await self._with_keywords(queries)
        return Understood(asked, tuple(queries))

    async def _rewritten(self, question: str) -> str:
        if not self.plan.history:
            return question
        with self.record.timed("rewrite"):
            rewritten = await self.rewriter.rewrite(question, self.plan.history)
        self.record.degraded += rewritten.degraded
        if rewritten.question != question:
            self.record.rewritten = self.record.trace["rewritten"] = rewritten.question
        return rewritten.question

    async def _parts(self, question: str) -> Sequence[str]:
        if not self.plan.decompose:
            return (question,)
        with self.record.timed("split"):
            parts = await self.splitter.split(question)
        self.record.degraded += parts.degraded
        if len(parts.questions) > 1:
            self.record.parts = parts.questions
            self.record.trace["parts"] = list(parts.questions)
        return parts.questions

    async def _with_keywords(self, queries: Sequence[AnalyzedQuery]) -> list[AnalyzedQuery]:
        """The keywords of all parts, asked for at once."""
        plan, record = self.plan, self.record
        if plan.low_keywords or plan.high_keywords:
            found = [Keywords(plan.high_keywords, plan.low_keywords)] * len(queries)
        else:
            async with task_group() as group:
                tasks = [group.create_task(self.extractor.keywords(query.question)) for query in queries]
            found = [task.result() for task in tasks]
        record.keywords = Keywords(
            tuple(dict.fromkeys(word for keywords in found for word in keywords.high)),
            tuple(dict.fromkeys(word for keywords in found for word in keywords.low)),
        )
        return [
            replace(query, low_keywords=keywords.low, high_keywords=keywords.high)
            for query, keywords in zip(queries, found, strict=True)
        ]
