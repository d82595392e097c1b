"""What a base has cost so far, summed up in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import UsageRow, usage_rows
from easy_knowledge_retriever.spending.account import Amount

__all__ = ["DocumentUsage", "UsageReport", "usage_report"]


@dataclass(frozen=True, slots=True)
class DocumentUsage:
    """What a document has cost."""

    document_id: str
    name: str
    live: Amount
    """The version that is served, or is on its way in."""
    total: Amount
    """All versions."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What a base has cost. Deleted documents count in everything but ``documents``; models that run here count nowhere."""

    total: Amount
    questions: int
    """Those that asked a model over the wire."""
    documents: tuple[DocumentUsage, ...]
    models: Mapping[str, Amount]
    purposes: Mapping[str, Amount]
    activities: Mapping[str, Amount]
    """``ingest``, and the modes of questions."""
    days: Mapping[str, Amount]
    """``2026-11-30``; more than 400 days ago by month, ``2025-10``."""


async def usage_report(kb: KnowledgeBase) -> UsageReport:
    """The report over all that was written down."""
    rows = await usage_rows(kb)
    by_day = [row for row in rows if row.day]
    return UsageReport(
        total=sum((row.amount for row in by_day), Amount()),
        questions=sum(row.questions for row in by_day),
        documents=await _documents(kb, [row for row in rows if row.document_id]),
        models=_summed(by_day, lambda row: row.line.model),
        purposes=_summed(by_day, lambda row: row.line.purpose),
        activities=_summed(by_day, lambda row: row.activity),
        days=_summed(by_day, lambda row: row.day),
    )


async def _documents(kb: KnowledgeBase, rows: list[UsageRow]) -> tuple[DocumentUsage, ...]:
    total = _summed(rows, lambda row: row.document_id)
    live = _summed((row for row in rows if row.version), lambda row: row.document_id)
    records = await kb.status.get(list(total))
    found = [
        DocumentUsage(key, records[key].name if key in records else "", live.get(key, Amount()), amount)
        for key, amount in total.items()
    ]
    return tuple(sorted(found, key=lambda document: (document.name, document.document_id)))


def _summed(rows: Iterable[UsageRow], key: Callable[[UsageRow], str]) -> dict[str, Amount]:
    sums: dict[str, Amount] = {}
    for row in rows:
        sums[key(row)] = sums.get(key(row), Amount()) + row.amount
    return dict(sorted(sums.items()))
