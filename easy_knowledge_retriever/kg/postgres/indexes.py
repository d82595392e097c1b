"""Approximate indexes over vectors: one a space and dimension, built when there are enough rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.kg.postgres.schema import lock_number
from easy_knowledge_retriever.kg.postgres.server import PGServer

if TYPE_CHECKING:
    from easy_knowledge_retriever.kg.postgres.session import PGSession

__all__ = ["Growing", "IndexType", "Indexes", "VectorIndex"]

logger = logging.getLogger("easy_knowledge_retriever")
IndexType = Literal["HNSW", "IVFFlat", "VCHORDRQ"]

_HALF_SINCE, _ITERATIVE_SINCE = (0, 7), (0, 8)
"""Versions of pgvector with half precision, and with scans that go on until enough rows passed the filter."""
_MOST = {True: 4000, False: 2000}
"""Dimensions that an index in half and in single precision takes."""
_VCHORD_MOST = 16000
_MEMORY = "512MB"
"""For building: with less than the index needs, it takes several times as long."""
_PATIENCE = "10s"
"""For those who write: then the index is built another time."""
_SCANNED = 200_000
"""Rows a filtered search looks at before it gives up and all that match are compared."""


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """How vectors are indexed. Names of indexes are made of numbers only."""

    kind: IndexType = "HNSW"
    m: int = 16
    """HNSW: neighbours of a node."""
    ef: int = 64
    """HNSW: candidates while building."""
    lists: int | None = None
    """IVFFlat and VCHORDRQ: number of lists; None for the root of the number of rows."""
    rows: int = 20_000
    """From how many rows on there is an index."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(IndexType):
            raise ConfigError(f"vector_index_type is {self.kind!r}", hint=f"one of {', '.join(get_args(IndexType))}")
        if not (2 <= self.m <= 100 and 2 * self.m <= self.ef <= 1000):
            raise ConfigError(f"hnsw_m is {self.m!r}, hnsw_ef is {self.ef!r}", hint="m from 2 to 100, ef from 2 * m to 1000")
        if self.rows < 1 or (self.lists is not None and not 1 <= self.lists <= 32768):
            raise ConfigError(f"index_from is {self.rows!r}, lists are {self.lists!r}", hint="give numbers of at least 1")

    def name(self, space: int, dimension: int) -> str:
        """Of the index of a space."""
        return f"vector_{space}_{dimension}_{self.kind.lower()}"

    def fits(self, dimension: int, version: tuple[int, int]) -> bool:
        """Whether vectors of this dimension can be indexed.

        Args:
            dimension: The dimension.
            version: Of pgvector.
        """
        if self.kind == "VCHORDRQ":
            return dimension <= _VCHORD_MOST
        return dimension <= _MOST[version >= _HALF_SINCE]

    def iterates(self, version: tuple[int, int]) -> bool:
        """Whether a scan goes on until enough rows passed the filter.

        Args:
            version: Of pgvector.
        """
        return self.kind == "VCHORDRQ" or version >= _ITERATIVE_SINCE

    def column(self, dimension: int, version: tuple[int, int]) -> str:
        """The indexed expression.

        Args:
            dimension: The dimension.
            version: Of pgvector.
        """
        return f"value::{self._type(version)}({dimension})"

    def settings(self, top_k: int) -> Mapping[str, str]:
        """What a search sets for its transaction."""
        wide = str(min(max(100, top_k), 1000))
        known: dict[IndexType, dict[str, str]] = {
            "HNSW": {
                "hnsw.ef_search": wide,
                "hnsw.iterative_scan": "strict_order",
                "hnsw.max_scan_tuples": str(_SCANNED),
            },
            "IVFFlat": {"ivfflat.probes": "50", "ivfflat.iterative_scan": "relaxed_order", "ivfflat.max_probes": "32768"},
            "VCHORDRQ": {"vchordrq.probes": "20"},
        }
        # Without sorting, the plan that is left takes the rows in the order of the index.
        return MappingProxyType({"enable_sort": "off", **known[self.kind]})

    async def require(self, connection: Any) -> None:
        """Looks whether the server has what this kind of index needs.

        Args:
            connection: One of the role that owns the tables.

        Raises:
            ConfigError: It does not.
        """
        if self.kind == "VCHORDRQ":
            if not await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'vchord'"):
                raise ConfigError(
                    "vector_index_type is 'VCHORDRQ', but the server does not have the extension 'vchord'",
                    hint="install VectorChord there, or use 'HNSW'",
                )
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vchord CASCADE")

    async def build(self, connection: Any, space: int, dimension: int, version: tuple[int, int], rows: int) -> bool:
        """Builds the index of a space unless it is there or another process builds it. Writers wait meanwhile.

        Args:
            connection: One of the role that owns the tables, outside a transaction.
            space: The space.
            dimension: Of its vectors.
            version: Of pgvector.
            rows: How many there are.

        Returns:
            Whether it is there.
        """
        name = self.name(space, dimension)
        async with connection.transaction():
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", lock_number("index", name)):
                return False
            if await connection.fetchval("SELECT to_regclass($1)", f"ekr.{name}") is not None:
                return True
            await connection.execute(
                f"SET LOCAL maintenance_work_mem = '{_MEMORY}'; SET LOCAL lock_timeout = '{_PATIENCE}';"
                " SET LOCAL max_parallel_maintenance_workers = 0"
            )
            operators = f"{self._type(version)}_cosine_ops"
            await connection.execute(
                f"CREATE INDEX {name} ON ekr.vector USING {self.kind.lower()} (({self.column(dimension, version)}) {operators})"
                f" {self._options(rows)} WHERE space = {space} AND vector_dims(value) = {dimension}"
            )
        return True

    def _type(self, version: tuple[int, int]) -> str:
        return "halfvec" if version >= _HALF_SINCE and self.kind != "VCHORDRQ" else "vector"

    def _options(self, rows: int) -> str:
        lists = self.lists or max(round(rows**0.5), 10)
        known = {
            "HNSW": f"WITH (m = {self.m}, ef_construction = {self.ef})",
            "IVFFlat": f"WITH (lists = {lists})",
            "VCHORDRQ": f"WITH (options = 'build.internal.lists = [{lists}]')",
        }
        return known[self.kind]


