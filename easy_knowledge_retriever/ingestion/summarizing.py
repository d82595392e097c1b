"""Summaries of what is said too often or at too great a length to be joined: wanted, made, kept and thrown away.

A change of the graph *marks* what wants a summary; the joined text stands in, and nothing waits for a model. When the change
is committed the summaries are made, beside other ingests, and put in place in one more commit, if what they cover is still
exactly what is said. One that could not be made stays wanted until something touches it or all of them are asked for.

The table ``summaries`` has two kinds of rows, ``wanted/FACT`` and ``made/FACT/SET``, with digests in the place of names and
texts. A made one is a reply that was paid for and is not in place yet, or covers a part of what is said and spares asking for
that part again. It goes with the first of the fragments it covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import (
    BadResponse,
    BudgetExceeded,
    ContentRefused,
    ContextTooLong,
    EKRError,
    UpstreamAuth,
    UpstreamError,
)
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.claiming import claimed_commit
from easy_knowledge_retriever.ingestion.planning import GraphChange
from easy_knowledge_retriever.ingestion.stamps import Stamps, Unembedded, put_stamps, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.base import Progress
from easy_knowledge_retriever.operations.budget import CountTokens
from easy_knowledge_retriever.operations.ledger import ledger_of
from easy_knowledge_retriever.operations.merging import evidence_in
from easy_knowledge_retriever.operations.name_rows import identifier_of
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import (
    Entity,
    FactKey,
    FloatVector,
    Relation,
    RelationKey,
    Summary,
    SummaryReport,
    Usage,
    VectorRecord,
)

__all__ = ["WANTED", "Summaries", "put_marks", "said", "wanted_key"]

WANTED: Final = "wanted/"
"""Begins the key of each row that stands for a summary that is wanted."""

_AT_ONCE: Final = 64
"""Facts whose summaries are made side by side and put in place together."""
_ABOUT_THE_FACT = (BadResponse, ContentRefused, ContextTooLong)
"""After any other failure the model is not asked again: it is down, or too dear."""
F = TypeVar("F", Entity, Relation)


def _ignored(done: int, total: int) -> None:
    """Progress that nobody wants to see."""


def _owner(key: FactKey) -> str:
    return digest(f"entity {key}" if isinstance(key, str) else f"relation {key.id}")


def wanted_key(key: FactKey) -> str:
    """Key of the row that says that a fact wants a summary."""
    return WANTED + _owner(key)


def _made(key: FactKey, summary_key: str = "") -> str:
    return f"made/{_owner(key)}/{summary_key}"


def said(fact: Entity | Relation | None) -> frozenset[str]:
    """Digests of what is said of a fact."""
    return frozenset(digest(fragment.text) for fragment in fact.fragments) if fact else frozenset()


async def put_marks(kb: KnowledgeBase, change: GraphChange) -> None:
    """Writes which summaries a change wants, and throws away those of what is not said any more. Inside a transaction."""
    facts = {fact.key: fact for fact in change.facts}
    wanted = {key: fact for key, fact in facts.items() if fact.pending}
    gone = [wanted_key(key) for key in change.summarized if key not in wanted]
    for key in change.summarized:
        still = said(facts.get(key))
        gone += [row async for row, summary in kb.summaries.scan(_made(key)) if not still.issuperset(summary.covers)]
    await kb.summaries.delete_many(gone)
    await kb.summaries.put_many({wanted_key(key): Summary(key) for key in wanted})


@dataclass(slots=True)
class _Work:
    """Summaries on their way. To the summarizer it is the store."""

    kb: KnowledgeBase
    rows: dict[str, str] = field(default_factory=dict)
    """Key of a summary → its text, for those there are."""
    fresh: dict[str, Summary] = field(default_factory=dict)
    """Replies that are not durable yet."""
    done: list[Entity | Relation] = field(default_factory=list)
    """Facts with their new summaries, which are not in place yet."""
    placed: int = 0
    pending: int = 0
    usage: Usage = field(default_factory=Usage)
    errors: list[EKRError] = field(default_factory=list)
    stopped: bool = False

    def made(self, key: str) -> str:
        return self.rows.get(key, "")

    async def keep(self, key: str, summary: Summary) -> None:
        failpoint("summary-call")
        self.fresh[key] = summary
        async with claimed_commit(self.kb):
            if key in self.fresh:  # else it was written with another one while this one waited
                await self._write()
        self.rows[key] = summary.text
        failpoint("summary-durable")

    async def _write(self) -> None:
        """Makes all replies durable that came in by now."""
        fresh, self.fresh = self.fresh, {}
        try:
            async with self.kb.transaction() as inside:
                now = await _facts(inside, [summary.of for summary in fresh.values()])
                # a deletion may have come between: nothing of what it took away is written again
                still = {key: row for key, row in fresh.items() if said(now.get(row.of)).issuperset(row.covers)}
                await inside.summaries.put_many({_made(row.of, key): row for key, row in still.items()})
        except BaseException:
            self.fresh = fresh | self.fresh
            raise

    def spent(self, usage: Usage) -> None:
        self.usage += usage

    def failed(self, error: EKRError) -> None:
        """Notes a failure. Only where it is about one fact are others asked for."""
        self.errors.append(error)
        self.stopped |= not isinstance(error, _ABOUT_THE_FACT)

    def report(self) -> SummaryReport:
        """What became of them."""
        reasons = sorted({f"a summary could not be made: {error}" for error in self.errors})
        warnings = (f"summaries_pending: {self.pending}", *reasons) if self.pending else ()
        return SummaryReport(self.placed, self.pending, warnings, self.usage)


class Summaries:
    """The summaries of one base.

    Args:
        kb: The base.
        embedding: Makes the vectors.
        limits: When a summary is wanted.
        count: Counts tokens.
        summarizer: Makes them; None: what is marked already stays so.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        embedding: EmbeddingService,
        limits: SummaryLimits,
        count: CountTokens,
        summarizer: Summarizer | None,
    ) -> None:
        self._kb = kb
        self._embedding = embedding
        self._limits = limits
        self._count = count
        self._summarizer = summarizer

    def mark(self, change: GraphChange) -> GraphChange:
        """The change, with what wants a summary marked. No model is asked."""
        kept = change.summarized if self._summarizer is None else None

        def marked(fact: F) -> F:
            asked = not fact.summary and (kept is None or fact.key in kept)
            return replace(fact, pending=True) if asked and self._limits.call_for_summary(fact, self._count) else fact

        return replace(
            change,
            entities=tuple(marked(entity) for entity in change.entities),
            relations=tuple(marked(relation) for relation in change.relations),
        )

    async def wanted(self) -> list[FactKey]:
        """Everything that wants a summary, in a stable order."""
        return [summary.of async for _, summary in self._kb.summaries.scan(WANTED)]

    async def wanted_by(self, document_id: str) -> list[FactKey]:
        """What wants a summary among what a document speaks of."""
        wanted = await self.wanted() if self._summarizer else []
        if not wanted:
            return []
        chunk_ids = (await self._kb.manifests.get_many([document_id])).get(document_id, ())
        ledger = (await ledger_of(self._kb, chunk_ids)).values()
        mentioned = evidence_in(((extraction, "") for extraction in ledger), await identifier_of(self._kb, ledger))
        return [key for key in wanted if key in (mentioned.entities if isinstance(key, str) else mentioned.relations)]

    async def settle(self, keys: Sequence[FactKey], progress: Progress = _ignored) -> SummaryReport:
        """Makes the summaries of these and puts them in place. What fails is counted and stays wanted.

        Args:
            keys: Entities and relations; those that want none are left as they are.
            progress: Told now and then.

        Raises:
            UpstreamAuth: The key was refused.
            StorageError: The base could not be changed.
        """
        work = _Work(self._kb)
        for at in range(0, len(keys), _AT_ONCE):
            part = keys[at : at + _AT_ONCE]
            if self._summarizer is None or work.stopped:
                work.pending += len(part)
                continue
            await self._make(work, part, self._summarizer)
            await self._place(work, part, self._summarizer)
            progress(at + len(part), len(keys))
        return work.report()

    async def _make(self, work: _Work, keys: Sequence[FactKey], summarizer: Summarizer) -> None:
        """Asks for the summaries of those that still want one."""
        facts = [fact for fact in (await _facts(self._kb, keys)).values() if fact.pending]
        groups = {fact.key: summarizer.group([fragment.text for fragment in fact.fragments]) for fact in facts}
        keys_of = {key: [summarizer.key(key, part) for part in group.all()] for key, group in groups.items()}
        rows = {_made(key, summary_key): summary_key for key, found in keys_of.items() for summary_key in found}
        work.rows = {rows[row]: summary.text for row, summary in (await self._kb.summaries.get_many(list(rows))).items()}

        async def one(fact: Entity | Relation) -> None:
            try:
                if work.stopped:
                    work.pending += 1
                else:
                    summary = await summarizer.summary(fact, groups[fact.key], work)
                    work.done.append(replace(fact, summary=summary, pending=False))
            except UpstreamAuth:
                raise
            except (UpstreamError, BudgetExceeded) as error:
                work.pending += 1
                work.failed(error)

        await map_bounded(one, facts, _AT_ONCE)

    async def _place(self, work: _Work, keys: Sequence[FactKey], summarizer: Summarizer) -> None:
        """Puts what was made in the place of the joined texts, where nothing else is said meanwhile."""
        done, work.done = {fact.key: fact for fact in work.done}, []
        standing = await _facts(self._kb, list(done))
        summarized = [
            replace(fact, summary=done[key].summary, pending=False)
            for key, fact in standing.items()
            if fact.pending and said(fact) == said(done[key])
        ]
        try:
            vectors = await self._vectors([fact.indexed_text for fact in summarized])
        except UpstreamError as error:  # the summaries are kept, and wait for their vectors
            work.pending += len(summarized)
            work.failed(error)
            return
        async with claimed_commit(self._kb), self._kb.transaction() as inside:
            now = await _facts(inside, keys)
            fitting = [fact for fact in summarized if now.get(fact.key) == standing[fact.key]]
            await _put_summaries(inside, fitting, vectors)
            idle = [key for key in keys if key not in now or not now[key].pending]
            await inside.summaries.delete_many([wanted_key(key) for key in (*idle, *(fact.key for fact in fitting))])
            for fact in fitting:
                parts = summarizer.group([fragment.text for fragment in fact.fragments]).parts
                needed = {_made(fact.key, summarizer.key(fact.key, below)) for part in parts for below in part.all()}
                rows = [row async for row, _ in inside.summaries.scan(_made(fact.key))]
                await inside.summaries.delete_many([row for row in rows if row not in needed])
        work.placed += len(fitting)

    async def _vectors(self, texts: Sequence[str]) -> dict[str, FloatVector]:
        if not texts:
            return {}
        return dict(zip(texts, await self._embedding.embed(texts, "document"), strict=True))


