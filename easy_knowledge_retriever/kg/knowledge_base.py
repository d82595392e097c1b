"""All storages of one knowledge base as one value, with snapshots and transactions over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from typing import Generic, TypeVar, cast

from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.kg.base import JsonObject, Session, Storage, Store
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.locks import process_claim
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.kg.vector_storage.live import LivePointer, LiveVectors
from easy_knowledge_retriever.types import (
    Chunk,
    Document,
    Extraction,
    NameRow,
    Naming,
    SearchFilter,
    StagedVectors,
    Summary,
    Transcript,
)

__all__ = ["KnowledgeBase", "Table", "extraction_key", "knowledge_base", "staged_key"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """A KV storage that takes and gives values of one type."""

    storage: KVStorage
    encode: Callable[[T], JsonObject]
    decode: Callable[[JsonObject], T]

    def over(self, storage: Storage) -> Table[T]:
        """The same table on another view of its storage."""
        return replace(self, storage=cast("KVStorage", storage))

    async def get_many(self, keys: Sequence[str]) -> dict[str, T]:
        """The values that exist, by key."""
        return {key: self.decode(data) for key, data in (await self.storage.get_many(keys)).items()}

    async def put_many(self, values: Mapping[str, T]) -> None:
        """Writes or overwrites."""
        await self.storage.put_many({key: self.encode(value) for key, value in values.items()})

    async def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes what exists of them."""
        await self.storage.delete_many(keys)

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, T]]:
        """Keys that begin with ``prefix``, in order, with their values."""
        async for key, data in self.storage.scan(prefix):
            yield key, self.decode(data)


def extraction_key(chunk_id: str, source: str) -> str:
    """Key of an extraction: ``chunk id/source``, so that a scan of ``chunk id/`` finds all of a chunk."""
    return f"{chunk_id}/{source}"


def staged_key(document_id: str, chunk_id: str) -> str:
    """Key of replies: ``document id/chunk id``, so that a scan of ``document id/`` finds all of a document, and few others."""
    return f"{document_id}/{chunk_id}"


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """The storages of one base. Built by :func:`knowledge_base`; a snapshot or transaction of it is another one."""

    documents: Table[Document]
    """Document id → parse of the live version."""
    chunks: Table[Chunk]
    """Chunk id → chunk."""
    manifests: Table[tuple[str, ...]]
    """Document id → ids of the chunks of its live version, in order."""
    extractions: Table[Extraction]
    """:func:`extraction_key` → extraction: the ledger."""
    naming: Table[Naming]
    """Document id → how its live version uses its names."""
    names: Table[Mapping[str, NameRow]]
    """``text.variants.group_key`` → folded name → how all documents together use it."""
    staged: Table[Transcript]
    """:func:`staged_key` → replies that were paid for, of versions that are not live yet. Emptied by the commit."""
    summaries: Table[Summary]
    """Summaries that are wanted, and those of parts of what an entity or relation says; see ``ingestion.summarizing``."""
    staged_vectors: Table[StagedVectors]
    """:func:`staged_key` → vectors that were paid for, of versions that are not live yet. Emptied by the commit."""
    parses: Table[Document]
    """Digest of content, page range and parser → parse."""
    llm_cache: KVStorage
    """Digest of a request → reply."""
    usage: KVStorage
    """What was spent, see ``kg.usage_ledger``."""
    stamps: KVStorage
    """Embedding fingerprint and format of this base."""
    vector_index: KVStorage
    """Which sets of vectors are served, see ``kg.vector_storage.live``, and what is built beside them. It is about this store
    and not about what the base holds: who copies a base leaves it out."""
    status: DocStatusStorage
    chunk_vectors: LiveVectors
    """Chunk id → vector of its indexed text."""
    entity_vectors: LiveVectors
    """Entity key → vector of its indexed text."""
    relation_vectors: LiveVectors
    """``RelationKey.id`` → vector of its indexed text."""
    lexical: LexicalStorage
    graph: GraphStorage
    workspace: str = ""
    """Separates this base from others in the same storages."""

    async def open(self) -> None:
        """Opens every storage; what was opened is closed again if one fails.

        Raises:
            StorageError: One cannot be opened.
        """
        async with AsyncExitStack() as undo:
            for storage in self.storages():
                await storage.open()
                undo.push_async_callback(storage.close)
            undo.pop_all()

    async def close(self) -> None:
        """Closes every storage in reverse order, all of them even if one fails.

        Raises:
            StorageError: The last failure, with the earlier ones as its context.
        """
        await _close(tuple(self.storages()))

    async def flush(self) -> None:
        """Makes everything written so far durable."""
        for storage in self.storages():
            await storage.flush()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[KnowledgeBase]:
        """This base as it is now: a later commit does not change what is read in the block.

        Storages of a backend without snapshots are read as they are; there the version in the document status decides
        which chunks are live.
        """
        async with AsyncExitStack() as stack:
            sessions = {store.key: await stack.enter_async_context(store.snapshot()) for store in self._stores()}
            yield self._within(sessions)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[KnowledgeBase]:
        """This base to write to: all of it is committed when the block ends, and undone if it raises.

        Storages of a backend without transactions are written at once, in the order of the calls: write the status last.
        """
        async with AsyncExitStack() as stack:
            sessions = {store.key: await stack.enter_async_context(store.transaction()) for store in self._stores()}
            inside = self._within(sessions)
            yield inside
            for storage in inside.storages():
                if storage.store is None:
                    await storage.flush()

    def claim(self, name: str, *, wait: float | None = None) -> AbstractAsyncContextManager[bool]:
        """A lock of this base with a name, see :meth:`Store.claim`: of the store of the document status, if it has one.

        Args:
            name: What is claimed.
            wait: Seconds; as long as the holder is alive if not given, 0 tries once.

        Raises:
            StorageError: The lock cannot be taken, or its holder is stuck.
        """
        own = f"{self.workspace}:{name}" if self.workspace else name
        store = self.status.store
        return process_claim(self.status, own, wait=wait) if store is None else store.claim(own, wait=wait)

    def storages(self) -> Iterator[Storage]:
        """Every storage, the status last."""
        members = [getattr(self, name) for name in self._members() if name != "status"]
        for member in [*members, self.status]:
            yield member.storage if isinstance(member, Table) else member

    async def resolve(self, filter: SearchFilter) -> SearchFilter | None:
        """The filter with its metadata conditions turned into document ids; None if it restricts nothing."""
        if not filter.metadata:
            return None if filter.collections is None and filter.document_ids is None else filter
        records = await self.status.page()
        wanted = filter.metadata.items()
        ids = frozenset(
            record.id
            for record in records
            if filter.admits(record.id, record.collection) and all(record.metadata.get(k) == v for k, v in wanted)
        )
        return SearchFilter(collections=filter.collections, document_ids=ids)

    def _members(self) -> list[str]:
        return [spec.name for spec in fields(self) if spec.name != "workspace"]

    def _stores(self) -> list[Store]:
        found: dict[Hashable, Store] = {}
        for storage in self.storages():
            if storage.store is not None:
                found.setdefault(storage.store.key, storage.store)
        return list(found.values())

    def _within(self, sessions: Mapping[Hashable, Session]) -> KnowledgeBase:
        changes: dict[str, object] = {}
        for name in self._members():
            member = getattr(self, name)
            storage: Storage = member.storage if isinstance(member, Table) else member
            if storage.store is None:
                continue
            seen = storage.within(sessions[storage.store.key])
            changes[name] = member.over(seen) if isinstance(member, Table) else seen
        inside = replace(self, **changes)  # type: ignore[arg-type]  # each field gets back its own type
        pointer = LivePointer(inside.vector_index, fixed=True)
        return replace(
            inside,
            chunk_vectors=inside.chunk_vectors.led_by(pointer),
            entity_vectors=inside.entity_vectors.led_by(pointer),
            relation_vectors=inside.relation_vectors.led_by(pointer),
        )


