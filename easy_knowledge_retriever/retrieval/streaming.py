"""The last part of the flow, streamed: from a question with its context to the events of its answer."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from easy_knowledge_retriever.errors import BadResponse, EKRError
from easy_knowledge_retriever.operations.base import Answer
from easy_knowledge_retriever.query import QueryResult, as_failure
from easy_knowledge_retriever.streaming import CitationChecked, Done, Reranked, Retrieved, StreamEvent, StreamWarning, Token

if TYPE_CHECKING:
    from easy_knowledge_retriever.query import QueryParam
    from easy_knowledge_retriever.retrieval.pipeline import Prepared, Retrieving

__all__ = ["answer_events", "failed"]


async def answer_events(flow: Retrieving, prepared: Prepared, param: QueryParam) -> AsyncGenerator[StreamEvent]:
    """The sources, the pieces of the answer, its checked citations, the result.

    Args:
        flow: Writes the result.
        prepared: The question with its context.
        param: How it is to be answered.

    Raises:
        EKRError: The model failed, perhaps after some pieces; with ``raise_on_error=False`` the result says so instead.
    """
    before = flow.result(prepared)
    for event in _sources(before):
        yield event
    if param.only_need_context or param.only_need_prompt:
        yield Done(await flow.answered(prepared, param))
        return
    shown: list[str] = []
    answer: Answer | None = None
    began = time.perf_counter()
    try:
        with prepared.record.timed("answer"):
            async with aclosing(prepared.services.answerer.stream(prepared.request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    elif piece:
                        prepared.record.timings.setdefault("first_token", time.perf_counter() - began)
                        shown.append(piece)
                        yield Token(piece)
        if answer is None:
            raise BadResponse("the answer came to no end")
        last = _checked(flow.finish(prepared, answer, with_sources=param.include_references), answer, "".join(shown))
    except EKRError as failure:
        if param.raise_on_error:
            raise
        last = failed(replace(before, content="".join(shown)), failure)
    for event in last:
        yield event


def failed(result: QueryResult, failure: EKRError) -> Iterator[StreamEvent]:
    """How a stream ends that must not raise.

    Args:
        result: As far as it came.
        failure: What ended it.
    """
    yield StreamWarning(failure.code, str(failure))
    yield Done(as_failure(result, failure))


def _sources(result: QueryResult) -> Iterator[StreamEvent]:
    yield Retrieved(result.chunks, result.entities, result.relationships, result.context)
    if "reranked" in result.trace:
        yield Reranked(tuple((chunk_id, score) for chunk_id, score in result.trace["reranked"]))
    for name in result.degraded:
        yield StreamWarning(name)


def _checked(result: QueryResult, answer: Answer, shown: str) -> Iterator[StreamEvent]:
    if len(result.content) > len(answer.text):
        yield Token(result.content[len(answer.text) :])
    for citation in result.citations:
        yield CitationChecked(citation)
    for name in answer.degraded:
        yield StreamWarning(name)
    for warning in answer.warnings:
        yield StreamWarning("answer", warning)
    if shown.strip() != answer.text:
        yield StreamWarning("text_changed", "the checked text differs from the one that was streamed: citations were taken out")
    yield Done(result)
