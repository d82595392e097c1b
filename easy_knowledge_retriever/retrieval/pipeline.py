"""The flow that answers one question, top to bottom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, EKRError
from easy_knowledge_retriever.events import Observer, QueryFinished, QueryStarted, ignore
from easy_knowledge_retriever.operations.base import Answer, AnswerRequest
from easy_knowledge_retriever.operations.citation_check import references_of
from easy_knowledge_retriever.operations.context import write_context
from easy_knowledge_retriever.operations.following import following_chunks, with_following
from easy_knowledge_retriever.operations.indexing import ABOUT_HEADING
from easy_knowledge_retriever.operations.keywords import choose_names, name_candidates
from easy_knowledge_retriever.operations.name_rows import read_names
from easy_knowledge_retriever.operations.parents import one_a_parent, widened
from easy_knowledge_retriever.operations.reranking import RERANK_FAILED, rerank
from easy_knowledge_retriever.query import QueryParam, QueryResult, as_failure
from easy_knowledge_retriever.retrieval.fusion import fuse_hits, interleave_hits, merge_facts, share_places
from easy_knowledge_retriever.retrieval.plan import Plan, make_plan
from easy_knowledge_retriever.retrieval.record import Record
from easy_knowledge_retriever.retrieval.registry import RetrievalFactory
from easy_knowledge_retriever.retrieval.search import IndexSearches
from easy_knowledge_retriever.retrieval.services import Services
from easy_knowledge_retriever.retrieval.streaming import answer_events, failed
from easy_knowledge_retriever.retrieval.understanding import Understanding, Understood
from easy_knowledge_retriever.spending.account import Account, account_in_force, charged, charging
from easy_knowledge_retriever.streaming import AnswerPieces, AnswerStream, StreamEvent
from easy_knowledge_retriever.types import AnalyzedQuery, Candidates, Chunk, Context, Hit

if TYPE_CHECKING:
    from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
    from easy_knowledge_retriever.retrieval.base import Retrieval
    from easy_knowledge_retriever.settings import Settings
    from easy_knowledge_retriever.types import Reference, SearchFilter

__all__ = ["FALLBACK", "Prepared", "Retrieving", "Services"]

FALLBACK = "search_empty"
"""Named in ``degraded`` when a strategy that cannot see the whole base found nothing and plain search stood in."""
LONGEST_QUESTION = 65_536
"""Characters; a longer text is a document to ingest."""
BEST_HITS = 3
"""Hits whose following chunks are pooled."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question with its context, before the answer."""

    question: str
    plan: Plan
    request: AnswerRequest
    record: Record
    began: float
    services: Services
    """Those of this question."""


async def _always(seen: KnowledgeBase | None = None) -> None:
    """Any base may be asked."""


async def _unwritten(mode: str, account: Account) -> None:
    """Nobody wants to know what a question spent."""