@dataclass(frozen=True, slots=True)
class Growing:
    """An index that may have to be built."""

    workspace: str
    space: int
    dimension: int
    index: VectorIndex

    @property
    def name(self) -> str:
        """Of the index."""
        return self.index.name(self.space, self.dimension)


class Indexes:
    """Which indexes of a database are there, and which are to be built.

    Args:
        server: For the words of messages.
    """

    def __init__(self, server: PGServer) -> None:
        self._server = server
        self._there: set[str] = set()
        self._rows: dict[Growing, int] = {}
        """At most so many rows are there."""
        self.version = (0, 0)
        """Of pgvector."""

    async def prepare(self, connection: Any, index: VectorIndex) -> None:
        """Looks at the extensions of the database.

        Args:
            connection: One of the role that owns the tables.
            index: A kind of index that is wanted.

        Raises:
            ConfigError: The server does not have what it needs.
        """
        await index.require(connection)
        text: str = await connection.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        major, minor = text.split(".")[:2]
        self.version = (int(major), int(minor))

    async def ready(self, session: PGSession, name: str) -> bool:
        """Whether there is an index of this name."""
        if name not in self._there and await session.one("SELECT to_regclass($1)::oid", f"ekr.{name}"):
            self._there.add(name)
        return name in self._there

    async def grew(self, session: PGSession, grown: Growing, rows: int) -> None:
        """Notes that rows were written in a transaction.

        Args:
            session: The transaction.
            grown: What they belong to.
            rows: How many.
        """
        if grown.name in self._there or not grown.index.fits(grown.dimension, self.version):
            return
        if grown in self._rows:
            self._rows[grown] += rows
        else:
            self._rows[grown] = int(await session.one(_COUNT, grown.space))
        if self._rows[grown] >= grown.index.rows:
            session.grown.add(grown)

    async def follow(self, grown: Iterable[Growing], connection: Any) -> None:
        """Builds what is due after a commit. The commit stands even if that fails.

        Args:
            grown: What may be due.
            connection: One of the role that owns the tables, outside a transaction.
        """
        try:
            with self._server.translated():
                for one in grown:
                    await self._build(one, connection)
        except StorageError as failure:
            logger.warning("vectors of %s are searched without an index: %s", self._server, failure)

    async def _build(self, grown: Growing, connection: Any) -> None:
        await connection.execute("SELECT set_config('ekr.workspace', $1, false)", f"={grown.workspace}")
        self._rows[grown] = count = int(await connection.fetchval(_COUNT, grown.space))
        if count >= grown.index.rows and await grown.index.build(connection, grown.space, grown.dimension, self.version, count):
            self._there.add(grown.name)


_COUNT = "SELECT count(*) FROM ekr.vector WHERE space = $1"
