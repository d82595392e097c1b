"""What was spent, kept: by document version while the document is there, and by day for good.

A row by day holds no name, no text and no question, so it stays when a document is deleted; the rows of the document go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.spending.account import Amount, Line
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import Usage

__all__ = [
    "UsageRow",
    "add_document_usage",
    "add_ingest_usage",
    "add_question_usage",
    "drop_document_usage",
    "fold_days",
    "fold_versions",
    "usage_rows",
]

_DAYS_KEPT: Final = 400
"""Older days are folded into their months."""
_INGEST: Final = "ingest"
_USAGE: Final = tuple(spec.name for spec in fields(Usage))


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What was spent by one model for one purpose, on one document version or on one day."""

    line: Line
    document_id: str = ""
    version: str = ""
    """Of the document; empty for all versions before the live one together."""
    day: str = ""
    """``2026-11-30``; ``2025-10`` for a whole month long ago."""
    activity: str = ""
    """Of a day: ``ingest``, or the mode of questions."""
    amount: Amount = field(default_factory=Amount)
    questions: int = 0

    @property
    def key(self) -> str:
        """Key of the row. Ids are hashed: one may be the beginning of another."""
        if self.document_id:
            return f"{_prefix(self.document_id)}{self.version}/{self.line.purpose}/{self.line.model}"
        return f"day/{self.day}/{self.activity}/{self.line.purpose}/{self.line.model}"

    def plus(self, other: UsageRow) -> UsageRow:
        """This row with what another one adds."""
        return replace(self, amount=self.amount + other.amount, questions=self.questions + other.questions)


async def add_document_usage(kb: KnowledgeBase, document_id: str, version: str, lines: Mapping[Line, Amount]) -> None:
    """Adds what the ingest of a version spent. Call it inside a transaction."""
    rows = [UsageRow(line, document_id, version, amount=amount) for line, amount in lines.items()]
    rows += [UsageRow(line, day=_today(), activity=_INGEST, amount=amount) for line, amount in lines.items()]
    await _add(kb, rows)


async def add_ingest_usage(kb: KnowledgeBase, lines: Mapping[Line, Amount]) -> None:
    """Adds what was spent on several documents together. Call it inside a transaction."""
    await _add(kb, [UsageRow(line, day=_today(), activity=_INGEST, amount=amount) for line, amount in lines.items()])


async def add_question_usage(kb: KnowledgeBase, mode: str, lines: Mapping[Line, Amount], questions: int) -> None:
    """Adds what questions of one mode spent. Call it inside a transaction."""
    rows = [UsageRow(line, day=_today(), activity=mode, amount=amount) for line, amount in lines.items()]
    if rows:  # a question is counted once, on one of its lines
        rows[0] = replace(rows[0], questions=questions)
    await _add(kb, rows)


async def drop_document_usage(kb: KnowledgeBase, document_id: str) -> None:
    """Forgets what a document cost. The days it was spent on remember the amounts."""
    await kb.usage.delete_many([key async for key, _ in kb.usage.scan(_prefix(document_id))])


async def fold_versions(kb: KnowledgeBase, document_id: str, live: str) -> None:
    """Puts the versions before the live one together. Call it inside a transaction."""
    earlier = [
        row async for key, data in kb.usage.scan(_prefix(document_id)) if (row := _decoded(data)).version not in (live, "")
    ]
    await kb.usage.delete_many([row.key for row in earlier])
    await _add(kb, [replace(row, version="") for row in earlier])


async def fold_days(kb: KnowledgeBase) -> None:
    """Puts days long ago together by month, so that the ledger does not grow for ever."""
    first_kept = (date.fromisoformat(_today()) - timedelta(days=_DAYS_KEPT)).isoformat()
    old = []
    async for _, data in kb.usage.scan("day/"):
        row = _decoded(data)
        if row.day >= first_kept:
            break
        if len(row.day) == len(first_kept):
            old.append(row)
    if old:
        async with kb.transaction() as inside:
            await inside.usage.delete_many([row.key for row in old])
            await _add(inside, [replace(row, day=row.day[:7]) for row in old])


async def usage_rows(kb: KnowledgeBase) -> list[UsageRow]:
    """All rows."""
    async with kb.snapshot() as seen:
        return [_decoded(data) async for _, data in seen.usage.scan()]


async def _add(kb: KnowledgeBase, rows: list[UsageRow]) -> None:
    sums: dict[str, UsageRow] = {}
    for row in rows:
        sums[row.key] = sums[row.key].plus(row) if row.key in sums else row
    there = await kb.usage.get_many(list(sums))
    await kb.usage.put_many({key: _encoded(_decoded(there[key]).plus(row) if key in there else row) for key, row in sums.items()})


def _prefix(document_id: str) -> str:
    return f"document/{digest(document_id)}/"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _encoded(row: UsageRow) -> JsonObject:
    amount, usage = row.amount, row.amount.usage
    said: dict[str, Any] = {
        "document": row.document_id,
        "version": row.version,
        "day": row.day,
        "activity": row.activity,
        "questions": row.questions,
        "purpose": row.line.purpose,
        "model": row.line.model,
        "kind": row.line.kind,
        "usage": {name: count for name in _USAGE if (count := getattr(usage, name))},
        "cost": amount.cost,
        "unpriced": amount.unpriced_calls,
        "seconds": round(amount.seconds, 3),
    }
    return {name: value for name, value in said.items() if value}


def _decoded(said: Mapping[str, Any]) -> UsageRow:
    usage = Usage(**{name: count for name, count in said.get("usage", {}).items() if name in _USAGE})
    return UsageRow(
        Line(said["purpose"], said["model"], said["kind"]),
        document_id=said.get("document", ""),
        version=said.get("version", ""),
        day=said.get("day", ""),
        activity=said.get("activity", ""),
        amount=Amount(usage, said.get("cost", 0.0), said.get("unpriced", 0), said.get("seconds", 0.0)),
        questions=said.get("questions", 0),
    )
