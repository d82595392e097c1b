"""What models cost, for people; and the verbs about it: cost, cache."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.output import Screen, counted
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.kg.usage_report import UsageReport
from easy_knowledge_retriever.spending.account import Amount
from easy_knowledge_retriever.spending.estimate import Estimate, Range
from easy_knowledge_retriever.types import Usage

__all__ = ["register", "show_estimate", "show_ranges", "spent", "total_cost"]


class By(enum.StrEnum):
    """What is summed up."""

    DOCUMENT = "document"
    MODEL = "model"
    PURPOSE = "purpose"
    ACTIVITY = "activity"
    DAY = "day"


def register(app: typer.Typer) -> None:
    """Adds these verbs."""
    verb(app, "cost")(cost)
    verb(app, "cache")(cache)


async def cost(
    run: Run, by: Annotated[By, typer.Option("--by", help="What is summed up; an activity is ingest or a mode.")] = By.MODEL
) -> None:
    """Shows what models over the wire have cost this knowledge base.

    Example: ekr cost --by document

    Models that run here cost nothing and are not listed. Prices are those of the time of each call.
    """
    async with run.base() as rag:
        report = await rag.usage()

    def show() -> None:
        rows = [_row(name, amount) for name, amount in _amounts(report, by)]
        columns = (by.value, "calls", "again", "tokens in", "tokens out", "embedded", "reranks", "seconds", "cost")
        run.screen.table(columns, [*rows, _row("total", report.total)], right=columns[1:])
        if by is By.DOCUMENT:
            run.screen.note("the total holds questions and deleted documents too")

    run.screen.result({"by": by, "rows": dict(_amounts(report, by)), **_as_data(report)}, show)


async def cache(
    run: Run, clear: Annotated[bool, typer.Option("--clear", help="Forget them all. Nothing but a saving is lost.")] = False
) -> None:
    """Shows how many replies of language models are kept to be given again.

    Example: ekr cache --clear
    """
    async with run.base() as rag:
        size = await rag.cache_size()
        if clear:
            await rag.aclear_cache()

    def show() -> None:
        replies = counted(size.replies, "reply", "replies")
        run.screen.say(f"{replies}, {size.bytes / 1e6:,.2f} MB{' forgotten' if clear else ''}")

    run.screen.result({"replies": size.replies, "bytes": size.bytes, "cleared": clear}, show)


def _amounts(report: UsageReport, by: By) -> Iterable[tuple[str, Amount]]:
    match by:
        case By.DOCUMENT:
            return [(document.name or document.document_id, document.total) for document in report.documents]
        case By.MODEL:
            return report.models.items()
        case By.PURPOSE:
            return report.purposes.items()
        case By.ACTIVITY:
            return report.activities.items()
        case By.DAY:
            return report.days.items()


def _as_data(report: UsageReport) -> dict[str, object]:
    return {"total": report.total, "questions": report.questions, "documents": report.documents}


def _row(name: str, amount: Amount) -> tuple[object, ...]:
    usage = amount.usage
    numbers = (
        usage.llm_calls,
        usage.cached_calls,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.embedding_tokens,
        usage.rerank_calls,
    )
    return name, *(f"{number:,}" for number in numbers), f"{amount.seconds:,.0f}", _cost(amount)


def _cost(amount: Amount) -> str:
    if not amount.unpriced_calls:
        return f"{amount.cost:,.4f}"
    unpriced = f"{amount.unpriced_calls:,} unpriced"
    return f"{amount.cost:,.4f} + {unpriced}" if amount.cost else unpriced


def show_estimate(screen: Screen, estimate: Estimate) -> None:
    """What an ingest would cost, for people."""
    for warning in estimate.warnings:
        screen.complain(warning)
    unchanged = sum(document.unchanged for document in estimate.documents)
    screen.say(
        f"{counted(len(estimate.documents), 'document')} ({unchanged} unchanged), {counted(estimate.chunks, 'chunk')}, "
        f"{estimate.to_read} to be read by a language model",
        style="bold",
    )
    rows = [
        ("calls of language models", estimate.llm_calls),
        ("tokens in", estimate.prompt_tokens),
        ("tokens out", estimate.completion_tokens),
        ("calls of the embedding model", estimate.embedding_calls),
        ("tokens embedded", estimate.embedding_tokens),
        ("seconds", estimate.seconds),
    ]
    if show_ranges(screen, rows, estimate.cost):
        seen = f"{estimate.seen_calls:,} earlier calls" if estimate.seen_calls else "defaults: nothing was seen of this model yet"
        screen.note(f"rests on {seen}")


def show_ranges(screen: Screen, rows: Sequence[tuple[str, Range]], cost: Range | None) -> bool:
    """What something would take; whether there was anything to show.

    Args:
        screen: Where.
        rows: Names and numbers.
        cost: None if it is not known.
    """
    shown = [(name, *_bar(bar, ",.0f")) for name, bar in rows if bar.high]
    if cost is None:
        shown.append(("cost", "", "unpriced", ""))
    elif shown:
        shown.append(("cost", *_bar(cost, ",.4f")))
    if shown:
        screen.table(("", "at least", "expected", "at most"), shown, right=("at least", "expected", "at most"))
    return bool(shown)


def _bar(bar: Range, form: str) -> tuple[str, str, str]:
    return format(bar.low, form), format(bar.expected, form), format(bar.high, form)


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum; None if one is not known."""
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


def spent(usage: Usage, cost: float | None) -> str:
    """What was spent in one line; empty if no model over the wire was asked."""
    parts = [
        counted(usage.llm_calls, "call") if usage.llm_calls else "",
        f"{usage.cached_calls} given again" if usage.cached_calls else "",
        f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out" if usage.prompt_tokens else "",
        f"{usage.embedding_tokens:,} tokens embedded" if usage.embedding_tokens else "",
        counted(usage.rerank_calls, "rerank") if usage.rerank_calls else "",
    ]
    said = [part for part in parts if part]
    if said and cost is not None:
        said.append(f"cost {cost:,.4f}")
    return ", ".join(said)
