"""All storages of one knowledge base as one value, with snapshots and transactions over them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Generic, TypeVar, cast

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.kg.base import JsonObject, Session, Storage, Store
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.locks import process_claim
from easy_knowledge_retriever.kg.outside import NotedGraph, NotedLexical, Step, Steps, redo
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

logger = logging.getLogger("easy_knowledge_retriever")

__all__ = ["KnowledgeBase", "Table", "extraction_key", "knowledge_base", "staged_key"]

T = TypeVar("T")

_REDO: Final = "redo"
"""Claimed by whoever commits to a base with storages outside its home store, and while these follow."""
_PENDING: Final = "pending"
_TURN: Final = "turn"
_ROLES: Final = ("chunk_vectors", "entity_vectors", "relation_vectors", "lexical", "graph")
_TRIES: Final = 8
_PATIENCE: Final = 10.0

# Bases whose transaction this task, or one it was started from, stands in.
_inside: ContextVar[frozenset[Hashable]] = ContextVar("ekr_mixed_transactions", default=frozenset())


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
    redo: KVStorage
    """What the last commit has yet to write to storages outside the store of the document status."""
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
            if self._outside() and await self._pending():
                async with self.claim(_REDO):
                    await self._finish_commit()
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

        Storages of a backend without snapshots are read as they are, once every commit is complete in them; what a commit
        meanwhile makes of that only :meth:`consistently` notices.
        """
        outside = self._outside()
        for left in reversed(range(_TRIES)):
            if outside:
                await self._settled()
            async with AsyncExitStack() as stack:
                sessions = {store.key: await stack.enter_async_context(store.snapshot()) for store in self._stores()}
                seen = self._within(sessions)
                if left and outside and await seen._pending():
                    continue
                yield seen
                return

    async def consistently(self, read: Callable[[KnowledgeBase], Awaitable[T]]) -> T:
        """What ``read`` makes of one snapshot. It is called again where a commit changed what no snapshot keeps.

        Args:
            read: Reads from the base it is given, and changes nothing.
        """
        if not self._outside():
            async with self.snapshot() as seen:
                return await read(seen)
        for _ in range(_TRIES):
            async with self.snapshot() as seen:
                before = await seen._turn()
                found = await read(seen)
            if await self._turn() == before:
                return found
        async with self.claim(_REDO, wait=_PATIENCE) as alone:
            if alone:
                await self._finish_commit()
            async with self.snapshot() as seen:
                return await read(seen)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[KnowledgeBase]:
        """This base to write to: all of it is committed when the block ends, and undone if it raises.

        What is written to storages outside the store of the document status is noted in that store, and done after its commit:
        by this call, or by the next one or the next opening if this one is cut off. Inside the block they look as before.
        A base whose values and status have no store is written at once, in the order of the calls: write the status last.

        Raises:
            StorageError: Nothing was committed; or it was, as the message says, and a storage outside has yet to follow.
        """
        home = self._home()
        if home is None or not self._outside():
            async with AsyncExitStack() as stack:
                sessions = {store.key: await stack.enter_async_context(store.transaction()) for store in self._stores()}
                inside = self._within(sessions)
                yield inside
                for storage in inside.storages():
                    if storage.store is None:
                        await storage.flush()
            return
        if home.key in _inside.get():
            raise StorageError("a transaction on this base is open here already", hint="write through what it gave")
        async with self.claim(_REDO):
            await self._finish_commit()
            before = _inside.get()
            _inside.set(before | {home.key})
            try:
                async with home.transaction() as session:
                    steps = Steps()
                    inside = self._within({home.key: session}, steps)
                    turn = await inside._turn() + 1
                    yield inside
                    if steps.taken:
                        await inside.redo.put_many({_TURN: {"value": turn}, _PENDING: {"steps": steps.taken}})
            finally:
                _inside.set(before)
            await self._finish_commit()

    async def _turn(self) -> int:
        """How many commits wrote to storages outside."""
        row: Mapping[str, Any] = (await self.redo.get_many([_TURN])).get(_TURN, {})
        return int(row.get("value", 0))

    async def _pending(self) -> Sequence[Step]:
        """What a commit has yet to write to storages outside."""
        row: Mapping[str, Any] = (await self.redo.get_many([_PENDING])).get(_PENDING, {})
        steps: Sequence[Step] = row.get("steps", ())
        return steps

    async def _finish_commit(self) -> None:
        """Does what the last commit noted, if it was not done. Whoever calls it has the claim."""
        steps = await self._pending()
        if not steps:
            return
        await self.redo.flush()
        done: dict[str, Storage] = {}
        try:
            for place, action, rows in steps:
                storage = done[place] if place in done else done.setdefault(place, await self._at(place))
                await redo(storage, action, rows)
            for storage in done.values():
                await storage.flush()
        except StorageError as error:
            error.add_note("the change is committed; it is completed by the next change or opening of this base")
            raise
        await self.redo.delete_many([_PENDING])

    async def _settled(self) -> None:
        """Waits until no commit is halfway, and completes one that was cut off."""
        if not await self._pending():
            return
        async with self.claim(_REDO, wait=_PATIENCE) as alone:
            if not alone:
                logger.warning("a change is being written for more than %s s; reading what is there", _PATIENCE)
                return
            try:
                await self._finish_commit()
            except StorageError as error:
                logger.warning("a change could not be completed; reading what is there: %s", error)

    async def _at(self, place: str) -> Storage:
        """The storage of a place that steps name, itself."""
        name, _, number = place.partition("#")
        member = getattr(self, name) if name in self._members() else None
        if isinstance(member, LiveVectors):
            return await member.numbered(int(number))
        if not isinstance(member, Storage):
            raise StorageError(f"this base has no {place!r}", hint="a newer version wrote it")
        return member

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

    def _home(self) -> Store | None:
        """The store of status and values, if it is one."""
        home = self.status.store
        return home if home is not None and self.redo.store is not None and self.redo.store.key == home.key else None

    def _outside(self) -> list[str]:
        """What is not in the home store; nothing if there is none."""
        home = self._home()
        if home is None:
            return []
        stores = {name: getattr(self, name).store for name in _ROLES}
        return [name for name, store in stores.items() if store is None or store.key != home.key]

    def _within(self, sessions: Mapping[Hashable, Session], steps: Steps | None = None) -> KnowledgeBase:
        changes: dict[str, object] = {}
        for name in self._members():
            member = getattr(self, name)
            storage: Storage = member.storage if isinstance(member, Table) else member
            if storage.store is None or storage.store.key not in sessions:
                if steps is not None:
                    changes[name] = _noted(member, name, steps)
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
        redo=kv.bind("redo", workspace),
        workspace=workspace,
    )


async def _close(storages: Sequence[Storage]) -> None:
    """Closes the last, then the ones before it. An exit stack would do, but forgets all failures but one."""
    if storages:
        try:
            await storages[-1].close()
        finally:
            await _close(storages[:-1])


def _noted(member: object, place: str, steps: Steps) -> object:
    """The same storage, with its writes noted."""
    if isinstance(member, LiveVectors):
        return member.noted(place, steps)
    if isinstance(member, LexicalStorage):
        return NotedLexical(member, place, steps)
    return NotedGraph(member, place, steps) if isinstance(member, GraphStorage) else member


S = TypeVar("S", bound=Storage)


def _shared(storage: S, stores: dict[Hashable, Store]) -> S:
    if storage.store is None:
        return storage
    return storage.sharing(stores.setdefault(storage.store.key, storage.store))
