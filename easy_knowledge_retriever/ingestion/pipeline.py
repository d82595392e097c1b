"""One ingest, written once, top to bottom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, StorageError, UpstreamAuth
from easy_knowledge_retriever.events import DocumentFinished, DocumentStarted, Observer, ignore
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.claiming import claimed_commit, claimed_document
from easy_knowledge_retriever.ingestion.committing import Version, commit_decision, commit_version, drop_staged
from easy_knowledge_retriever.ingestion.deciding import Decision
from easy_knowledge_retriever.ingestion.deletion import delete_document
from easy_knowledge_retriever.ingestion.embedding import GraphVectors, embed_chunks
from easy_knowledge_retriever.ingestion.estimating import Estimating
from easy_knowledge_retriever.ingestion.extracting import extract
from easy_knowledge_retriever.ingestion.model_guard import ModelGuard
from easy_knowledge_retriever.ingestion.origins import File, Given, Origin, identity_of, without_broken_characters
from easy_knowledge_retriever.ingestion.parses import drop_parses
from easy_knowledge_retriever.ingestion.planning import GraphChange, plan_change, plan_decision
from easy_knowledge_retriever.ingestion.progress import Run, now
from easy_knowledge_retriever.ingestion.reindexing import Reindexing
from easy_knowledge_retriever.ingestion.retrying import record_to_retry, served
from easy_knowledge_retriever.ingestion.sharing import Twin, twin_of
from easy_knowledge_retriever.ingestion.stamps import stamps_of
from easy_knowledge_retriever.ingestion.summarizing import Summaries
from easy_knowledge_retriever.ingestion.verification import Means, embed_missing, repair
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.reply_cache import trim_replies
from easy_knowledge_retriever.kg.usage_ledger import add_ingest_usage
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.base import Extractor, PaidExtractor
from easy_knowledge_retriever.operations.chunking import ChunkingFunction, apply_chunking, chunking_by_token_size
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.extraction_local import LocalNames
from easy_knowledge_retriever.operations.merging import counted
from easy_knowledge_retriever.operations.naming import naming_of
from easy_knowledge_retriever.operations.references import DeclaredReferences
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.account import Account, charging
from easy_knowledge_retriever.spending.estimate import Estimate
from easy_knowledge_retriever.text.tokenizer import TokenCounter, Tokenizer
from easy_knowledge_retriever.types import (
    Chunk,
    DeletionResult,
    DocRecord,
    DocStatus,
    Document,
    Extraction,
    FactKey,
    FloatVectors,
    IngestReport,
    Metadata,
    Naming,
    SummaryReport,
)

__all__ = ["Ingestion"]

logger = logging.getLogger("easy_knowledge_retriever")

Marker = tuple[str | None, bool]
"""``split_by_character`` and ``split_by_character_only``."""


class Ingestion:
    """Takes documents into one base. One version becomes visible in one step; the one before serves until then.

    Documents are read, cut, embedded and extracted side by side; what they change in the graph is committed one by one.

    Args:
        kb: The base, open.
        settings: Those of the retriever.
        embedding: Makes the vectors.
        tokenizer: Counts tokens.
        chunking_func: Cuts a document into chunks.
        extractors: Find entities and relations at no cost.
        llm_extractor: Finds them with a language model; each reply is kept before it is used.
        summarizer: Summarises long descriptions with a language model; None leaves them joined.
        observer: Is told what happens.
    """

    def __init__(  # noqa: PLR0913  # the parts of one flow, each given once
        self,
        kb: KnowledgeBase,
        settings: Settings,
        embedding: EmbeddingService,
        *,
        tokenizer: Tokenizer,
        chunking_func: ChunkingFunction = chunking_by_token_size,
        extractors: Sequence[Extractor] | None = None,
        llm_extractor: PaidExtractor | None = None,
        summarizer: Summarizer | None = None,
        observer: Observer = ignore,
    ) -> None:
        self._kb = kb
        self._settings = settings
        self._embedding = embedding
        self._tokenizer = tokenizer
        self._chunking_func = chunking_func
        self._extractors = (DeclaredReferences(), LocalNames()) if extractors is None else tuple(extractors)
        self._llm_extractor = llm_extractor
        self._summarizer = summarizer
        self._observer = observer
        self.guard = ModelGuard(kb, embedding, settings)
        limits = summarizer.limits if summarizer else SummaryLimits.of(settings)
        self._count = TokenCounter(tokenizer)
        self._summaries = Summaries(kb, embedding, limits, self._count, summarizer)
        self._together = 0
        self._owed: dict[FactKey, None] = {}
        self._room = asyncio.Semaphore(settings.max_parallel_insert)

    async def ingest_document(
        self,
        document: Document,
        *,
        split_by_character: str | None = None,
        split_by_character_only: bool = False,
        track_id: str = "",
    ) -> IngestReport:
        """Takes in a document that is parsed already.

        Args:
            document: Its digest is the version; a version that is there already is left as it is.
            split_by_character: Given to the chunking function.
            split_by_character_only: Given to the chunking function.
            track_id: Kept with its status.

        Raises:
            IngestionError: A step failed; the version before, if any, is untouched.
            IngestionStopped: The next model call would pass a spending ceiling; ingest it again to go on.
            EmbeddingMismatchError: The base holds vectors of another model; nothing was written.
        """
        return await self._ingest(Given(document), (split_by_character, split_by_character_only), track_id)

    async def ingest_file(
        self,
        path: str | Path,
        *,
        name: str = "",
        collection: str = "",
        metadata: Metadata = MappingProxyType({}),
        start_page: int | None = None,
        end_page: int | None = None,
        track_id: str = "",
    ) -> IngestReport:
        """Takes in a file.

        Args:
            path: The file; its suffix chooses the parser.
            name: What the document is called within its collection; the path as it is given if empty.
            collection: Where it belongs.
            metadata: What filters may ask for.
            start_page: First page wanted, 0-based.
            end_page: Last page wanted, 0-based and itself included.
            track_id: Kept with its status.

        Raises:
            IngestionError: A step failed; the version before, if any, is untouched.
            IngestionStopped: The next model call would pass a spending ceiling; ingest it again to go on.
            EmbeddingMismatchError: The base holds vectors of another model; nothing was written.
        """
        first, last = (start_page or 0) + 1, None if end_page is None else end_page + 1
        return await self._ingest(File.at(path, name or str(path), collection, metadata, first, last), (None, False), track_id)

    async def estimate(self, origins: Sequence[Origin]) -> Estimate:
        """What ingesting these would take. Each is read and cut; nothing is sent and nothing written.

        Args:
            origins: The documents.
        """
        extractor = self._llm_extractor if isinstance(self._llm_extractor, LLMExtractor) else None
        estimating = Estimating(self._kb, self._embedding, extractor, self._summarizer, self._count)
        return await estimating.all(origins, lambda document: self._chunks(document, (None, False)), self._settings)

    async def delete_document(self, document_id: str) -> DeletionResult:
        """Takes a document away, see :func:`~easy_knowledge_retriever.ingestion.deletion.delete_document`.

        Raises:
            StorageError: The base could not be changed, and was not.
        """
        async with claimed_document(self._kb, document_id):
            return await delete_document(self._kb, document_id, self._settings, self._embedding, self._summaries.mark)

    async def decide(self, deciding: Callable[[], Awaitable[Decision]]) -> None:
        """Puts into effect what a user decides of names, see :mod:`easy_knowledge_retriever.ingestion.deciding`.

        Args:
            deciding: Reads the names and decides; called again if the base changes meanwhile.

        Raises:
            EKRError: What deciding raises, or a text of an entity could not be embedded; nothing was changed.
        """
        await self.guard.check()
        await self.guard.probe()
        vectors = GraphVectors(self._embedding)
        async with claimed_commit(self._kb):
            while True:
                stamps, decision = await stamps_of(self._kb), await deciding()
                change = await plan_decision(self._kb, stamps, decision.now, decision.rows, self._settings)
                change = self._summaries.mark(change)
                await vectors.embed(change)
                if await commit_decision(self._kb, change, vectors.by_text):
                    return

    async def summarize(self) -> SummaryReport:
        """Makes the summaries that are still wanted.

        Raises:
            UpstreamAuth: The key was refused.
            StorageError: The base could not be changed.
        """
        await self.guard.check()
        wanted = await self._summaries.wanted()
        if wanted:
            await self.guard.probe()
        return await self._apart(wanted)

    async def repair(self, *, embed: bool = False) -> None:
        """Derives again what can be derived, see :mod:`easy_knowledge_retriever.ingestion.verification.repairing`.

        Args:
            embed: Also has the vectors made that are missing.

        Raises:
            UpstreamError: The embedding model failed; what needs no model is mended.
            StorageError: The base could not be changed, and was not.
        """
        means = Means(
            self._settings, lambda document: self._chunks(document, (None, False)), self._extractors, self._summaries.mark
        )
        async with claimed_commit(self._kb):
            await repair(self._kb, means)
            if embed:
                await embed_missing(self._kb, self._embedding, self.guard.stamp)

    @property
    def reindexing(self) -> Reindexing:
        """What makes the vectors of the base anew."""
        return Reindexing(self._kb, self._embedding, self.guard, self._count, self._observer)

    async def retry_document(self, document_id: str) -> IngestReport:
        """Asks the language model about each chunk of a document that it has not read: because it failed, or was not there.

        Args:
            document_id: Its id; the version that is served is meant.

        Raises:
            NotFound: There is no such document, or no version of it is served.
            ConfigError: There is no language model, or another version failed and waits to be ingested again.
            IngestionError: A step failed; the document is as it was.
            IngestionStopped: The next model call would pass a spending ceiling; retry it again to go on.
        """
        if self._llm_extractor is None:
            raise ConfigError("there is no language model to ask again", hint="give llm_service")
        async with claimed_document(self._kb, document_id), self._room:
            standing = await record_to_retry(self._kb, document_id)
            async with Run(self._kb, self._observer, standing) as run:
                self._observer(DocumentStarted(run.name))
                await self.guard.check()
                there = await served(self._kb, document_id)
                if len(there.read) == len(there.chunks):
                    return await self._unchanged(run, standing)
                await self.guard.probe()
                await run.begin(standing, standing.version)
                failpoint("record-written")
                found = await extract(run, there.document, there.chunks, (), self._llm_extractor, there.read)
                with run.stage("commit"):
                    extractions = (*there.others, *found)
                    naming = self._naming(there.chunks, extractions)
                    ready = Version(there.document, there.chunks, there.vectors, extractions, run.account, naming)
                    await self._commit(ready, _processed(run.record, there.document, there.chunks), standing)
                return _report(run, ready)

    async def _ingest(self, origin: Origin, marker: Marker, track_id: str) -> IngestReport:
        record = replace(origin.record(), track_id=track_id)
        # a second ingest of a document waits, and then finds that all is done
        async with claimed_document(self._kb, record.id), self._room, Run(self._kb, self._observer, record) as run:
            self._observer(DocumentStarted(run.name))
            await self.guard.check()
            with run.stage("read"):
                _check_names(record)
                version = await origin.version()
                failpoint("source-hashed")
            standing = (await self._kb.status.get([record.id])).get(record.id)
            if standing is not None and (version, record.name, record.collection) == identity_of(standing):
                return await self._unchanged(run, standing)
            await self.guard.probe()
            failpoint("accepted-before-record")
            await run.begin(standing, version)
            failpoint("record-written")

            with run.stage("parse"):
                run.refuse_if_deadly()
                document = without_broken_characters(await origin.document(self._kb))
            with run.stage("chunk"):
                chunks = await self._chunks(document, marker)
                failpoint("chunked")
                await run.survived()
            twin = await twin_of(self._kb, document, chunks)
            known = await twin.paid(self._kb, chunks) if twin else {}
            async with task_group() as group:  # a model that reads waits for its endpoint most of the time
                embedding = group.create_task(self._vectors(run, chunks, twin))
                extracting = group.create_task(extract(run, document, chunks, self._extractors, self._llm_extractor, known))
            failpoint("extracted")
            with run.stage("commit"):
                extractions = extracting.result()
                naming = self._naming(chunks, extractions)
                ready = Version(document, chunks, embedding.result(), extractions, run.account, naming)
                change = await self._commit(ready, _processed(run.record, document, chunks), standing)
            await self._summarize(run, [fact.key for fact in change.facts if fact.pending])
            await trim_replies(self._kb.llm_cache, self._settings.max_cache_mb)
            return _report(run, ready)

    async def _vectors(self, run: Run, chunks: Sequence[Chunk], twin: Twin | None) -> FloatVectors:
        with run.stage("embed", len(chunks)) as progress:
            vectors = await twin.vectors(self._kb) if twin else None
            if vectors is None:
                save = run.save_vectors if self._llm_extractor is not None else None
                vectors = await embed_chunks(self._embedding, chunks, progress, save)
            failpoint("embed-done")
            return vectors

    def _naming(self, chunks: Sequence[Chunk], extractions: Sequence[Extraction]) -> Naming:
        return naming_of(chunks, extractions) if self._settings.resolution == "names" else Naming()

    async def _chunks(self, document: Document, marker: Marker) -> tuple[Chunk, ...]:
        return await apply_chunking(
            self._chunking_func,
            document,
            self._tokenizer,
            split_by_character=marker[0],
            split_by_character_only=marker[1],
            chunk_token_size=self._settings.chunk_token_size,
            chunk_overlap_token_size=self._settings.chunk_overlap_token_size,
            parent_chunk_token_size=self._settings.parent_chunk_token_size,
        )

    async def _unchanged(self, run: Run, standing: DocRecord) -> IngestReport:
        """The version is there already: only what the caller knows of it may be new.

        An attempt at another version that failed since is forgotten.
        """
        record = replace(
            standing,
            status=DocStatus.PROCESSED,
            pending_version="",
            attempts=0,
            stage="",
            error="",
            metadata=run.record.metadata,
            track_id=run.record.track_id or standing.track_id,
        )
        if record != standing:
            async with self._kb.transaction() as inside:
                document = (await inside.documents.get_many([standing.id])).get(standing.id)
                if document is not None and document.metadata != record.metadata:
                    await inside.documents.put_many({document.id: replace(document, metadata=record.metadata)})
                if standing.pending_version:
                    await drop_staged(inside, standing.id)
                if standing.pending_version != standing.version:
                    await drop_parses(inside, standing.id, [standing.pending_version])
                await inside.status.put([replace(record, updated_at=now())])
        run.version = standing.version
        await self._summarize(run, await self._summaries.wanted_by(standing.id))
        self._observer(DocumentFinished(run.name, standing.chunk_count, 0, 0, run.seconds, unchanged=True))
        return IngestReport(
            document_id=standing.id,
            name=standing.name,
            version=standing.version,
            status=DocStatus.PROCESSED,
            chunks=standing.chunk_count,
            pages=standing.page_count,
            unchanged=True,
            warnings=tuple(run.warnings),
            usage=run.account.usage,
            cost=run.account.cost,
            track_id=run.record.track_id,
        )

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Documents taken in inside have their summaries made once, at the end, however many of them speak of one name."""
        self._together += 1
        try:
            yield
        finally:
            self._together -= 1
        if self._owed and not self._together:
            owed, self._owed = self._owed, {}
            for warning in (await self._warned(self._apart(list(owed)), len(owed))).warnings:
                logger.warning("%s", warning)

    async def _summarize(self, run: Run, wanted: Sequence[FactKey]) -> None:
        """Makes the summaries that are wanted now. The document is there: what fails is a warning."""
        if self._together:
            self._owed |= dict.fromkeys(wanted)
        elif wanted:
            with run.stage("summarize", len(wanted)) as progress:
                report = await self._warned(self._summaries.settle(wanted, progress), len(wanted))
            run.warnings += report.warnings

    async def _warned(self, settling: Awaitable[SummaryReport], wanted: int) -> SummaryReport:
        """What became of them, where nothing may fail by them any more."""
        try:
            return await settling
        except (UpstreamAuth, StorageError) as error:
            return SummaryReport(0, wanted, (f"summaries_pending: {wanted}", f"a summary could not be made: {error}"))

    async def _apart(self, wanted: Sequence[FactKey]) -> SummaryReport:
        """Makes summaries that belong to no single document; what they cost is written down with the day."""
        account = Account()
        try:
            with charging(account):
                return await self._summaries.settle(wanted)
        finally:
            if account.has_unwritten:
                with account.writing() as unwritten:
                    async with self._kb.transaction() as inside:
                        await add_ingest_usage(inside, unwritten())

    async def _commit(self, version: Version, record: DocRecord, standing: DocRecord | None) -> GraphChange:
        """Plans and embeds beside other ingests, then commits alone; planned anew if the base has changed meanwhile."""
        vectors = GraphVectors(self._embedding)
        change = await self._planned(version, vectors)
        model = None if change.stamps.embedding else await self.guard.stamp()
        paid_for = self._llm_extractor is not None
        async with claimed_commit(self._kb):
            while not await commit_version(
                self._kb, change, version, record, vectors.by_text, model, standing=standing, paid_for=paid_for
            ):
                change = await self._planned(version, vectors)
                model = None if change.stamps.embedding else await self.guard.stamp()
        return change

    async def _planned(self, version: Version, vectors: GraphVectors) -> GraphChange:
        document = version.document
        failpoint("merge-start")
        change = await plan_change(self._kb, document.id, version.said, self._settings)
        self.guard.compare(change.stamps)
        await vectors.embed(change)
        failpoint("planned")
        return self._summaries.mark(change)


