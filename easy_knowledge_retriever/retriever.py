"""EasyKnowledgeRetriever: wiring, lifecycle and the calls of the public interface. No algorithm lives here."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import ConfigError, IngestionError, IngestionStopped, NotFound, StorageNotOpenError
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.importing.lightrag import ImportReport, LightRAGImport
from easy_knowledge_retriever.importing.lightrag_index import is_lightrag_index, read_lightrag_index
from easy_knowledge_retriever.ingestion.deciding import decided_apart, decided_one
from easy_knowledge_retriever.ingestion.model_guard import MadeBy, check_dimension
from easy_knowledge_retriever.ingestion.origins import File, Given
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.reindexing import ReindexEstimate, ReindexReport
from easy_knowledge_retriever.ingestion.stamps import stamps_of
from easy_knowledge_retriever.ingestion.verification import VerifyReport, verify
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.question_usage import QuestionUsage
from easy_knowledge_retriever.kg.reply_cache import CacheSize, ReplyCache, cache_size
from easy_knowledge_retriever.kg.usage_report import UsageReport, usage_report
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.models import EmbeddingChoice, JudgeChoice, LLMChoice, ModelChoices, RerankerChoice, choose_models
from easy_knowledge_retriever.operating.archives import Manifest
from easy_knowledge_retriever.operating.backing_up import BackupReport, backup
from easy_knowledge_retriever.operating.clearing import drop_all
from easy_knowledge_retriever.operating.exporting import export_base
from easy_knowledge_retriever.operating.exporting_data import export_data
from easy_knowledge_retriever.operating.filling import refuse_unfinished
from easy_knowledge_retriever.operating.importing import import_base
from easy_knowledge_retriever.operating.migrating import migrate_base
from easy_knowledge_retriever.operating.purging import purge as purge_files
from easy_knowledge_retriever.operating.restoring import restore
from easy_knowledge_retriever.operations.base import PromptHook
from easy_knowledge_retriever.operations.chunking import ChunkingFunction, chunking_by_token_size
from easy_knowledge_retriever.operations.context import entity_data, relation_data
from easy_knowledge_retriever.operations.inserting import inserted_documents
from easy_knowledge_retriever.operations.merges import entity_of, merges_in, suggested_merges
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.retrieval.pipeline import Retrieving, Services
from easy_knowledge_retriever.settings import ExtractionFormat, Gleaning, Settings, check_slug
from easy_knowledge_retriever.spending.budget import Budget
from easy_knowledge_retriever.spending.estimate import Estimate
from easy_knowledge_retriever.spending.meter import Till
from easy_knowledge_retriever.spending.prices import PriceChoice, price_table
from easy_knowledge_retriever.storages import StorageChoice, open_description
from easy_knowledge_retriever.streaming import AnswerStream
from easy_knowledge_retriever.sync import SyncRetriever
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer, TokenCounter, Tokenizer
from easy_knowledge_retriever.types import (
    Context,
    DeletionResult,
    DocRecord,
    DocStatus,
    Document,
    ExtractionExample,
    IngestReport,
    Merge,
    MergeSuggestion,
    Metadata,
    Relation,
    RelationKey,
    SummaryReport,
    Usage,
)

__all__ = ["EasyKnowledgeRetriever", "KnowledgeGraph"]

logger = logging.getLogger("easy_knowledge_retriever")

_DEFAULT = Settings()


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """A part of the graph as plain data, for drawing."""

    nodes: tuple[Mapping[str, Any], ...]
    edges: tuple[Mapping[str, Any], ...]
    is_truncated: bool


class EasyKnowledgeRetriever:
    """A knowledge base: documents in, answers with page-exact citations out.

    With no argument it runs on one SQLite file and a local embedding model, needs no key and no network, and answers
    with the sentences of the documents. Use it with ``async with``, or call :meth:`initialize_storages` and
    :meth:`finalize_storages`. One retriever belongs to the event loop that opened it.

    Args:
        working_dir: Folder of the local store; two retrievers with two folders never meet.
        kv_storage: A storage, a callable that gives one, a class name, or None for the SQLite file.
        vector_storage: The same for vectors.
        graph_storage: The same for the graph.
        doc_status_storage: The same for the document status.
        lexical_storage: The same for the BM25 index; it follows ``kv_storage`` if not given.
        workspace: Separates bases in one backend; letters, digits, ``-`` and ``_``.
        top_k: Entities and relations a graph search gives.
        chunk_top_k: Passages kept after the rerank.
        max_entity_tokens: Tokens of entities in a context.
        max_relation_tokens: Tokens of relations in a context.
        max_total_tokens: Tokens of a context.
        cosine_better_than_threshold: Floor of vector search.
        related_chunk_number: Chunks pulled per entity or relation.
        kg_chunk_pick_method: ``VECTOR`` or ``WEIGHT``: how these are chosen.
        entity_extract_max_gleaning: Extra extraction rounds a chunk; they end early when one adds nothing.
        entity_extract_gleaning: ``always``, or ``where_missing``: only where a reply was cut, lacks its end, or lacks names
            that stand in the chunk.
        extraction_format: ``lines`` or ``json``: how a model is asked to write what it finds; either is read.
        extraction_examples: Passages with what is wanted of them, in place of the one that comes with the prompt.
        force_llm_summary_on_merge: With a language model, distinct descriptions of one entity or relation that call for a
            summary. A value other than the default goes before that of the service.
        chunk_token_size: Tokens of a chunk.
        chunk_overlap_token_size: Tokens two chunks share.
        parent_chunk_token_size: Tokens of the passage around a chunk that a model is given for it, more than a chunk has. None
            gives it the chunk.
        tokenizer: Counts tokens; by default that of ``tiktoken_model_name``, which works offline.
        tiktoken_model_name: Model whose tokens are counted.
        chunking_func: Cuts a text; sync or async. The default keeps headings and pages.
        embedding_service: None means the local model.
        llm_service: None means local extraction and extractive answers.
        reranker_service: None means no rerank.
        citation_judge: Has the last word on claims of a model's answer that words do not settle: a ``CitationJudge``,
            ``"llm"`` for the model that answers, or None for words and embeddings alone.
        enable_llm_cache: Keeps replies of the model; a saving only.
        enable_llm_cache_for_entity_extract: The same for extraction.
        max_parallel_insert: Documents ingested at once.
        max_graph_nodes: Cap of sub-graph reads.
        max_source_ids_per_entity: Chunk ids shown per entity; all mentions are kept.
        max_source_ids_per_relation: The same per relation.
        source_ids_limit_method: ``KEEP`` shows the first in order of id, ``FIFO`` the last.
        max_file_paths: Document names shown per entity or relation.
        file_path_more_placeholder: Stands for those left out.
        language: Language of descriptions a model writes; ``auto`` is that of the document.
        entity_types: What a model is asked to look for; others are kept and counted in a warning.
        relation_types: Keywords a model may give to relations; any if empty. Others are kept and counted in a warning.
        resolution: ``names`` merges the variants of a name in the documents ingested from now on; ``off`` does not.
        prompts: What a language model is told, a ``PromptSet``; None means the library's own.
        on_prompt: Is called with each prompt for an answer and the passages in it before it is sent; an exception stops the
            call.
        observer: Is given progress events; must return at once.
        durability: ``full``, or ``relaxed``: a power cut may take the last commits.
        lock_timeout: Seconds to wait for another writer.
        allow_network_fs: Whether a folder on a network file system (NFS, CIFS, 9p …) may be written to. Locks do not hold
            there: see to it that one process at a time uses it.
        embedding_check: ``error`` or ``warn`` when the store was made with another model of the same dimension.
        prices: Model → :class:`~easy_knowledge_retriever.spending.prices.Price`, or a TOML or JSON file that says the same;
            what a model costs that is not in it is not known.
        max_cost: Ceiling of what the models may cost from opening to closing, in the currency of the prices. A call that
            would pass it is not sent. It needs the price of every model in use.
        max_llm_calls: The same for requests to language models.
        max_minutes: The same for the time since opening.
        max_cache_mb: Megabytes of kept replies; the oldest go first. None is no limit.
        cosine_threshold: Another name for ``cosine_better_than_threshold``.
        log_level: No effect; use :mod:`logging`.
        log_file_path: No effect; use :mod:`logging`.

    Raises:
        ConfigError: An argument cannot be used.
    """

    def __init__(  # noqa: PLR0913  # the fields of the public surface
        self,
        working_dir: str | Path = _DEFAULT.working_dir,
        kv_storage: StorageChoice[KVStorage] = None,
        vector_storage: StorageChoice[VectorStorage] = None,
        graph_storage: StorageChoice[GraphStorage] = None,
        doc_status_storage: StorageChoice[DocStatusStorage] = None,
        lexical_storage: StorageChoice[LexicalStorage] = None,
        *,
        workspace: str = _DEFAULT.workspace,
        top_k: int = _DEFAULT.top_k,
        chunk_top_k: int = _DEFAULT.chunk_top_k,
        max_entity_tokens: int = _DEFAULT.max_entity_tokens,
        max_relation_tokens: int = _DEFAULT.max_relation_tokens,
        max_total_tokens: int = _DEFAULT.max_total_tokens,
        cosine_better_than_threshold: float = _DEFAULT.cosine_better_than_threshold,
        related_chunk_number: int = _DEFAULT.related_chunk_number,
        kg_chunk_pick_method: Literal["VECTOR", "WEIGHT"] = _DEFAULT.kg_chunk_pick_method,
        entity_extract_max_gleaning: int = _DEFAULT.entity_extract_max_gleaning,
        entity_extract_gleaning: Gleaning = _DEFAULT.entity_extract_gleaning,
        extraction_format: ExtractionFormat = _DEFAULT.extraction_format,
        extraction_examples: Sequence[ExtractionExample] = _DEFAULT.extraction_examples,
        force_llm_summary_on_merge: int = _DEFAULT.force_llm_summary_on_merge,
        chunk_token_size: int = _DEFAULT.chunk_token_size,
        chunk_overlap_token_size: int = _DEFAULT.chunk_overlap_token_size,
        parent_chunk_token_size: int | None = _DEFAULT.parent_chunk_token_size,
        tokenizer: Tokenizer | None = None,
        tiktoken_model_name: str = _DEFAULT.tiktoken_model_name,
        chunking_func: ChunkingFunction = chunking_by_token_size,
        embedding_service: EmbeddingChoice = None,
        llm_service: LLMChoice = None,
        reranker_service: RerankerChoice = None,
        citation_judge: JudgeChoice = None,
        enable_llm_cache: bool = _DEFAULT.enable_llm_cache,
        enable_llm_cache_for_entity_extract: bool = _DEFAULT.enable_llm_cache_for_entity_extract,
        max_parallel_insert: int = _DEFAULT.max_parallel_insert,
        max_graph_nodes: int = _DEFAULT.max_graph_nodes,
        max_source_ids_per_entity: int = _DEFAULT.max_source_ids_per_entity,
        max_source_ids_per_relation: int = _DEFAULT.max_source_ids_per_relation,
        source_ids_limit_method: Literal["FIFO", "KEEP"] = _DEFAULT.source_ids_limit_method,
        max_file_paths: int = _DEFAULT.max_file_paths,
        file_path_more_placeholder: str = _DEFAULT.file_path_more_placeholder,
        language: str = _DEFAULT.language,
        entity_types: Sequence[str] = _DEFAULT.entity_types,
        relation_types: Sequence[str] = _DEFAULT.relation_types,
        resolution: Literal["off", "names"] = _DEFAULT.resolution,
        prompts: PromptSet | None = None,
        on_prompt: PromptHook | None = None,
        observer: Observer = ignore,
        durability: Literal["full", "relaxed"] = _DEFAULT.durability,
        lock_timeout: float = _DEFAULT.lock_timeout,
        allow_network_fs: bool = _DEFAULT.allow_network_fs,
        embedding_check: Literal["error", "warn"] = _DEFAULT.embedding_check,
        prices: PriceChoice = None,
        max_cost: float | None = _DEFAULT.max_cost,
        max_llm_calls: int | None = _DEFAULT.max_llm_calls,
        max_minutes: float | None = _DEFAULT.max_minutes,
        max_cache_mb: float | None = _DEFAULT.max_cache_mb,
        cosine_threshold: float | None = None,
        log_level: object = None,
        log_file_path: object = None,
    ) -> None:
        given = dict(locals())
        if cosine_threshold is not None:
            given["cosine_better_than_threshold"] = cosine_threshold
        if log_level is not None or log_file_path is not None:
            logger.warning("log_level and log_file_path have no effect: configure the logger %r", logger.name)
        given["working_dir"] = str(working_dir)
        given |= {name: tuple(given[name]) for name in ("entity_types", "relation_types", "extraction_examples")}
        self.settings = Settings(**{spec.name: given[spec.name] for spec in fields(Settings)})
        self.observer = observer
        self.sync = SyncRetriever(self)
        self._kb = open_description(self.settings, kv_storage, doc_status_storage, vector_storage, lexical_storage, graph_storage)
        self._tokenizer = tokenizer or TiktokenTokenizer(tiktoken_model_name)
        self._budget = Budget(max_cost, max_llm_calls, max_minutes)
        count_tokens = TokenCounter(self._tokenizer)
        till = Till(self._budget, price_table(prices), count_tokens, observer)
        choices = ModelChoices(
            embedding_service, llm_service, reranker_service, prompts or PromptSet(), on_prompt, citation_judge
        )
        cache = ReplyCache(self._kb.llm_cache, max_cache_mb)
        models = choose_models(self.settings, choices, cache, observer, till, count_tokens)
        self._models = models
        self._ingestion = Ingestion(
            self._kb,
            self.settings,
            models.embedding,
            tokenizer=self._tokenizer,
            chunking_func=chunking_func,
            llm_extractor=models.llm_extractor,
            summarizer=models.summarizer,
            observer=observer,
        )
        asking = models.asking
        services = Services(
            models.embedding,
            asking.keywords,
            asking.answerer,
            count_tokens,
            models.reranker,
            asking.rewriter,
            asking.splitter,
            models.with_model,
            models.with_reranker,
        )
        self._questions = QuestionUsage(self._kb)
        self._retrieving = Retrieving(
            self._kb, self.settings, services, observer, self._check_model, self._ingestion.guard.probe, self._questions.add
        )
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        await self.initialize_storages()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.finalize_storages()

    async def initialize_storages(self) -> None:
        """Opens everything, creating what is missing. A second call does nothing.

        Raises:
            StorageError: A storage cannot be opened, or the base was being filled when that was interrupted.
            EmbeddingMismatchError: It holds vectors of another dimension than the model makes, and nothing was written.
                With ``embedding_check="warn"`` it is opened for what needs no model.
            ConfigError: It is open in another event loop that is still running.
        """
        if self._loop is not None:
            self._opened()
            return
        async with AsyncExitStack() as undo:
            await self._kb.open()
            undo.push_async_callback(self._kb.close)
            await refuse_unfinished(self._kb)
            if self.settings.embedding_check == "error":
                check_dimension(await stamps_of(self._kb), self._models.embedding)
            await recover(self._kb)
            await self._point_at_another_index()
            undo.pop_all()
        self._loop = asyncio.get_running_loop()
        self._ingestion.guard.forget()
        self._budget.start()

    @asynccontextmanager
    async def _with_any_model(self) -> AsyncIterator[None]:
        """The base open, whatever model made its vectors."""
        if self._loop is not None:
            self._opened()
            yield
            return
        async with AsyncExitStack() as stack:
            await self._kb.open()
            stack.push_async_callback(self._kb.close)
            self._loop = asyncio.get_running_loop()
            self._budget.start()
            try:
                yield
            finally:
                self._loop = None

    async def finalize_storages(self) -> None:
        """Closes everything, all of it even if one part fails. A second call does nothing.

        Raises:
            StorageError: The last failure.
        """
        if self._loop is None:
            return
        self._loop = None
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._kb.close)
            stack.push_async_callback(self._models.aclose)
            stack.push_async_callback(self._questions.write)

    async def _point_at_another_index(self) -> None:
        """Says how to take in an index of another system that lies in the folder of an empty base."""
        folder = Path(self.settings.working_dir)
        if await asyncio.to_thread(is_lightrag_index, folder) and not await self._kb.status.page(limit=1):
            logger.warning("%s holds an index of LightRAG or of an earlier version: 'ekr import-lightrag' takes it in", folder)

    def _opened(self) -> KnowledgeBase:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            raise StorageNotOpenError(
                "the knowledge base is not open", hint="use 'async with' or await initialize_storages() first"
            )
        if self._loop is not loop:
            if not self._loop.is_closed():
                raise ConfigError(
                    "this retriever is open in another event loop",
                    hint="use it from one loop, or make every call through its 'sync' attribute",
                )
            self._loop = loop
        return self._kb

    async def _check_model(self, seen: KnowledgeBase | None = None) -> None:
        """Refuses to compare the vectors of two models; ``seen`` is a view of the base, which may have changed since opening."""
        kb = self._opened()
        await self._ingestion.guard.check(seen or kb)

    async def ingest(
        self,
        file_path: str | Path,
        start_page: int | None = None,
        end_page: int | None = None,
        *,
        name: str = "",
        collection: str = "",
        metadata: Metadata | None = None,
        raise_on_error: bool = True,
    ) -> IngestReport:
        """Makes a file searchable, and returns when it is.

        Args:
            file_path: A file of a kind that ``ekr formats`` lists.
            start_page: First page to read, 0-based; the first if None.
            end_page: Last page to read, 0-based and included; the last if None.
            name: What the document is called; the path as given if empty. It is the identity within the collection: a
                changed file of the same name replaces the version before it.
            collection: The collection it belongs to; a slug.
            metadata: What a filter may ask for.
            raise_on_error: False: a failure is a report with ``status`` failed, or interrupted by a spending ceiling.

        Raises:
            IngestionError: It was not ingested; ``__cause__`` says why. The version before it is untouched.
            IngestionStopped: The next model call would pass a spending ceiling; ingest it again to go on.
            StorageNotOpenError: The retriever is not open.
        """
        self._opened()
        check_slug(collection)
        try:
            return await self._ingestion.ingest_file(
                Path(file_path),
                name=name,
                collection=collection,
                metadata=metadata or {},
                start_page=start_page,
                end_page=end_page,
            )
        except IngestionError as failure:
            if raise_on_error:
                raise
            status = DocStatus.INTERRUPTED if isinstance(failure, IngestionStopped) else DocStatus.FAILED
            usage = failure.usage or Usage()
            return IngestReport("", failure.document, "", status, usage=usage, cost=failure.cost, error=str(failure))

    async def estimate(
        self,
        file_paths: str | Path | Sequence[str | Path] = (),
        *,
        texts: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (),
        names: Sequence[str] | None = None,
        collection: str = "",
    ) -> Estimate:
        """What ingesting some documents would take: calls, tokens, cost and time, each with an error bar.

        Files are read and cut as :meth:`ingest` does; nothing is sent to a model and nothing is written. What is there
        already (unchanged versions, replies of an interrupted ingest, cached replies) costs nothing.

        Args:
            file_paths: Files, as for :meth:`ingest`.
            texts: Texts, as for :meth:`ainsert`.
            names: What each file and then each text is called; if None, a file is called by its path.
            collection: The collection they would belong to.

        Raises:
            ConfigError: The numbers of documents and names differ, or a text is none.
            StorageNotOpenError: The retriever is not open.
        """
        self._opened()
        check_slug(collection)
        paths = [file_paths] if isinstance(file_paths, str | Path) else list(file_paths)
        given = [texts] if isinstance(texts, str | Mapping) else list(texts)
        called = None if names is None else list(names)
        if called is not None and len(called) != len(paths) + len(given):
            raise ConfigError(
                f"there are {len(called)} names for {len(paths)} files and {len(given)} texts",
                hint="give one each, or none at all",
            )
        file_names = [str(path) for path in paths] if called is None else called[: len(paths)]
        files = [File.at(path, name, collection, {}, 1, None) for path, name in zip(paths, file_names, strict=True)]
        text_names = None if called is None else called[len(paths) :]
        inserted = inserted_documents(given, None, text_names, collection, {}) if given else []
        return await self._ingestion.estimate([*files, *map(Given, inserted)])

    async def ainsert(
        self,
        input: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        split_by_character: str | None = None,
        split_by_character_only: bool = False,
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
        *,
        collection: str = "",
        metadata: Metadata | None = None,
    ) -> str:
        """Makes texts searchable, and returns when they are.

        Args:
            input: A text, a list of texts, or ``{"content": …, "pages": …}`` objects, where pages are
                ``{"page": 1-based, "start": offset, "end": offset}`` or a list of page texts.
            split_by_character: Marker to cut at.
            split_by_character_only: Cut nowhere else.
            ids: An id a text; a hash of the text if None.
            file_paths: A name a text.
            track_id: Found again by :meth:`aget_docs_by_track_id`; a new one if None.
            collection: The collection they belong to; a slug.
            metadata: What a filter may ask for.

        Returns:
            The track id.

        Raises:
            ConfigError: The numbers of texts, ids and names differ.
            IngestionError: A text was not ingested; those before it were.
            IngestionStopped: The next model call would pass a spending ceiling; insert it again to go on.
        """
        self._opened()
        check_slug(collection)
        track = track_id or f"insert-{uuid.uuid4().hex}"
        documents = inserted_documents(input, ids, file_paths, collection, metadata or {})

        async def insert(document: Document) -> IngestReport:
            return await self._ingestion.ingest_document(
                document,
                split_by_character=split_by_character,
                split_by_character_only=split_by_character_only,
                track_id=track,
            )

        async with self._ingestion.together():
            await map_bounded(insert, documents, self.settings.max_parallel_insert)
        return track

    async def import_lightrag(self, folder: str | Path, *, workspace: str = "", collection: str = "") -> ImportReport:
        """Takes in an index that LightRAG or the earlier library made. Its files are only read.

        No language model is asked: what it once answered about each chunk is taken over, and so are the vectors of the chunks
        if they are of the embedding model in use. A second run changes nothing, so an interrupted import is run again.

        Args:
            folder: The ``working_dir`` of the index: JSON stores, nano-vectordb files and GraphML.
            workspace: Its ``workspace``, if it had one.
            collection: The collection its documents go to; a slug.

        Returns:
            What was carried over, and what could not be.

        Raises:
            NotFound: There is no such index in the folder.
            ParseError: Its chunks cannot be read.
            IngestionError: A document was not ingested; those before it are there.
            StorageNotOpenError: The retriever is not open.
        """
        kb = self._opened()
        check_slug(collection)
        index = await asyncio.to_thread(read_lightrag_index, Path(folder), workspace)
        importing = await asyncio.to_thread(LightRAGImport, index, collection)
        return await importing.into(kb, self.settings, self._models.embedding, self._tokenizer, self.observer)

    async def retry(self, doc_id: str) -> IngestReport:
        """Asks the language model about each chunk of a document that it has not read, and nothing else.

        Those are the ``failed_chunks`` of its last report, and all of them if it was ingested without a model: then this
        upgrades its part of the graph.

        Args:
            doc_id: Its id.

        Raises:
            NotFound: There is no such document, or no version of it is served.
            ConfigError: There is no language model, or another version failed and waits to be ingested again.
            IngestionError: It could not be done; the document is as it was.
            StorageNotOpenError: The retriever is not open.
        """
        self._opened()
        return await self._ingestion.retry_document(doc_id)

    async def aquery(
        self,
        query: str,
        param: QueryParam = QueryParam(),  # noqa: B008  # frozen
        retrieval: Retrieval | None = None,
        system_prompt: str | None = None,
    ) -> QueryResult:
        """Answers a question.

        Args:
            query: The question.
            param: How.
            retrieval: A strategy object, instead of ``param.mode``.
            system_prompt: Replaces the library's own; braces are safe.

        Raises:
            ConfigError: The question, the mode or an option cannot be used.
            EmbeddingMismatchError: The base was made with another embedding model.
            StorageError: A storage failed; an outage is never "not covered".
            UpstreamError: A model failed (a reranker excepted: the result then names ``rerank_failed``).
        """
        return await self._retrieving.query(query, param, retrieval, system_prompt)

    def stream(
        self,
        query: str,
        param: QueryParam = QueryParam(),  # noqa: B008  # frozen
        retrieval: Retrieval | None = None,
        system_prompt: str | None = None,
    ) -> AnswerStream:
        """Answers a question as events: the sources, the text as it is written, its checked citations, and the result.

        ``async with rag.stream(question) as events`` ends the call of the model when the block is left.

        Args:
            query: The question.
            param: How.
            retrieval: A strategy object, instead of ``param.mode``.
            system_prompt: Replaces the library's own; braces are safe.

        Raises:
            EKRError: As :meth:`aquery`, from the iterator, perhaps after some pieces of the answer.
        """
        return AnswerStream(self._retrieving.stream(query, param, retrieval, system_prompt))

    async def aquery_llm(
        self,
        query: str,
        param: QueryParam = QueryParam(),  # noqa: B008  # frozen
        system_prompt: str | None = None,
    ) -> QueryResult:
        """The same as :meth:`aquery`, under its earlier name."""
        return await self.aquery(query, param, system_prompt=system_prompt)

    async def aquery_data(self, query: str, param: QueryParam = QueryParam()) -> dict[str, Any]:  # noqa: B008  # frozen
        """The data of :meth:`aquery` without an answer: status, message, data and metadata, for every mode."""
        result = await self.aquery(query, replace(param, only_need_context=True, stream=False))
        if result.status == "failure":
            return {"status": "failure", "message": result.message, "data": {}, "metadata": dict(result.metadata)}
        return dict(result.raw_data)

    async def retrieve(self, query: str, retrieval: Retrieval | None = None, param: QueryParam | None = None) -> Context:
        """The context of a question, without an answer.

        Raises:
            EKRError: As :meth:`aquery`.
        """
        return await self._retrieving.retrieve(query, retrieval, param)

    async def adelete_by_doc_id(self, doc_id: str, delete_llm_cache: bool = False, *, purge: bool = False) -> DeletionResult:
        """Deletes a document and everything that rests on it alone. Exact, and asks no model.

        Args:
            doc_id: Its id.
            delete_llm_cache: Also drops every cached reply to a question: one may quote it. Those about its chunks go anyway.
            purge: Also writes the files of the base anew, so that no byte of the document is left in one, and drops every cached
                reply to a question. It is done even if there is no such document any more.

        Raises:
            StorageError: A storage failed; the document is still whole, or, with ``purge``, deleted with bytes left.
        """
        kb = self._opened()
        result = await self._ingestion.delete_document(doc_id)
        if delete_llm_cache or purge:
            await self.aclear_cache()
        if purge:
            await purge_files(kb)
        return result

    async def summarize(self) -> SummaryReport:
        """Makes every summary that is still wanted: one a model could not be asked for, or one that a deletion undid.

        An entity or relation whose summary is pending shows its descriptions joined meanwhile. What fails again is counted
        in the report and stays wanted.

        Raises:
            ConfigError: There is no language model.
            UpstreamAuth: The key was refused.
            StorageError: A storage failed.
        """
        if self._models.summarizer is None:
            raise ConfigError("there is no language model to summarise with", hint="give llm_service")
        await self._check_model()
        return await self._ingestion.summarize()

    async def cache_size(self) -> CacheSize:
        """How many replies of models are kept, and how many bytes they take. Looks at all of them."""
        return await cache_size(self._opened().llm_cache)

    async def aclear(self) -> None:
        """Drops all documents and everything made of them. The base stays open, as one that never held anything.

        Raises:
            StorageError: A storage failed; where it has transactions, nothing was dropped.
        """
        await drop_all(self._opened())
        self._ingestion.guard.forget()

    async def aclear_cache(self) -> None:
        """Drops cached replies of models. Never harms the index."""
        await self._opened().llm_cache.drop()

    async def get_docs_by_status(self, status: DocStatus | str) -> list[DocRecord]:
        """The documents of this status, by name."""
        return await self._opened().status.by_status(DocStatus(status))

    async def aget_docs_by_ids(self, ids: str | Sequence[str]) -> dict[str, DocRecord]:
        """The documents that exist, by id."""
        return await self._opened().status.get([ids] if isinstance(ids, str) else list(ids))

    async def aget_docs_by_track_id(self, track_id: str) -> dict[str, DocRecord]:
        """The documents that one call inserted, by id."""
        return {record.id: record for record in await self._opened().status.page() if record.track_id == track_id}

    async def get_docs(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        """Documents in order of name, page by page."""
        return await self._opened().status.page(offset, limit)

    async def get_processing_status(self) -> dict[str, int]:
        """Number of documents by status."""
        counts = Counter(record.status.value for record in await self._opened().status.page())
        return {status.value: counts[status.value] for status in DocStatus}

    async def get_graph_labels(self) -> list[str]:
        """Name of every entity, in order."""
        return await self._opened().graph.labels()

    async def get_knowledge_graph(self, node_label: str, max_depth: int = 3, max_nodes: int | None = None) -> KnowledgeGraph:
        """The graph around an entity.

        Args:
            node_label: Its name; ``*`` for the entities of highest degree.
            max_depth: Relations away at most.
            max_nodes: Entities at most; ``max_graph_nodes`` if None, which is also the ceiling.
        """
        cap = min(max_nodes or self.settings.max_graph_nodes, self.settings.max_graph_nodes)
        kb = self._opened()
        key = node_label if node_label == "*" else await entity_of(kb, node_label)
        found = await kb.graph.neighbourhood(key, max_depth, cap)
        names = {entity.key: entity.name for entity in found.entities}
        return KnowledgeGraph(
            tuple(entity_data(entity) for entity in found.entities),
            tuple(relation_data(_between(relation, names)) for relation in found.relations),
            found.truncated,
        )

    async def get_graph_counts(self) -> GraphCounts:
        """Number of entities, relations and mentions."""
        return await self._opened().graph.counts()

    async def get_entity_info(self, entity_name: str, include_vector_data: bool = False) -> dict[str, Any]:
        """What is known of an entity.

        Raises:
            NotFound: There is none of this name.
        """
        kb = self._opened()
        key = await entity_of(kb, entity_name)
        entity = (await kb.graph.entities([key])).get(key)
        if entity is None:
            raise NotFound(f"there is no entity named {entity_name!r}", hint="get_graph_labels() lists the names")
        data = entity_data(entity)
        if include_vector_data:
            data["vector"] = (await kb.entity_vectors.vectors([key])).get(key)
        return data

    async def get_relation_info(self, src_entity: str, tgt_entity: str, include_vector_data: bool = False) -> dict[str, Any]:
        """What is known of the relation between two entities.

        Raises:
            NotFound: There is none.
        """
        kb = self._opened()
        key = RelationKey.of(await entity_of(kb, src_entity), await entity_of(kb, tgt_entity))
        relation = (await kb.graph.relations([key])).get(key)
        if relation is None:
            raise NotFound(f"there is no relation between {src_entity!r} and {tgt_entity!r}")
        data = relation_data(relation)
        if include_vector_data:
            data["vector"] = (await kb.relation_vectors.vectors([key.id])).get(key.id)
        return data

    async def get_merges(self, name: str | None = None) -> tuple[Merge, ...]:
        """The names that were taken for variants of another one, with the evidence.

        Args:
            name: A name of one entity; those of every entity if None.

        Raises:
            NotFound: No document uses the name.
        """
        async with self._opened().snapshot() as kb:
            return await merges_in(kb, name)

    async def suggest_merges(self, threshold: float = 0.85, limit: int = 50) -> tuple[MergeSuggestion, ...]:
        """Entities that might be one, by meaning and a word of their names. Nothing is changed: see :meth:`merge_entities`.

        Args:
            threshold: Cosine similarity of their vectors from which two entities are taken for alike.
            limit: Pairs at most, most alike first.
        """
        async with self._opened().snapshot() as kb:
            return await suggested_merges(kb, threshold, limit)

    async def unmerge_entity(self, variant_name: str) -> None:
        """Takes a variant out of the entity it was merged into. It stays out, whatever is ingested, while documents use it.

        Args:
            variant_name: The variant, as documents write it.

        Raises:
            NotFound: It is not merged into another name.
            UpstreamError: A text could not be embedded; nothing was changed.
        """
        kb = self._opened()
        await self._ingestion.decide(lambda: decided_apart(kb, variant_name))

    async def merge_entities(self, sources: str | Sequence[str], target: str) -> None:
        """Makes names stand for one entity, whatever the documents say; also takes back :meth:`unmerge_entity`.

        It holds while documents use the names. :meth:`unmerge_entity` takes a source out again.

        Args:
            sources: Names as documents write them, or with the label of a sense of the target: ``Mercury (Person)``.
            target: The name they are merged into.

        Raises:
            NotFound: No document uses one of the names.
            ConfigError: The target is merged into one of the sources.
            UpstreamError: A text could not be embedded; nothing was changed.
        """
        kb, names = self._opened(), [sources] if isinstance(sources, str) else list(sources)
        await self._ingestion.decide(lambda: decided_one(kb, names, target))

    async def backup(self, path: str | Path) -> BackupReport:
        """Writes one archive that holds the base as it is now, whatever is ingested meanwhile, and reads it back.

        Args:
            path: The archive; one that is there is replaced when the new one is whole.

        Raises:
            StorageError: The base cannot be read, or the archive not be written.
        """
        return await backup(self._opened(), Path(path), self.observer)

    async def restore(self, path: str | Path) -> Manifest:
        """Makes this base, which is not open, of a backup. Its folder must be empty, or not be there.

        Args:
            path: What :meth:`backup` wrote. It may come from anywhere: it is checked whole before anything of it is used.

        Returns:
            What the backup says of itself.

        Raises:
            NotFound: There is no such file.
            ConfigError: There is something in the base already, this retriever is open, or it is not on one SQLite file and the
                backup is of one.
            StorageError: The archive is no backup, is damaged or would do harm, or the base cannot be written.
        """
        if self._loop is not None:
            raise ConfigError("the base to be filled is open", hint="give a retriever that was not opened yet")
        return await restore(self._kb, Path(path), self.observer)

    async def export(self, path: str | Path) -> Counter[str]:
        """Writes the whole base as it is now to a file of lines of JSON, from which :meth:`import_base` makes it again.

        Args:
            path: The file; one that is there is replaced when the new one is whole.

        Returns:
            How many rows of each role there are.

        Raises:
            StorageError: The base cannot be read, or the file not be written.
        """
        return await export_base(self._opened(), Path(path), self.observer)

    async def aexport_data(
        self, output_path: str | Path, file_format: str = "csv", include_vector_data: bool = False
    ) -> Counter[str]:
        """Writes entities, relations, and chunks with their documents and pages to a file for people and other programs.

        Args:
            output_path: The file; one that is there is replaced when the new one is whole.
            file_format: ``csv``, ``md``, ``txt``, ``graphml`` (entities and relations), ``excel`` (extra ``excel``), ``parquet``
                (extra ``parquet``), or ``jsonl``: the whole base, as :meth:`export` writes it.
            include_vector_data: Whether each row has its vector. A whole base always has them.

        Returns:
            How many rows of each kind there are.

        Raises:
            ConfigError: There is no such format, or the package for it is not installed.
            LimitExceeded: There are more rows than Excel holds.
            StorageError: The base cannot be read, or the file not be written.
        """
        kb, path = self._opened(), Path(output_path)
        return await export_data(kb, path, file_format, vectors=include_vector_data, observer=self.observer)

    async def import_base(self, path: str | Path) -> int:
        """Fills this base, which is new and not open, with one that was exported, from whatever storages it was on.

        What is interrupted cannot be opened until the same import was run again, which goes on where it stopped.

        Args:
            path: What :meth:`export` wrote.

        Returns:
            How many rows there are.

        Raises:
            NotFound: There is no such file.
            ConfigError: The base is not empty, or this retriever is open.
            StorageError: The file is not whole, or the base cannot be written.
        """
        async with self._unopened() as kb:
            return await import_base(kb, Path(path), self.observer)

    async def migrate_to(self, target: EasyKnowledgeRetriever) -> int:
        """Copies this base, which is open and is only read, to other storages, and compares what came of it row by row.

        What is interrupted cannot be opened until the same migration was run again, which goes on where it stopped.

        Args:
            target: A retriever on the other storages; its base is empty, and it is not open.

        Returns:
            How many rows there are.

        Raises:
            ConfigError: The target is not empty, or is open.
            StorageError: A storage failed.
        """
        source = self._opened()
        async with target._unopened() as kb:
            return await migrate_base(source, kb, self.observer)

    @asynccontextmanager
    async def _unopened(self) -> AsyncIterator[KnowledgeBase]:
        """The base for what must not see it open: it may be half of one."""
        if self._loop is not None:
            raise ConfigError("the base to be filled is open", hint="give a retriever that was not opened yet")
        await self._kb.open()
        try:
            yield self._kb
        finally:
            await self._kb.close()

    async def usage(self) -> UsageReport:
        """What models over the wire have cost this base so far, summed up by document, model, purpose and day."""
        kb = self._opened()
        await self._questions.write()
        return await usage_report(kb)

    async def reindex(self) -> ReindexReport:
        """Makes the vectors of the base anew with the configured model, and asks no language model.

        They are built beside the ones before, which answer until all are there; then one commit puts them in their place. Other
        processes see it with their next question, and refuse it if they have the model before. A call that failed or was killed
        goes on with the next one. Documents may come and go meanwhile.

        With a model of another dimension call it on a retriever that is not open: the base is opened for it and closed again,
        and the retriever may be opened afterwards. ``embedding_check="warn"`` opens it before.

        Raises:
            UpstreamError: The model failed; what it made is kept for the next call.
            BudgetExceeded: The next call of the model would pass a ceiling; the same.
            WorkingDirLockedError: It is being done already.
            StorageError: The base could not be changed; the vectors before are served.
        """
        async with self._with_any_model():
            return await self._ingestion.reindexing.run()

    async def get_embedding(self) -> MadeBy | None:
        """The embedding model that made the vectors of the base; None while there are none."""
        self._opened()
        return await self._ingestion.guard.made_by()

    async def estimate_reindex(self) -> ReindexEstimate:
        """What :meth:`reindex` would take. Nothing is sent to a model and nothing written.

        Raises:
            StorageError: The base could not be read.
        """
        async with self._with_any_model():
            return await self._ingestion.reindexing.estimate()

    async def verify(self, *, deep: bool = False, repair: bool = False, embed: bool = False) -> VerifyReport:
        """Checks the invariants of the base, and mends what does not hold.

        Args:
            deep: Also recounts what is derived, which reads everything.
            repair: Looks deep, and derives again what can be derived without a model, in one transaction. No document is
                lost by it; ``repaired`` of the report says what was mended, ``findings`` what was not.
            embed: With ``repair``, also has the model make the vectors that are missing.

        Raises:
            StorageError: The base could not be read, or not be changed; nothing was.
            UpstreamError: The embedding model failed; what needs no model is mended.
        """
        kb, model = self._opened(), self._models.embedding
        report = await verify(kb, deep=deep or repair, settings=self.settings, embedding=model)
        if report.clean or not repair:
            return report
        await self._ingestion.repair(embed=embed)
        after = await verify(kb, deep=True, settings=self.settings, embedding=model)
        return replace(after, repaired=tuple(finding for finding in report.findings if finding not in after.findings))


def _between(relation: Relation, names: Mapping[str, str]) -> Relation:
    """The relation with its ends under the names of these entities."""
    first, second = relation.key
    return replace(
        relation,
        first_name=names.get(first, relation.first_name),
        second_name=names.get(second, relation.second_name),
    )
