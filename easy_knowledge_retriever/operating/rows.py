"""A base as a stream of rows, the same for every backend, and such rows back into a base.

All that a base holds is there but the postings, which no port shows: they are made of the chunks again, document by document.
What is about one store and not about the base (which set of vectors is served) is left out. Nothing is kept in memory but the
ids of vectors and of the graph, and a few hundred rows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Final, TypeVar

import numpy as np

from easy_knowledge_retriever.errors import StoreCorruptError
from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.kg.base import JsonObject, JsonValue
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, Table
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.operations.indexing import lexical_records
from easy_knowledge_retriever.types import MentionEdge, VectorRecord

__all__ = ["VECTORS", "Row", "put_rows", "rows_of"]

T = TypeVar("T")

OF_THE_STORE: Final = frozenset({"vector_index", "redo"})
"""Key-value storages of a base that are about its store."""
VECTORS: Final = ("chunk_vectors", "entity_vectors", "relation_vectors")
_AT_ONCE: Final = 500
"""Rows that are read at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one role of a base."""

    role: str
    """A field of :class:`KnowledgeBase`, or ``entities``, ``relations`` or ``mentions`` of the graph."""
    key: str
    value: JsonObject

    @property
    def line(self) -> bytes:
        """The row as one line of JSON, always the same for the same row."""
        cells = [self.role, self.key, self.value]
        try:
            return _encoded(cells, ensure_ascii=False)
        except UnicodeEncodeError:  # half of a character, which a text may hold and UTF-8 may not
            return _encoded(cells, ensure_ascii=True)


def _encoded(cells: Sequence[object], *, ensure_ascii: bool) -> bytes:
    text = json.dumps(cells, sort_keys=True, separators=(",", ":"), default=dict, ensure_ascii=ensure_ascii)
    return text.encode() + b"\n"


async def rows_of(view: KnowledgeBase) -> AsyncGenerator[Row]:
    """Every row, in an order that is the same for equal bases. Rows that others are made of come before them.

    Args:
        view: A snapshot, or rows of several states may be mixed.
    """
    for role, storage in _tables(view).items():
        async for key, value in storage.scan():
            yield Row(role, key, value)
    for role in VECTORS:
        async for row in _vectors(role, getattr(view, role)):
            yield row
    async for row in _graph(view.graph):
        yield row
    async for row in _records(view.status):
        yield row


def _tables(view: KnowledgeBase) -> dict[str, KVStorage]:
    found: dict[str, KVStorage] = {}
    for name in (spec.name for spec in fields(view) if spec.name not in OF_THE_STORE):
        member = getattr(view, name)
        storage = member.storage if isinstance(member, Table) else member
        if isinstance(storage, KVStorage):
            found[name] = storage
    return found


async def _vectors(role: str, index: VectorStorage) -> AsyncGenerator[Row]:
    for ids in _parts(sorted(await index.ids())):
        vectors = await index.vectors(ids)
        for key in ids:
            yield Row(role, key, {"vector": base64.b64encode(vectors[key].astype("<f4").tobytes()).decode()})


async def _graph(graph: GraphStorage) -> AsyncGenerator[Row]:
    keys = sorted(await graph.keys())
    for part in _parts(keys):
        entities = await graph.entities(part)
        for key in part:
            yield Row("entities", key, codecs.encode_entity(entities[key]))
    for pairs in _parts(sorted(await graph.relation_keys())):
        relations = await graph.relations(pairs)
        for pair in pairs:
            yield Row("relations", pair.id, codecs.encode_relation(relations[pair]))
    for part in _parts(keys):
        mentions = await graph.mentions_of(part)
        for key in part:
            edges = sorted(mentions.get(key, ()), key=lambda edge: edge.chunk_id)
            if edges:
                cells: list[list[JsonValue]] = [
                    [edge.chunk_id, edge.document_id, edge.collection, edge.weight, edge.source] for edge in edges
                ]
                yield Row("mentions", key, {"edges": cells})


async def _records(status: DocStatusStorage) -> AsyncGenerator[Row]:
    offset = 0
    while records := await status.page(offset, _AT_ONCE):
        for record in records:
            yield Row("status", record.id, codecs.encode_record(record))
        offset += len(records)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), _AT_ONCE):
        yield items[at : at + _AT_ONCE]


async def put_rows(inside: KnowledgeBase, rows: Sequence[Row]) -> None:
    """Writes rows in the order of :func:`rows_of`, and the postings of the documents whose lists of chunks are among them.

    Args:
        inside: A transaction.
        rows: Some rows; what they are made of is there already, or among them.

    Raises:
        StoreCorruptError: One is none of a base.
    """
    tables = _tables(inside)
    for role, group in groupby(rows, key=lambda row: row.role):
        values = {row.key: row.value for row in group}
        try:
            if role in tables:
                await _put_table(inside, role, tables[role], values)
            elif role in VECTORS:
                await _put_vectors(inside, role, values)
            else:
                await _put_graph_or_status(inside, role, values)
        except (KeyError, TypeError, ValueError, AttributeError) as failure:
            raise StoreCorruptError(
                f"the {role} from {next(iter(values))!r} on are not rows of a base: {failure!r}",
                hint="nothing of them was written",
            ) from failure


async def _put_table(inside: KnowledgeBase, role: str, storage: KVStorage, values: Mapping[str, Any]) -> None:
    member = getattr(inside, role)
    if isinstance(member, Table):
        for value in values.values():
            member.decode(value)  # raises what is translated above
    await storage.put_many(values)
    if role == "manifests":
        for value in values.values():
            ids = codecs.decode_manifest(value)
            chunks = await inside.chunks.get_many(ids)
            await inside.lexical.put_many(lexical_records([chunks[key] for key in ids if key in chunks]))


async def _put_vectors(inside: KnowledgeBase, role: str, values: Mapping[str, Any]) -> None:
    index: VectorStorage = getattr(inside, role)
    chunks = await inside.chunks.get_many(list(values)) if role == "chunk_vectors" else {}
    records = []
    for key, value in values.items():
        vector = np.frombuffer(base64.b64decode(value["vector"], validate=True), "<f4").astype(np.float32)
        chunk = chunks.get(key)
        about = (chunk.document_id, chunk.collection) if chunk is not None else ("", "")
        records.append(VectorRecord(key, vector, *about))
    await index.put_many(records)


async def _put_graph_or_status(inside: KnowledgeBase, role: str, values: Mapping[str, Any]) -> None:
    match role:
        case "entities":
            await inside.graph.put_entities([codecs.decode_entity(value) for value in values.values()])
        case "relations":
            await inside.graph.put_relations([codecs.decode_relation(value) for value in values.values()])
        case "mentions":
            await inside.graph.put_mentions(
                [MentionEdge(key, *cells) for key, value in values.items() for cells in value["edges"]]
            )
        case "status":
            await inside.status.put([codecs.decode_record(value) for value in values.values()])
        case _:
            raise ValueError(f"there is no role {role!r}")
