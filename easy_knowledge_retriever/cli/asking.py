"""The verb that asks: query."""

from __future__ import annotations

from typing import Annotated

import typer

from easy_knowledge_retriever.cli.cost import spent
from easy_knowledge_retriever.cli.documents import choose
from easy_knowledge_retriever.cli.metadata import parsed
from easy_knowledge_retriever.cli.output import Screen
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.errors import NotFound
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.streaming import Done, StreamWarning, Token
from easy_knowledge_retriever.types import Reference, SearchFilter

__all__ = ["register", "show_answer"]

_DEFAULT_MODE = QueryParam().mode


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    verb(app, "query", spends=True)(query)


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
    async with run.base(embeds=True) as rag:
        if not await rag.get_docs():
            raise NotFound(
                f"the knowledge base in {run.working_dir!r} is empty", hint="'ekr ingest PATH' reads documents into it"
            )
        param = QueryParam(
            mode=mode,
            only_need_context=context_only,
            stream=stream and not (run.screen.as_json or context_only),
            top_k=top_k,
            chunk_top_k=chunk_top_k,
            filter=await _filter(rag, document or [], collection or [], meta or []),
        )
        result = await (_streamed(run.screen, rag, question, param) if param.stream else rag.aquery(question, param))
    run.screen.result(_as_data(result), lambda: show_answer(run.screen, result, shown=param.stream))


async def _streamed(screen: Screen, rag: EasyKnowledgeRetriever, question: str, param: QueryParam) -> QueryResult:
    """Shows the answer as it is written; what its check says of it stands below."""
    result = QueryResult(query=question)
    async with rag.stream(question, param) as events:
        async for event in events:
            match event:
                case Token():
                    screen.piece(event.text)
                case StreamWarning(message=message) if message:
                    screen.say()
                    screen.note(message)
                case Done():
                    screen.say()
                    result = event.result
    return result


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
        "cost": result.cost,
        "degraded": result.degraded,
    }


def show_answer(screen: Screen, result: QueryResult, *, shown: bool = False) -> None:
    """An answer and its sources, for people.

    Args:
        screen: Where.
        result: The answer.
        shown: Whether its text stands there already.
    """
    if not shown:
        screen.say(result.content)
    if result.references:
        screen.say()
        screen.say("Sources", style="bold")
    for reference in result.references:
        screen.say(f"[{reference.reference_id}] {reference.file_path}{_pages(reference)}")
        if reference.quote:
            screen.say(f"    “{' '.join(reference.quote.split())}”", style="dim")
    for degraded in result.degraded:
        screen.note(f"degraded: {degraded}")
    if said := spent(result.usage, result.cost):
        screen.note(said)


def _pages(reference: Reference) -> str:
    return f", p. {', '.join(map(str, reference.pages))}" if reference.pages else ""