@dataclass(frozen=True, slots=True)
class Retrieving:
    """Answers questions from one base. Holds no state: safe to share between concurrent questions."""

    kb: KnowledgeBase
    settings: Settings
    services: Services
    observer: Observer = ignore
    check: Callable[[KnowledgeBase], Awaitable[object]] = _always
    """Awaited before each question and with the snapshot it is answered from; raises where the base cannot be asked."""
    probe: Callable[[], Awaitable[object]] = _always
    """Awaited before a question is embedded; raises where the model is not what it was."""
    spent: Callable[[str, Account], Awaitable[object]] = _unwritten
    """Awaited when a question ends, however it does, with its mode and its account. A streamed one ends twice: before and
    after its answer."""

    async def retrieve(self, question: str, strategy: Retrieval | None = None, param: QueryParam | None = None) -> Context:
        """The context of a question, without an answer.

        Raises:
            ConfigError: The question or an option cannot be used.
            StorageError: A storage failed.
            UpstreamError: A model failed (a reranker excepted).
        """
        param = param or QueryParam()
        async with self._charging(_mode(param, strategy)):
            prepared = await self.prepare(question, param, strategy)
        self.observer(QueryFinished(prepared.plan.strategy.mode, len(prepared.request.context.passages), _since(prepared)))
        return prepared.request.context

    async def query(
        self, question: str, param: QueryParam | None = None, strategy: Retrieval | None = None, system_prompt: str | None = None
    ) -> QueryResult:
        """The answer to a question, or with ``only_need_context`` and ``only_need_prompt`` what would lead to it.

        Raises:
            ConfigError: The question or an option cannot be used.
            StorageError: A storage failed; an outage is never "not covered".
            UpstreamError: A model failed (a reranker excepted).
        """
        param = param or QueryParam()
        mode = _mode(param, strategy)
        async with self._charging(mode) as account:
            try:
                prepared = await self.prepare(question, param, strategy, system_prompt)
                if not param.stream or param.only_need_context or param.only_need_prompt:
                    return await self.answered(prepared, param)
            except EKRError as failure:
                if param.raise_on_error:
                    raise
                return as_failure(QueryResult(query=question, usage=account.usage, cost=account.cost), failure)
        pieces = AnswerPieces(AnswerStream(self._charged(mode, account, answer_events(self, prepared, param))))
        return replace(self.result(prepared), response_iterator=pieces, is_streaming=True)

    def stream(
        self, question: str, param: QueryParam, strategy: Retrieval | None = None, system_prompt: str | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """The answer to a question as events: sources, pieces of text, checked citations, the result of :meth:`query`.

        Raises:
            EKRError: As :meth:`query`; perhaps after some pieces.
        """
        return self._charged(_mode(param, strategy), Account(), self._events(question, param, strategy, system_prompt))

    async def _events(
        self, question: str, param: QueryParam, strategy: Retrieval | None, system_prompt: str | None
    ) -> AsyncGenerator[StreamEvent]:
        try:
            prepared = await self.prepare(question, param, strategy, system_prompt)
        except EKRError as failure:
            if param.raise_on_error:
                raise
            for event in failed(QueryResult(query=question), failure):
                yield event
            return
        async with aclosing(answer_events(self, prepared, param)) as answering:
            async for event in answering:
                yield event

    @asynccontextmanager
    async def _charging(self, mode: str) -> AsyncIterator[Account]:
        account = Account()
        try:
            with charging(account):
                yield account
        finally:
            await self.spent(mode, account)

    async def _charged(self, mode: str, account: Account, events: AsyncGenerator[StreamEvent]) -> AsyncGenerator[StreamEvent]:
        try:
            async with aclosing(charged(account, events)) as paid:
                async for event in paid:
                    yield event
        finally:
            await self.spent(mode, account)

    async def prepare(
        self, question: str, param: QueryParam, strategy: Retrieval | None = None, system_prompt: str | None = None
    ) -> Prepared:
        """Steps 1 to 11: everything up to the context.

        Raises:
            EKRError: See :meth:`query`.
        """
        await self.check(self.kb)
        began = time.perf_counter()
        if not question.strip():
            raise ConfigError("the question is empty", hint="ask something")
        if len(question) > LONGEST_QUESTION:
            raise ConfigError(f"the question has {len(question)} characters", hint=f"give at most {LONGEST_QUESTION}")
        chosen = strategy or RetrievalFactory.create_retrieval(param)
        plan = make_plan(self.settings, param, chosen, self.services.reranker, self.services.embedding.fingerprint)
        if plan.reranker is not None:
            plan = replace(plan, reranker=self.services.reranking(plan.reranker))
        services = self.services if param.model_func is None else self.services.with_model(param.model_func)
        self.observer(QueryStarted(chosen.mode))
        record = Record(account=account_in_force() or Account())
        context = Context("")
        if chosen.grounded:
            understanding = Understanding(services.rewriter, services.splitter, services.keywords, plan, record)
            understood = await understanding.understand(question)
            degraded = tuple(record.degraded)

            async def search(kb: KnowledgeBase) -> Context:
                await self.check(kb)
                record.degraded[:] = degraded
                return await _Search(kb, self, plan, record).context(understood)

            context = await self.kb.consistently(search)
        request = AnswerRequest(
            question=question,
            context=context,
            response_type=param.response_type,
            user_prompt=param.user_prompt or "",
            system_prompt=system_prompt,
            history=plan.history,
            grounded=chosen.grounded,
            standalone=record.rewritten,
        )
        return Prepared(question, plan, request, record, began, services)

    async def answered(self, prepared: Prepared, param: QueryParam) -> QueryResult:
        """Steps 12 and 13 at one go.

        Raises:
            UpstreamError: The model failed.
        """
        answerer = prepared.services.answerer
        if param.only_need_context:
            return self._finished(prepared, self.result(prepared, content=prepared.request.context.text))
        if param.only_need_prompt:
            messages = answerer.prompt(prepared.request)
            content = "\n\n".join(message.content for message in messages)
            return self._finished(prepared, self.result(prepared, content=content))
        with prepared.record.timed("answer"):
            answer = await answerer.answer(prepared.request)
        return self.finish(prepared, answer, with_sources=param.include_references)

    def finish(self, prepared: Prepared, answer: Answer, *, with_sources: bool = False) -> QueryResult:
        """The result that an answer, streamed or not, amounts to.

        Args:
            prepared: From :meth:`prepare`.
            answer: With its citations checked.
            with_sources: Adds the list of sources to the text.
        """
        references = references_of(answer.citations)
        content = f"{answer.text}{_sources(references)}" if with_sources else answer.text
        prepared.record.counts |= answer.counts
        prepared.record.degraded += answer.degraded
        result = self.result(prepared, content=content)
        metadata = {**result.metadata, "warnings": list(answer.warnings)} if answer.warnings else result.metadata
        result = replace(
            result,
            citations=answer.citations,
            claims=answer.claims,
            references=references,
            refused=answer.refused,
            metadata=metadata,
        )
        return self._finished(prepared, result)

    def _finished(self, prepared: Prepared, result: QueryResult) -> QueryResult:
        passages = len(prepared.request.context.passages)
        self.observer(QueryFinished(prepared.plan.strategy.mode, passages, _since(prepared)))
        return result

    def result(self, prepared: Prepared, content: str = "") -> QueryResult:
        """The result before there is an answer.

        Args:
            prepared: From :meth:`prepare`.
            content: What stands for the answer.
        """
        context, record = prepared.request.context, prepared.record
        messages = prepared.services.answerer.prompt(prepared.request)
        data: Mapping[str, Any] = context.raw_data or {"entities": [], "relationships": [], "chunks": [], "references": []}
        metadata = self._metadata(prepared)
        return QueryResult(
            content=content,
            query=prepared.question,
            raw_data={"status": "success", "message": "", "data": data, "metadata": metadata},
            system_prompt="\n\n".join(message.content for message in messages if message.role == "system"),
            user_prompt=next((message.content for message in reversed(messages) if message.role == "user"), ""),
            context=context.text,
            entities=tuple(data["entities"]),
            relationships=tuple(data["relationships"]),
            chunks=tuple(data["chunks"]),
            metadata=metadata,
            grounded=prepared.request.grounded,
            timings={**record.timings, "total": _since(prepared)},
            usage=record.account.usage,
            cost=record.account.cost,
            trace=record.trace,
            degraded=tuple(record.degraded),
        )

    def _metadata(self, prepared: Prepared) -> dict[str, Any]:
        plan, record = prepared.plan, prepared.record
        return {
            "mode": plan.strategy.mode,
            "param": {
                "top_k": plan.top_k,
                "chunk_top_k": plan.chunk_top_k,
                "max_entity_tokens": plan.budget.entities,
                "max_relation_tokens": plan.budget.relations,
                "max_total_tokens": plan.budget.total,
                "follow": plan.follow,
                "rerank": plan.reranker is not None,
            },
            "rewritten": record.rewritten,
            "parts": list(record.parts),
            "keywords": {"high_level": list(record.keywords.high), "low_level": list(record.keywords.low)},
            "counts": dict(record.counts),
            "degraded": list(record.degraded),
            "config_hash": plan.config_hash,
        }


@dataclass(frozen=True, slots=True)
class _Search:
    """Steps 5 to 11 of one question, inside one snapshot."""

    kb: KnowledgeBase
    flow: Retrieving
    plan: Plan
    record: Record

    async def context(self, understood: Understood) -> Context:
        visible = await self.kb.resolve(self.plan.filter)
        with self.record.timed("analyze"):
            queries = await self._analyze(understood.queries, visible)
        index = self._index(visible)
        with self.record.timed("search"):
            found = await self._found(queries, index)
            candidates = await self._pooled(found, queries, index)
        with self.record.timed("load"):
            chunks, created = await self._load(candidates, visible)
        with self.record.timed("rerank"):
            ranked = await self._ranked(understood.question, chunks, candidates)
            kept = one_a_parent(_shared(ranked, found))[: self.plan.chunk_top_k]
        with self.record.timed("context"):
            kept = await self._widened(kept)
            fitted = write_context(kept, candidates.facts, self.plan.budget, self.flow.services.count_tokens, created)
        self.record.degraded += fitted.degraded
        self._count(candidates, kept, fitted.context)
        return fitted.context

    async def _analyze(self, queries: Sequence[AnalyzedQuery], filter: SearchFilter | None) -> list[AnalyzedQuery]:
        """The names that exist, then one embedding call for everything."""
        if self.plan.strategy.uses_graph:
            async with task_group() as group:
                tasks = [group.create_task(self._with_names(query, filter)) for query in queries]
            queries = [task.result() for task in tasks]
            self.record.trace["names"] = [list(query.names) for query in queries]
            self.record.trace["anchors"] = [list(query.anchors) for query in queries]
        return await self._embedded(queries)

    async def _with_names(self, query: AnalyzedQuery, visible: SearchFilter | None) -> AnalyzedQuery:
        """The names in the question and the given keywords that exist, and those of them that a passage is about."""
        candidates = name_candidates(query.question)
        given = [name for word in query.low_keywords for name in name_candidates(word) if name.text == word]
        keys = {candidate.key for candidate in (*candidates, *given)}
        decided = await read_names(self.kb, keys)
        entities = {key: decided.entities(key) for key in keys}
        # What can be seen of the graph is mentioned by something that can be seen.
        known = await self.kb.graph.mentions_of(sorted({key for meant in entities.values() for key in meant}), visible, 1)
        meant = {key: found for key in keys if (found := [entity for entity in entities[key] if entity in known])}
        chosen = (*choose_names(candidates, meant), *choose_names(given, meant))
        names = tuple(dict.fromkeys(entity for key in chosen for entity in meant[key]))
        anchors = tuple(name for name in names if any(e.weight >= ABOUT_HEADING for e in known[name]))
        return replace(query, names=names, anchors=anchors)

    async def _embedded(self, queries: Sequence[AnalyzedQuery]) -> list[AnalyzedQuery]:
        strategy = self.plan.strategy
        wanted: list[tuple[int, str, str]] = []
        for position, query in enumerate(queries):
            if strategy.uses_vector:
                wanted.append((position, "vector", query.question))
            if strategy.uses_keywords:
                wanted.append((position, "low_vector", ", ".join(query.low_keywords)))
                wanted.append((position, "high_vector", ", ".join(query.high_keywords)))
        wanted = [row for row in wanted if row[2]]
        if not wanted:
            return list(queries)
        await self.flow.probe()
        with self.record.timed("embed"):
            texts = list(dict.fromkeys(text for _, _, text in wanted))
            vectors = dict(zip(texts, await self.flow.services.embedding.embed(texts, "query"), strict=True))
        changes: list[dict[str, Any]] = [{} for _ in queries]
        for position, name, text in wanted:
            changes[position][name] = vectors[text]
        return [replace(query, **change) for query, change in zip(queries, changes, strict=True)]

    def _index(self, filter: SearchFilter | None) -> IndexSearches:
        settings = self.flow.settings
        return IndexSearches(
            kb=self.kb,
            filter=filter,
            top_k=self.plan.top_k,
            chunk_top_k=self.plan.chunk_top_k,
            reranks=self.plan.reranker is not None,
            threshold=settings.cosine_better_than_threshold,
            related_chunk_number=settings.related_chunk_number,
            pick_method=settings.kg_chunk_pick_method,
            max_graph_nodes=settings.max_graph_nodes,
        )

    async def _found(self, queries: Sequence[AnalyzedQuery], index: IndexSearches) -> list[Candidates]:
        """What each part of the question finds, all searched for at once."""
        async with task_group() as group:
            tasks = [group.create_task(self.plan.strategy.search(query, index)) for query in queries]
        found = [task.result() for task in tasks]
        for part, candidates in enumerate(found):
            prefix = f"{part + 1}." if len(found) > 1 else ""
            self.record.trace |= {f"{prefix}{name}": _rows(hits) for name, hits in candidates.stages.items()}
        return found

    async def _pooled(self, found: Sequence[Candidates], queries: Sequence[AnalyzedQuery], index: IndexSearches) -> Candidates:
        chunks = interleave_hits(*(candidates.chunks for candidates in found))
        if not chunks:
            chunks = await self._fallback(queries, index)
        self.record.trace["fused"] = _rows(chunks)
        return Candidates(chunks, merge_facts(*(candidates.facts for candidates in found)))

    async def _fallback(self, queries: Sequence[AnalyzedQuery], index: IndexSearches) -> tuple[Hit, ...]:
        """What plain search sees, where a strategy that sees only a part of the base found nothing."""
        if self.plan.strategy.mode == "naive":
            return ()
        query = queries[0]
        if query.vector is None:
            await self.flow.probe()
            vectors = await self.flow.services.embedding.embed([query.question], "query")
            query = replace(query, vector=vectors[0])
        stages = {
            "dense": await index.dense(query, index.chunk_top_k),
            "bm25": await index.bm25(query, index.chunk_top_k, 1.5, 0.75),
        }
        hits = fuse_hits(stages, {"dense": 1.0, "bm25": 1.0}, 60)
        if hits:
            self.record.degraded.append(FALLBACK)
        return hits

    async def _load(self, candidates: Candidates, filter: SearchFilter | None) -> tuple[dict[str, Chunk], dict[str, str]]:
        """The chunks worth ranking, with those that follow the best, and when their documents were created, by name."""
        depth = self.plan.chunk_top_k * (2 if self.plan.reranker else 1)
        created: dict[str, str] = {}

        async def load(ids: Sequence[str]) -> dict[str, Chunk]:
            return await self._live(ids, filter, created)

        ids = [hit.id for hit in candidates.chunks]
        chunks = await load(ids[:depth])
        if len(chunks) < min(depth, len(ids)):
            chunks |= await load(ids[depth:])
        if self.plan.follow:
            best = [chunks[chunk_id] for chunk_id in ids if chunk_id in chunks][:BEST_HITS]
            after = await following_chunks(best, self.plan.follow, load)
            order = with_following([chunk_id for chunk_id in ids if chunk_id in chunks], [chunk.id for chunk in after], depth)
            chunks |= {chunk.id: chunk for chunk in after}
            self.record.trace["following"] = [chunk.id for chunk in after]
        else:
            order = [chunk_id for chunk_id in ids if chunk_id in chunks][:depth]
        return {chunk_id: chunks[chunk_id] for chunk_id in order}, created

    async def _live(self, ids: Sequence[str], filter: SearchFilter | None, created: dict[str, str]) -> dict[str, Chunk]:
        """The chunks of versions that are served; a backend without snapshots may still hold others."""
        chunks = await self.kb.chunks.get_many(ids)
        records = await self.kb.status.get(sorted({chunk.document_id for chunk in chunks.values()}))
        created |= {record.name: record.created_at for record in records.values()}
        return {
            chunk_id: chunk
            for chunk_id, chunk in chunks.items()
            if (record := records.get(chunk.document_id)) is not None
            and record.version == chunk.version
            and (filter is None or filter.admits(chunk.document_id, chunk.collection))
        }

    async def _widened(self, kept: list[tuple[Chunk, float]]) -> list[tuple[Chunk, float]]:
        """The passages that the model is given for these chunks."""
        wanted = sorted({chunk.document_id for chunk, _ in kept if chunk.parent is not None})
        if not wanted:
            return kept
        documents = await self.kb.documents.get_many(wanted)
        return await asyncio.to_thread(widened, kept, documents)

    async def _ranked(self, question: str, chunks: Mapping[str, Chunk], candidates: Candidates) -> list[tuple[Chunk, float]]:
        scores = {hit.id: hit.score for hit in candidates.chunks}
        first = [(chunk, scores.get(chunk_id, 0.0)) for chunk_id, chunk in chunks.items()]
        if self.plan.reranker is None:
            return first
        ranked = await rerank(question, [chunk for chunk, _ in first], self.plan.reranker)
        if ranked is None:
            self.record.degraded.append(RERANK_FAILED)
            return first
        self.record.trace["reranked"] = [[chunk.id, score] for chunk, score in ranked]
        return ranked

    def _count(self, candidates: Candidates, kept: Sequence[tuple[Chunk, float]], context: Context) -> None:
        self.record.counts |= {
            "candidates": len(candidates.chunks),
            "chunks_before_budget": len(kept),
            "chunks": len(context.passages),
            "entities_before_budget": len(candidates.facts.entities),
            "entities": len(context.facts.entities),
            "relations_before_budget": len(candidates.facts.relations),
            "relations": len(context.facts.relations),
            "tokens": context.tokens,
        }
        self.record.trace["kept"] = [passage.chunk.id for passage in context.passages]


def _shared(ranked: Sequence[tuple[Chunk, float]], found: Sequence[Candidates]) -> list[tuple[Chunk, float]]:
    """The ranking with a share for each part of the question, however well another one ranks."""
    if len(found) == 1:
        return list(ranked)
    by_id = {chunk.id: (chunk, score) for chunk, score in ranked}
    order = share_places(list(by_id), [{hit.id for hit in candidates.chunks} for candidates in found])
    return [by_id[chunk_id] for chunk_id in order]


def _rows(hits: Sequence[Hit]) -> list[list[Any]]:
    return [[hit.id, hit.score] for hit in hits]


def _sources(references: Sequence[Reference]) -> str:
    if not references:
        return ""
    lines = [
        f"[{r.reference_id}] {r.file_path}" + (f", p. {', '.join(map(str, r.pages))}" if r.pages else "") for r in references
    ]
    return "\n\n" + "\n".join(lines)


def _mode(param: QueryParam, strategy: Retrieval | None) -> str:
    return param.mode if strategy is None else strategy.mode


def _since(prepared: Prepared) -> float:
    return time.perf_counter() - prepared.began
