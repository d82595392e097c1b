"""A wish and its answer: QueryParam, QueryResult."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from easy_knowledge_retriever.errors import EKRError
from easy_knowledge_retriever.types import Citation, Claim, Metadata, Reference, SearchFilter, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DEFAULT_FORM", "Pieces", "QueryParam", "QueryResult", "as_failure"]


DEFAULT_FORM = "Multiple Paragraphs"
"""The form of an answer where none is named."""


@dataclass(frozen=True, slots=True)
class QueryParam:
    """How one question is to be answered. None means: as the retriever has it. Never changed by the library.

    Lists are accepted for the tuple fields and stored as tuples.
    """

    mode: str = "mix"
    """naive, local, global, hybrid, mix, hybrid_mix, bypass, bm25 or graph_walk."""
    only_need_context: bool = False
    """``content`` of the result is the context; no answer is written."""
    only_need_prompt: bool = False
    """``content`` of the result is the prompt; no answer is written."""
    response_type: str = DEFAULT_FORM
    """Free text for the prompt."""
    stream: bool = False
    top_k: int | None = None
    """Entities and relations a graph search gives."""
    chunk_top_k: int | None = None
    """Passages kept after the rerank."""
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] = ()
    """Themes; given ones skip the keyword step."""
    ll_keywords: Sequence[str] = ()
    """Entities and details; given ones skip the keyword step."""
    conversation_history: Sequence[Mapping[str, str]] = ()
    """Earlier turns, ``role`` and ``content``; used to rewrite a follow-up and sent to the model."""
    history_turns: int = 0
    """How many of the last turns count; 0 means all."""
    model_func: object | None = None
    """Another model for this query: an ``LLMService`` or a callable."""
    user_prompt: str | None = None
    """Extra instructions for the model; braces are safe."""
    include_references: bool = False
    """Adds the list of sources to the text of the answer; ``references`` is always data."""
    query_decomposition: bool = False
    filter: SearchFilter = field(default_factory=SearchFilter)
    """What may be seen."""
    enable_rerank: bool = True
    raise_on_error: bool = True
    """False: a failure is a result with ``status="failure"``."""

    def __post_init__(self) -> None:
        for name in ("hl_keywords", "ll_keywords", "conversation_history"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


class Pieces(Protocol):
    """The pieces of a streamed answer, to be read once."""

    def __aiter__(self) -> AsyncIterator[str]:
        """Reads them as they come."""
        ...

    async def __anext__(self) -> str:
        """The next one."""
        ...

    async def aclose(self) -> None:
        """Ends the stream, and with it the call of the model."""
        ...

    async def final(self) -> QueryResult:
        """The checked result; reads what is left of the pieces."""
        ...


@dataclass(frozen=True, slots=True)
class QueryResult:
    """An answer and everything it rests on.

    ``entities``, ``relationships`` and ``chunks`` are what the context held; ``references`` and ``citations`` are what
    the answer cites.
    """

    content: str = ""
    query: str = ""
    response_iterator: Pieces | None = None
    """Pieces of the answer, when streaming; ``final()`` then gives the checked result."""
    is_streaming: bool = False
    raw_data: Mapping[str, Any] = field(default_factory=dict)
    system_prompt: str = ""
    user_prompt: str = ""
    context: str = ""
    entities: tuple[Mapping[str, Any], ...] = ()
    relationships: tuple[Mapping[str, Any], ...] = ()
    chunks: tuple[Mapping[str, Any], ...] = ()
    references: tuple[Reference, ...] = ()
    citations: tuple[Citation, ...] = ()
    claims: tuple[Claim, ...] = ()
    """What the answer asserts, sentence by sentence, each with its citations and whether they carry it."""
    metadata: Metadata | Mapping[str, Any] = field(default_factory=dict)
    status: Literal["success", "failure"] = "success"
    message: str = ""
    refused: bool = False
    """True if the documents do not cover the question and the answer says so."""
    grounded: bool = True
    """False for ``bypass``: the answer rests on no document."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds a step."""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    trace: Mapping[str, Any] = field(default_factory=dict)
    """Rankings of each search before fusion, by name."""
    degraded: tuple[str, ...] = ()
    """What fell back to something lesser, such as ``rerank_failed``."""

    @property
    def reference_list(self) -> list[dict[str, Any]]:
        """The references as plain data."""
        return [
            {
                "reference_id": r.reference_id,
                "file_path": r.file_path,
                "pages": list(r.pages),
                "passages": list(r.passages),
                "quote": r.quote,
            }
            for r in self.references
        ]

    @property
    def files(self) -> list[str]:
        """Names of the cited documents, each once, in order."""
        return list(dict.fromkeys(r.file_path for r in self.references))

    async def final(self) -> QueryResult:
        """The result with its whole answer, checked: itself, or when streaming what the pieces amount to.

        Raises:
            EKRError: The stream failed, or was closed before its end.
        """
        return self if self.response_iterator is None else await self.response_iterator.final()

    def __str__(self) -> str:
        return self.content

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<li>{html.escape(r.file_path)}{_pages(r.pages)}: <q>{html.escape(r.quote)}</q></li>" for r in self.references
        )
        return f"<p>{html.escape(self.content)}</p><ol>{rows}</ol>"


def as_failure(result: QueryResult, failure: EKRError) -> QueryResult:
    """The result, as far as it came, of a question that failed.

    Args:
        result: At least the question.
        failure: What went wrong.
    """
    metadata = {**result.metadata, "error": failure.code}
    return replace(result, status="failure", message=str(failure), metadata=metadata)


def _pages(pages: Sequence[int]) -> str:
    return f", p. {', '.join(map(str, pages))}" if pages else ""