def _check_names(record: DocRecord) -> None:
    """Refuses what no store keeps; the text of a document is cleaned, but an identity must stay what the caller says."""
    if "\0" in f"{record.id}{record.name}":
        raise ConfigError(f"{record.name!r} cannot be the name of a document", hint="take the NUL character out of name and id")


def _processed(record: DocRecord, document: Document, chunks: Sequence[Chunk]) -> DocRecord:
    return replace(
        record,
        name=document.name,
        collection=document.collection,
        status=DocStatus.PROCESSED,
        version=document.digest,
        pending_version="",
        attempts=0,
        chunk_count=len(chunks),
        page_count=len(document.pages),
        title=document.title,
        metadata=document.metadata,
        updated_at=now(),
    )


def _report(run: Run, version: Version) -> IngestReport:
    document = version.document
    entities, relations = counted(version.extractions)
    failpoint("event-published")
    run.observer(DocumentFinished(run.name, len(version.chunks), entities, relations, run.seconds))
    return IngestReport(
        document_id=document.id,
        name=document.name,
        version=document.digest,
        status=DocStatus.PROCESSED,
        chunks=len(version.chunks),
        entities=entities,
        relations=relations,
        pages=len(document.pages),
        warnings=(*document.warnings, *run.warnings),
        failed_chunks=tuple(run.failed_chunks),
        refused_chunks=tuple(run.refused_chunks),
        timings=run.timings,
        usage=run.account.usage,
        cost=run.account.cost,
        track_id=run.record.track_id,
        document=document,
    )
