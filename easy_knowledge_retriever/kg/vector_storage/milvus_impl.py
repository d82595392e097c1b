"""Vectors in Milvus: the nearest are found by its index, compared once more exactly, and never lost to two writers at once."""

from __future__ import annotations

import copy
import hashlib
import heapq
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError, StorageError, StorageNotOpenError
from easy_knowledge_retriever.kg.files import off_loop
from easy_knowledge_retriever.kg.milvus import MilvusServer, is_gone, milvus_package, turn_of
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.settings import check_slug, environment
from easy_knowledge_retriever.types import FloatVector, Hit, SearchFilter, VectorRecord

__all__ = ["MilvusVectorDBStorage"]

logger = logging.getLogger("easy_knowledge_retriever")
T = TypeVar("T")
Client = Any
"""A ``MilvusClient``; the package is there only with the extra."""
Rows = tuple[list[str], NDArray[np.float64]]
"""Ids, and a matrix with a row for each."""

KEY, ID, DOCUMENT, COLLECTION, VECTOR = "key", "id", "document", "collection", "vector"
"""Fields. Key, document and collection are digests, so that no name of a user's ever stands in an expression."""
LONGEST_ID = 65_535
"""Bytes a text field holds at most."""
MOST = 16_384
"""Rows Milvus gives at most for one search."""
SPARE = 16
"""Rows asked for beyond ``top_k``, to see whether the last one has a tie."""
DOUBT = 1e-5
"""How far a score of the index, which computes in single precision, may be from the exact one."""
WIDTH = 128
"""How many candidates an HNSW index keeps while it searches (``ef``), at least."""
LISTED = 10_000
"""Digests in a list of one expression."""
READ = 1000
"""Rows read at once. A search of no more ids than this reads and compares them, without the index."""
PART = 4 << 20
"""Bytes of vectors in one write; Milvus takes 64 MB."""
UNIT = 1e-6
"""How far from 1 a length may be that is taken for 1: so a row that was read and is written again keeps its bits."""