def knowledge_base(
    kv: KVStorage,
    status: DocStatusStorage,
    vectors: VectorStorage,
    lexical: LexicalStorage,
    graph: GraphStorage,
    workspace: str = "",
) -> KnowledgeBase:
    """A base over five storages, each bound to the namespaces it serves.

    Storages on the same database are made to share one :class:`Store`, so that one transaction covers them.

    Args:
        kv: Serves documents, chunks, manifests, extractions, summaries, parses, model replies, usage and stamps.
        status: Serves the document status.
        vectors: Serves the vectors of chunks, entities and relations.
        lexical: Serves the BM25 index of chunks.
        graph: Serves the graph.
        workspace: Separates bases in one backend.
    """
    stores: dict[Hashable, Store] = {}
    kv, status, vectors, lexical, graph = (
        _shared(kv, stores),
        _shared(status, stores),
        _shared(vectors, stores),
        _shared(lexical, stores),
        _shared(graph, stores),
    )
    index = kv.bind("vector_index", workspace)
    return KnowledgeBase(
        documents=Table(kv.bind("documents", workspace), codecs.encode_document, codecs.decode_document),
        chunks=Table(kv.bind("chunks", workspace), codecs.encode_chunk, codecs.decode_chunk),
        manifests=Table(kv.bind("manifests", workspace), codecs.encode_manifest, codecs.decode_manifest),
        extractions=Table(kv.bind("extractions", workspace), codecs.encode_extraction, codecs.decode_extraction),
        naming=Table(kv.bind("naming", workspace), codecs.encode_naming, codecs.decode_naming),
        names=Table(kv.bind("names", workspace), codecs.encode_name_rows, codecs.decode_name_rows),
        staged=Table(kv.bind("staged", workspace), codecs.encode_transcript, codecs.decode_transcript),
        summaries=Table(kv.bind("summaries", workspace), codecs.encode_summary, codecs.decode_summary),
        staged_vectors=Table(kv.bind("staged_vectors", workspace), codecs.encode_staged_vectors, codecs.decode_staged_vectors),
        parses=Table(kv.bind("parses", workspace), codecs.encode_document, codecs.decode_document),
        llm_cache=kv.bind("llm_cache", workspace),
        usage=kv.bind("usage", workspace),
        stamps=kv.bind("stamps", workspace),
        vector_index=index,
        status=status.bind("doc_status", workspace),
        chunk_vectors=LiveVectors(vectors, "chunk_vectors", workspace, index),
        entity_vectors=LiveVectors(vectors, "entity_vectors", workspace, index),
        relation_vectors=LiveVectors(vectors, "relation_vectors", workspace, index),
        lexical=lexical.bind("lexical", workspace),
        graph=graph.bind("graph", workspace),
        workspace=workspace,
    )


async def _close(storages: Sequence[Storage]) -> None:
    """Closes the last, then the ones before it. An exit stack would do, but forgets all failures but one."""
    if storages:
        try:
            await storages[-1].close()
        finally:
            await _close(storages[:-1])


S = TypeVar("S", bound=Storage)


def _shared(storage: S, stores: dict[Hashable, Store]) -> S:
    if storage.store is None:
        return storage
    return storage.sharing(stores.setdefault(storage.store.key, storage.store))