async def _facts(kb: KnowledgeBase, keys: Sequence[FactKey]) -> dict[FactKey, Entity | Relation]:
    """The entities and relations of these keys."""
    names = [key for key in keys if isinstance(key, str)]
    pairs = [key for key in keys if isinstance(key, RelationKey)]
    found: list[Entity | Relation] = []
    if names:
        found += (await kb.graph.entities(names)).values()
    if pairs:
        found += (await kb.graph.relations(pairs)).values()
    return {fact.key: fact for fact in found}


async def _put_summaries(kb: KnowledgeBase, facts: Sequence[Entity | Relation], vectors: Mapping[str, FloatVector]) -> None:
    """Writes facts with their summaries and vectors, as a change of the base that voids the plans of others."""
    if not facts:
        return
    entities = [fact for fact in facts if isinstance(fact, Entity)]
    relations = [fact for fact in facts if isinstance(fact, Relation)]
    await kb.graph.put_entities(entities)
    await kb.graph.put_relations(relations)
    await kb.entity_vectors.put_many([VectorRecord(fact.key, vectors[fact.indexed_text]) for fact in entities])
    await kb.relation_vectors.put_many([VectorRecord(fact.key.id, vectors[fact.indexed_text]) for fact in relations])
    stamps, settled = await stamps_of(kb), {fact.key for fact in facts}
    waiting = Unembedded(
        tuple(key for key in stamps.unembedded.entities if key not in settled),
        tuple(key for key in stamps.unembedded.relations if key not in settled),
    )
    await put_stamps(kb, stamps, Stamps(stamps.generation + 1, stamps.embedding, waiting))