class MilvusVectorDBStorage(VectorStorage):
    """Vectors in a Milvus server, or in a file of Milvus Lite (an address that ends in ``.db``).

    A Milvus collection for each namespace and workspace, made at the first write, with an HNSW index or, where the server
    has none, the one it chooses. What the index finds is compared once more in double precision: scores are exact, ties in
    order of id. A row is missed only if the index misses it. A batch of more than 4 MB is written in parts.

    Args:
        milvus_uri: Address, such as ``http://localhost:19530``; else ``MILVUS_URI``, else that one.
        milvus_token: API key, or ``user:password``; else ``MILVUS_TOKEN``.
        milvus_user: User name; else ``MILVUS_USER``.
        milvus_password: Password; else ``MILVUS_PASSWORD``.
        milvus_db_name: Database, which must exist; else ``MILVUS_DB_NAME``, else ``default``.
        workspace: Separates bases in one database. One given here, or else in ``MILVUS_WORKSPACE``, is kept whatever
            ``bind`` is told.
        timeout: Seconds to wait for one answer.
        embedding_func: Ignored with a warning: a storage does not embed.

    Raises:
        MissingExtraError: pymilvus is not installed.
    """

    _client: Client
    _dimension: int | None
    """Of the vectors stored, where there is a collection that is known to be there."""
    _width: bool
    """Whether the index takes ``ef``."""
    _unflushed: bool
    _name: str
    """Of the collection: a digest of namespace and workspace."""
    _turn: threading.Lock

    def __init__(
        self,
        milvus_uri: str | None = None,
        milvus_token: str | None = None,
        milvus_user: str | None = None,
        milvus_password: str | None = None,
        milvus_db_name: str | None = None,
        workspace: str = "",
        *,
        timeout: float = 60.0,
        embedding_func: object = None,
    ) -> None:
        if embedding_func is not None:
            _warn_once()
        if not 0 < timeout < float("inf"):
            raise ConfigError(f"timeout is {timeout!r}", hint="a positive number of seconds")
        known = environment()
        self._package = milvus_package(known.milvus_uri)
        self._server = MilvusServer.at(
            milvus_uri or known.milvus_uri or "http://localhost:19530",
            milvus_db_name or known.milvus_db_name or "default",
            milvus_token or known.milvus_token or "",
            milvus_user or known.milvus_user or "",
            milvus_password or known.milvus_password or "",
        )
        self._timeout = timeout
        self._own_workspace = check_slug(workspace or known.milvus_workspace or "")
        self._workspace = self._own_workspace
        self._namespace = ""
        self._start()

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = copy.copy(self)
        bound._namespace = check_slug(namespace)
        bound._workspace = self._own_workspace or check_slug(workspace)
        bound._start()
        return bound

    async def open(self) -> None:
        if self._client is None:
            self._client = await off_loop(lambda: self._server.connect(self._timeout))

    async def flush(self) -> None:
        await self._run(self._flush)

    async def close(self) -> None:
        if self._client is not None:
            try:
                await self.flush()
            finally:
                client = self._client
                self._start()
                await off_loop(client.close)

    async def drop(self) -> None:
        def work(client: Client) -> None:
            with self._turn:
                client.drop_collection(self._name, timeout=self._timeout)
                self._dimension, self._unflushed = None, False

        await self._run(work)

    async def put_many(self, records: Sequence[VectorRecord]) -> None:
        def work(client: Client) -> None:
            rows = _rows(records)
            if not rows:
                return
            given = len(rows[0][VECTOR])
            with self._turn:
                stored = self._stored_dimension(client)
                if stored is None:
                    self._create(client, given)
                elif stored != given:
                    raise StorageError(
                        f"the vectors stored have dimension {stored}, these have {given}",
                        hint="was another embedding model configured? nothing was written",
                    )
                self._unflushed = True
                for part in _cut(rows, max(PART // (4 * given), 1)):
                    client.upsert(self._name, part, timeout=self._timeout)

        await self._run(work)

    async def search(
        self,
        vector: FloatVector,
        top_k: int,
        filter: SearchFilter | None = None,
        ids: Collection[str] | None = None,
    ) -> list[Hit]:
        def work(client: Client) -> list[Hit]:
            query = _query(vector)
            stored = self._stored_dimension(client)
            if stored is None or top_k <= 0:
                return []
            if stored != len(query):
                raise StorageError(
                    f"the vectors stored have dimension {stored}, the query has {len(query)}",
                    hint="was another embedding model configured?",
                )
            few = ids is not None and len(ids) <= READ
            hits: list[Hit] = []
            for expression in _expressions(filter, ids, READ if few else LISTED):
                found = self._read(client, expression) if few else self._nearest(client, expression, query, top_k)
                for page in found:
                    hits = _best([*hits, *_hits(page, query)], top_k)
            return hits

        return await self._run(work)

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        def work(client: Client) -> dict[str, FloatVector]:
            found: dict[str, FloatVector] = {}
            for expression in _expressions(None, ids, READ) if self._stored_dimension(client) else ():
                for names, matrix in self._read(client, expression):
                    found.update(zip(names, matrix.astype(np.float32), strict=True))
            return found

        return await self._run(work)

    async def delete_many(self, ids: Sequence[str]) -> None:
        def work(client: Client) -> None:
            with self._turn:
                for part in _cut(sorted(map(_digest, set(ids))), READ) if self._stored_dimension(client) else ():
                    self._unflushed = True
                    client.delete(self._name, ids=part, timeout=self._timeout)

        await self._run(work)

    async def ids(self) -> list[str]:
        def work(client: Client) -> list[str]:
            if self._stored_dimension(client) is None:
                return []
            return sorted(row[ID] for page in self._pages(client, "", [ID]) for row in page)

        return await self._run(work)

    async def count(self) -> int:
        return await self._run(lambda client: self._count(client, "") if self._stored_dimension(client) else 0)

    def _start(self) -> None:
        """Closed; what a copy must not share with its original is made here."""
        self._client = None
        self._dimension = None
        self._width = False
        self._unflushed = False
        self._name = f"ekr_{_digest(f'{len(self._workspace)}:{self._workspace}{self._namespace}')}"
        self._turn = turn_of(self._server, self._name)

    async def _run(self, work: Callable[[Client], T]) -> T:
        client = self._client
        if client is None:
            raise StorageNotOpenError(f"MilvusVectorDBStorage of {self._namespace!r} is not open", hint="call open() first")
        return await off_loop(lambda: self._tried(client, work))

    def _tried(self, client: Client, work: Callable[[Client], T]) -> T:
        with self._server.translated():
            try:
                return work(client)
            except self._package.MilvusException as failure:
                if self._dimension is None or not is_gone(failure):
                    raise
                self._dimension = None  # another storage dropped it, or the server was started again
                return work(client)

    def _flush(self, client: Client) -> None:
        with self._turn:
            if self._unflushed:
                client.flush(self._name, timeout=self._timeout)
                self._unflushed = False

    def _stored_dimension(self, client: Client) -> int | None:
        """Of the vectors stored; None if there is no collection yet. One that is there is made ready to be searched."""
        if self._dimension is None and client.has_collection(self._name, timeout=self._timeout):
            fields = client.describe_collection(self._name, timeout=self._timeout)["fields"]
            if not client.list_indexes(self._name):  # what made it was killed at that moment
                self._index(client, "AUTOINDEX", {})
            client.load_collection(self._name, timeout=self._timeout)
            self._width = client.describe_index(self._name, VECTOR).get("index_type") == "HNSW"
            self._dimension = next(int(field["params"]["dim"]) for field in fields if field["name"] == VECTOR)
        return self._dimension

    def _create(self, client: Client, dimension: int) -> None:
        self._make(client, dimension)
        try:
            self._index(client, "HNSW", {"M": 16, "efConstruction": 200})
        except self._package.MilvusException as failure:
            # Some versions leave a collection that cannot be used.
            logger.info("Milvus has no HNSW index here and chooses one: %s", failure.message)
            client.drop_collection(self._name, timeout=self._timeout)
            self._make(client, dimension)
            self._index(client, "AUTOINDEX", {})
        self._stored_dimension(client)

    def _make(self, client: Client, dimension: int) -> None:
        kinds = self._package.DataType
        about = f"Easy Knowledge Retriever: {self._namespace} of workspace {self._workspace!r}"
        schema = self._package.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=about)
        schema.add_field(KEY, kinds.VARCHAR, is_primary=True, max_length=32)
        schema.add_field(ID, kinds.VARCHAR, max_length=LONGEST_ID)
        schema.add_field(DOCUMENT, kinds.VARCHAR, max_length=32)
        schema.add_field(COLLECTION, kinds.VARCHAR, max_length=32)
        schema.add_field(VECTOR, kinds.FLOAT_VECTOR, dim=dimension)
        client.create_collection(self._name, schema=schema, consistency_level="Strong", timeout=self._timeout)

    def _index(self, client: Client, kind: str, build: dict[str, int]) -> None:
        wanted = client.prepare_index_params()
        wanted.add_index(VECTOR, index_name=VECTOR, index_type=kind, metric_type="COSINE", params=build)
        # Without rows there is nothing to wait for.
        client.create_index(self._name, wanted, timeout=self._timeout, sync=False)

    def _nearest(self, client: Client, expression: str, query: NDArray[np.float64], top_k: int) -> Iterator[Rows]:
        """Rows among which are the ``top_k`` nearest and whatever ties with the last of them."""
        limit = top_k + SPARE
        while limit <= MOST:
            [found] = client.search(
                self._name,
                [query.astype(np.float32).tolist()],
                filter=expression,
                limit=limit,
                output_fields=[ID, VECTOR],
                search_params={"params": {"ef": max(limit, WIDTH)} if self._width else {}},
                timeout=self._timeout,
            )
            if len(found) < limit and self._count(client, expression) > len(found):
                break  # the index loses rows where few are admitted, or many are the same
            if len(found) < limit or found[-1]["distance"] < found[top_k - 1]["distance"] - DOUBT:
                yield _parsed([hit["entity"] for hit in found])
                return
            limit *= 4
        yield from map(_parsed, self._pages(client, expression, [ID, VECTOR]))

    def _read(self, client: Client, expression: str) -> Iterator[Rows]:
        """The rows of an expression that lists them."""
        yield _parsed(client.query(self._name, filter=expression, output_fields=[ID, VECTOR], timeout=self._timeout))

    def _pages(self, client: Client, expression: str, names: list[str]) -> Iterator[list[dict[str, Any]]]:
        """Some fields of all rows an expression admits."""
        pages = client.query_iterator(self._name, batch_size=READ, filter=expression, output_fields=names, timeout=self._timeout)
        try:
            while page := pages.next():
                yield page
        finally:
            pages.close()

    def _count(self, client: Client, expression: str) -> int:
        [row] = client.query(self._name, filter=expression, output_fields=["count(*)"], timeout=self._timeout)
        return int(row["count(*)"])


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _cut(items: Sequence[T], size: int) -> Iterator[list[T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def _expressions(filter: SearchFilter | None, ids: Collection[str] | None, size: int) -> Iterator[str]:
    """Expressions that together admit each row once; none if nothing is admitted, an empty one for all rows."""
    listed = {KEY: ids}
    if filter is not None:
        listed |= {DOCUMENT: filter.document_ids, COLLECTION: filter.collections}
    conditions = [
        [f"{name} in [{', '.join(part)}]" for part in _cut(sorted(f'"{_digest(text)}"' for text in set(texts)), size)]
        for name, texts in listed.items()
        if texts is not None
    ]
    return (" and ".join(parts) for parts in product(*conditions))


def _rows(records: Sequence[VectorRecord]) -> list[dict[str, Any]]:
    """What is written for records, of each id the last one; all or none."""
    latest = list({record.id: record for record in records}.values())
    shapes = {np.shape(record.vector) for record in latest}
    if len(shapes) > 1 or not all(len(shape) == 1 for shape in shapes):
        raise StorageError(f"the vectors have shapes {sorted(shapes)}, not one dimension", hint="nothing was written")
    for record in latest:
        if len(record.id.encode()) > LONGEST_ID:
            raise StorageError(f"the id {record.id[:40]!r}… is longer than {LONGEST_ID} bytes", hint="nothing was written")
    return [
        {
            KEY: _digest(record.id),
            ID: record.id,
            DOCUMENT: _digest(record.document_id),
            COLLECTION: _digest(record.collection),
            VECTOR: _row(record.vector, repr(record.id)),
        }
        for record in latest
    ]


def _length(vector: FloatVector, whose: str) -> tuple[NDArray[np.float64], float]:
    values = np.asarray(vector, np.float64)
    length = float(np.sqrt(np.dot(values, values))) if values.ndim == 1 else 0.0
    if not (np.isfinite(length) and length > 0):
        raise StorageError(f"the vector of {whose} is not one row of finite numbers, or is zero", hint="nothing was written")
    return values, length


def _query(vector: FloatVector) -> NDArray[np.float64]:
    values, length = _length(vector, "the query")
    return values / length


def _row(vector: FloatVector, whose: str) -> FloatVector:
    values, length = _length(vector, whose)
    return (values if abs(length - 1) <= UNIT else values / length).astype(np.float32)


def _parsed(rows: Sequence[dict[str, Any]]) -> Rows:
    return [row[ID] for row in rows], np.array([row[VECTOR] for row in rows], np.float64)


def _hits(rows: Rows, query: NDArray[np.float64]) -> list[Hit]:
    names, matrix = rows
    if not names:
        return []
    # Row by row, so that a score does not depend on what stands beside it.
    scores = np.clip(np.add.reduce(matrix * query, axis=1), -1.0, 1.0)
    return [Hit(name, score) for name, score in zip(names, scores.tolist(), strict=True)]


def _best(hits: list[Hit], top_k: int) -> list[Hit]:
    return heapq.nsmallest(top_k, hits, key=lambda hit: (-hit.score, hit.id))


@cache
def _warn_once() -> None:
    logger.warning("MilvusVectorDBStorage was given an embedding_func and ignores it: storages do not embed")
