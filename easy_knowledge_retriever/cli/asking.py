"""The verb that asks: query."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.documents import choose
from easy_knowledge_retriever.cli.metadata import parsed
from easy_knowledge_retriever.cli.output import Screen
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.errors import NotFound
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.types import Reference, SearchFilter

__all__ = ["register", "show_answer"]

_DEFAULT_MODE = QueryParam().mode


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    verb(app, "query")(query)


async def query(
    run: Run,
    question: Annotated[str, typer.Argument(help="The question.")],
    mode: Annotated[
        str, typer.Option("--mode", "-m", help="How to search; the modes stand in the documentation.")
    ] = _DEFAULT_MODE,
    context_only: Annotated[bool, typer.Option("--context-only", help="Show the passages, write no answer.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show the answer as it is written.")] = False,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Entities and relations a graph search gives.")] = None,
    chunk_top_k: Annotated[int | None, typer.Option("--chunk-top-k", min=1, help="Passages kept.")] = None,
    document: Annotated[list[str] | None, typer.Option("--document", help="Only this document (id or name); repeatable.")] = None,
    collection: Annotated[list[str] | None, typer.Option("--collection", help="Only this collection; repeatable.")] = None,
    meta: Annotated[
        list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="Only documents with this; repeatable.")
    ] = None,
) -> None:
    """Answers a question from the documents, with the pages it rests on.

    Example: ekr query "Who decides whether a night is cancelled?" --mode hybrid_mix
    """
    async with run.base() as rag:
        if not await rag.get_docs():
            raise NotFound(
                f"the knowledge base in {run.working_dir!r} is empty", hint="'ekr ingest PATH' reads documents into it"
            )
        param = QueryParam(
            mode=mode,
            only_need_context=context_only,
            stream=stream and not run.screen.as_json,
            top_k=top_k,
            chunk_top_k=chunk_top_k,
            filter=await _filter(rag, document or [], collection or [], meta or []),
        )
        result = await rag.aquery(question, param)
        if result.response_iterator is not None:
            result = replace(result, content=await _streamed(run.screen, result.response_iterator))
    run.screen.result(_as_data(result), lambda: show_answer(run.screen, result))


async def _streamed(screen: Screen, pieces: AsyncIterator[str]) -> str:
    shown = []
    async for piece in pieces:
        screen.piece(piece)
        shown.append(piece)
    screen.say()
    return "".join(shown)


async def _filter(rag: EasyKnowledgeRetriever, documents: list[str], collections: list[str], meta: list[str]) -> SearchFilter:
    ids = frozenset(record.id for record in choose(await rag.get_docs(), documents)) if documents else None
    return SearchFilter(
        collections=frozenset(collections) if collections else None,
        document_ids=ids,
        metadata=parsed(meta),
    )


def _as_data(result: QueryResult) -> dict[str, object]:
    return {
        "question": result.query,
        "answer": result.content,
        "refused": result.refused,
        "grounded": result.grounded,
        "references": result.references,
        "citations": result.citations,
        "chunks": result.chunks,
        "metadata": result.metadata,
        "timings": result.timings,
        "usage": result.usage,
        "degraded": result.degraded,
    }


def show_answer(screen: Screen, result: QueryResult) -> None:
    """An answer and its sources, for people."""
    if not result.is_streaming:
        screen.say(result.content)
    references = result.references or _cited(result)
    if references:
        screen.say()
        screen.say("Sources", style="bold")
    for reference in references:
        screen.say(f"[{reference.reference_id}] {reference.file_path}{_pages(reference)}")
        if reference.quote:
            screen.say(f"    “{' '.join(reference.quote.split())}”", style="dim")
    for degraded in result.degraded:
        screen.note(f"degraded: {degraded}")


def _cited(result: QueryResult) -> list[Reference]:
    """The passages a streamed answer names; it was shown before its citations could be checked."""
    numbers = set(re.findall(r"\[(\d+)\]", result.content)) if result.is_streaming else set()
    return [
        Reference(chunk["reference_id"], chunk["file_path"], _range(chunk["page_start"], chunk["page_end"]))
        for chunk in result.chunks
        if chunk["reference_id"] in numbers
    ]


def _range(first: int | None, last: int | None) -> tuple[int, ...]:
    return () if first is None else tuple(range(first, (last or first) + 1))


def _pages(reference: Reference) -> str:
    return f", p. {', '.join(map(str, reference.pages))}" if reference.pages else ""
