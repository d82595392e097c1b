"""What was spent, kept and summed up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from easy_knowledge_retriever.kg import usage_ledger
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import (
    add_document_usage,
    add_question_usage,
    drop_document_usage,
    fold_days,
    fold_versions,
    usage_rows,
)
from easy_knowledge_retriever.kg.usage_report import usage_report
from easy_knowledge_retriever.spending.account import Amount, Line
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.types import DocRecord, DocStatus, Usage
from tests.flows.ingesting_base import empty_base

EXTRACT = Line("extract", "big", "llm")
EMBED = Line("embed", "vectors", "embedding")
ANSWER = Line("answer", "big", "llm")
CALL = Amount(Usage(llm_calls=1, prompt_tokens=100, completion_tokens=10), cost=0.5, seconds=2.0)
VECTORS = Amount(Usage(embedding_calls=2, embedding_tokens=40), unpriced_calls=2, seconds=0.5)


@pytest.fixture
async def kb() -> AsyncIterator[KnowledgeBase]:
    base = await empty_base()
    yield base
    await base.close()


def on(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    monkeypatch.setattr(usage_ledger, "_today", lambda: day)


async def test_amounts_add_up_by_document_and_by_day(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    await kb.status.put([DocRecord("doc", "a.md", DocStatus.PROCESSED)])
    on(monkeypatch, "2026-03-01")
    await add_document_usage(kb, "doc", "v1", {EXTRACT: CALL, EMBED: VECTORS})
    await add_document_usage(kb, "doc", "v1", {EXTRACT: CALL})
    on(monkeypatch, "2026-03-02")
    await add_question_usage(kb, "mix", {ANSWER: CALL, EMBED: VECTORS}, 1)
    await add_question_usage(kb, "mix", {ANSWER: CALL}, 2)
    report = await usage_report(kb)
    assert report.total.usage == Usage(
        llm_calls=4, prompt_tokens=400, completion_tokens=40, embedding_calls=4, embedding_tokens=80
    )
    assert (report.total.cost, report.total.unpriced_calls, report.total.known_cost) == (2.0, 4, None)
    assert report.questions == 3
    assert {model: amount.cost for model, amount in report.models.items()} == {"big": 2.0, "vectors": 0.0}
    assert {day: amount.usage.llm_calls for day, amount in report.days.items()} == {"2026-03-01": 2, "2026-03-02": 2}
    assert {name: amount.usage.llm_calls for name, amount in report.purposes.items()} == {"answer": 2, "embed": 0, "extract": 2}
    assert {name: amount.usage.llm_calls for name, amount in report.activities.items()} == {"ingest": 2, "mix": 2}
    [document] = report.documents
    assert (document.name, document.total.usage.llm_calls, document.total.cost) == ("a.md", 2, 1.0)


async def test_versions_before_the_live_one_are_put_together(kb: KnowledgeBase) -> None:
    for version in ("v1", "v2", "v3"):
        await add_document_usage(kb, "doc", version, {EXTRACT: CALL})
        await fold_versions(kb, "doc", version)
    await add_document_usage(kb, "doc/other", "v1", {EXTRACT: CALL})
    assert [(row.version, row.amount.usage.llm_calls) for row in await usage_rows(kb) if row.document_id == "doc"] == [
        ("", 2),
        ("v3", 1),
    ]
    document, other = (await usage_report(kb)).documents
    assert (document.live.usage.llm_calls, document.total.usage.llm_calls, other.total.usage.llm_calls) == (1, 3, 1)


async def test_a_deleted_document_leaves_amounts_and_no_name(kb: KnowledgeBase) -> None:
    await add_document_usage(kb, "doc", "v1", {EXTRACT: CALL})
    await add_document_usage(kb, "doc-2", "v1", {EXTRACT: CALL})
    await drop_document_usage(kb, "doc")
    assert [row.document_id for row in await usage_rows(kb) if row.document_id] == ["doc-2"]
    assert (await usage_report(kb)).total.cost == 1.0


async def test_days_long_ago_become_months(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in ("2024-12-31", "2025-01-01", "2025-01-02", "2026-02-01"):
        on(monkeypatch, day)
        await add_question_usage(kb, "mix", {ANSWER: CALL}, 1)
    on(monkeypatch, "2026-02-10")
    for _ in range(2):
        await fold_days(kb)
        report = await usage_report(kb)
        assert {day: amount.cost for day, amount in report.days.items()} == {"2024-12": 0.5, "2025-01": 1.0, "2026-02-01": 0.5}
        assert report.questions == 4


async def test_the_ledger_is_not_of_the_base(kb: KnowledgeBase) -> None:
    before = await canonical_dump(kb)
    await add_document_usage(kb, "doc", "v1", {EXTRACT: CALL})
    assert await canonical_dump(kb) == before
