"""An index that LightRAG or the earlier EKR keeps in JSON files, nano-vectordb files and GraphML, as frozen values.

The files are another program's: whatever they hold is checked, and what is not needed may be missing or broken.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from easy_knowledge_retriever.errors import NotFound, ParseError
from easy_knowledge_retriever.importing.graphml import GraphML, read_graphml
from easy_knowledge_retriever.types import FloatVector

__all__ = ["Fact", "LightRAGIndex", "OldChunk", "OldDocument", "is_lightrag_index", "read_lightrag_index"]

CHUNKS: Final = "kv_store_text_chunks.json"
DOCUMENTS: Final = "kv_store_full_docs.json"
STATUS: Final = "kv_store_doc_status.json"
REPLIES: Final = "kv_store_llm_response_cache.json"
GRAPH: Final = "graph_chunk_entity_relation.graphml"
VECTORS: Final = "vdb_chunks.json"
SEPARATOR: Final = "<SEP>"
"""Between the descriptions, chunk ids and file names that were merged."""
BROKEN: Final = "\ufffd"
"""Half a character, where a text was cut by tokens."""
_NAMELESS: Final = frozenset({"", "unknown_source", "no-file-path"})
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OldChunk:
    """A chunk as it was kept."""

    id: str
    document_id: str
    order: int
    text: str


@dataclass(frozen=True, slots=True)
class OldDocument:
    """A document with its chunks in order. ``text`` is empty where only the chunks were kept."""

    id: str
    name: str
    text: str
    chunks: tuple[OldChunk, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A node, or an edge if ``target`` is not empty, with all that its chunks said merged."""

    source: str
    target: str = ""
    type: str = "UNKNOWN"
    descriptions: tuple[str, ...] = ()
    keywords: str = ""
    weight: float = 1.0
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LightRAGIndex:
    """Everything of an index that can be carried over."""

    documents: tuple[OldDocument, ...]
    unfinished: tuple[str, ...] = ()
    """Names of documents that were never processed to their end there."""
    replies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Chunk id → what the model answered about it."""
    other_replies: int = 0
    """Kept answers to questions, and replies whose chunk is not known."""
    facts: tuple[Fact, ...] = ()
    vectors: Mapping[str, FloatVector] = field(default_factory=dict)
    """Chunk id → vector of its text."""
    problems: tuple[str, ...] = ()
    """Files that could not be read, and what is missing by that."""


def is_lightrag_index(folder: Path) -> bool:
    """Whether a folder holds such an index."""
    return (folder / CHUNKS).is_file()


def read_lightrag_index(folder: Path, workspace: str = "") -> LightRAGIndex:
    """Reads an index. Nothing is written.

    Args:
        folder: The ``working_dir`` it was made with.
        workspace: The ``workspace`` it was made with.

    Raises:
        NotFound: There is none.
        ParseError: The chunks, which everything rests on, cannot be read.
    """
    place = folder / workspace if workspace else folder
    if not is_lightrag_index(place):
        inner = sorted(path.parent.name for path in folder.glob(f"*/{CHUNKS}")) if folder.is_dir() else []
        hint = f"name one of the workspaces {', '.join(inner)}" if inner else f"give the folder that holds {CHUNKS}"
        raise NotFound(f"there is no LightRAG index in {str(place)!r}", hint=hint)
    return _Reading(place).index()


class _Reading:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problems: list[str] = []

    def index(self) -> LightRAGIndex:
        rows = _objects(_json(self._folder / CHUNKS))
        chunks = [chunk for key, row in rows.items() if (chunk := _chunk(key, row)) is not None]
        if len(chunks) < len(rows):
            self._problems.append(f"{len(rows) - len(chunks)} chunks without text or document")
        status = self._optional(STATUS, "which documents were finished")
        documents = list(self._documents(chunks, rows, status))
        replies, others = self._replies(chunks, rows)
        known = {document.id for document in documents}
        return LightRAGIndex(
            documents=tuple(documents),
            unfinished=tuple(sorted(_named(key, row) for key, row in status.items() if key not in known)),
            replies=replies,
            other_replies=others,
            facts=tuple(self._facts()),
            vectors=self._vectors(),
            problems=tuple(self._problems),
        )

    def _documents(self, chunks: list[OldChunk], rows: Mapping[str, Row], status: Mapping[str, Row]) -> Iterator[OldDocument]:
        texts = self._optional(DOCUMENTS, "the texts of the documents, which are put together from their chunks")
        of_document: dict[str, list[OldChunk]] = {}
        for chunk in sorted(chunks, key=lambda chunk: (chunk.order, chunk.id)):
            of_document.setdefault(chunk.document_id, []).append(chunk)
        names: dict[str, str] = {}
        for key in sorted(of_document):
            name = _name(texts.get(key, {}), status.get(key, {}), *(rows[chunk.id] for chunk in of_document[key][:1]))
            names[key] = name or key
        for key, parts in sorted(of_document.items()):
            if status and status.get(key, {}).get("status", "processed") not in {"processed", "preprocessed"}:
                continue
            name = names[key] if list(names.values()).count(names[key]) == 1 else f"{names[key]} ({key})"
            yield OldDocument(key, name, _text(texts.get(key, {}).get("content")), tuple(parts))

    def _replies(self, chunks: list[OldChunk], rows: Mapping[str, Row]) -> tuple[Mapping[str, tuple[str, ...]], int]:
        entries = _flat(self._optional(REPLIES, "what the model answered, so facts are taken from the merged graph"))
        owners = {key: chunk.id for chunk in chunks for key in _strings(rows[chunk.id].get("llm_cache_list"))}
        texts = {chunk.text.strip(): chunk.id for chunk in chunks}
        found: dict[str, list[tuple[float, str]]] = {}
        others = 0
        for key, entry in entries.items():
            reply = _text(entry.get("return"))
            chunk_id = _text(entry.get("chunk_id")) or owners.get(key) or texts.get(_asked_about(entry))
            if entry.get("cache_type", "extract") != "extract" or not reply or chunk_id is None:
                others += 1
            else:
                found.setdefault(chunk_id, []).append((_number(entry.get("create_time"), 0.0), reply))
        return {key: tuple(text for _, text in sorted(said, key=lambda pair: pair[0])) for key, said in found.items()}, others

    def _facts(self) -> Iterator[Fact]:
        graph = self._graph()
        for key, node in graph.nodes.items():
            name = node.get("entity_id", "").strip('"') or key.strip('"')
            yield Fact(name, "", node.get("entity_type", "UNKNOWN").strip('"'), *_said(node))
        for source, target, edge in graph.edges:
            descriptions, keywords, _, chunk_ids = _said(edge)
            weight = _number(edge.get("weight"), 1.0)
            yield Fact(source.strip('"'), target.strip('"'), "", descriptions, keywords, weight, chunk_ids)

    def _graph(self) -> GraphML:
        path = self._folder / GRAPH
        if not path.is_file():
            self._problems.append(f"{GRAPH} is missing: what no kept reply says is lost")
            return GraphML({}, ())
        try:
            return read_graphml(path)
        except ParseError as failure:
            self._problems.append(f"{failure}: what no kept reply says is lost")
            return GraphML({}, ())

    def _vectors(self) -> Mapping[str, FloatVector]:
        missing = "the vectors, which are made again"
        stored = self._json_or_none(VECTORS, missing)
        if not isinstance(stored, dict):
            return {}
        try:
            matrix = np.frombuffer(base64.b64decode(stored["matrix"], validate=True), dtype="<f4")
            ids = [str(row["__id__"]) for row in stored["data"]]
            rows = matrix.reshape(len(ids), int(stored["embedding_dim"]))
        except (KeyError, TypeError, ValueError, binascii.Error):
            self._problems.append(f"{VECTORS} is broken: without it are {missing}")
            return {}
        lengths = np.linalg.norm(rows, axis=1)
        return {key: row for key, row, length in zip(ids, rows, lengths, strict=True) if math.isfinite(length) and length > 0}

    def _optional(self, name: str, missing: str) -> Mapping[str, Row]:
        return _objects(self._json_or_none(name, missing))

    def _json_or_none(self, name: str, missing: str) -> Any:
        path = self._folder / name
        if not path.is_file():
            return None
        try:
            return _json(path)
        except ParseError as failure:
            self._problems.append(f"{failure}: without it are {missing}")
            return None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as failure:
        raise ParseError(f"{path.name} is no whole JSON file: {failure}", code="corrupt") from failure
    except OSError as failure:
        raise ParseError(f"{path.name} cannot be read: {failure}", code="unreadable") from failure


def _objects(value: Any) -> Mapping[str, Row]:
    return {key: row for key, row in value.items() if isinstance(row, dict)} if isinstance(value, dict) else {}


def _flat(entries: Mapping[str, Row]) -> Mapping[str, Row]:
    """The entries by key; before 1.3.9 they stand one level deeper, under the mode of the query."""
    flat: dict[str, Row] = {}
    for key, entry in entries.items():
        flat |= {key: entry} if "return" in entry else _objects(entry)
    return flat


def _chunk(key: str, row: Row) -> OldChunk | None:
    text, document_id = _text(row.get("content")), _text(row.get("full_doc_id"))
    order = row.get("chunk_order_index", 0)
    return (
        OldChunk(key, document_id, order if isinstance(order, int) else 0, text)
        if text.strip(f"{BROKEN} \t\r\n") and document_id
        else None
    )


def _said(attributes: Mapping[str, str]) -> tuple[tuple[str, ...], str, float, tuple[str, ...]]:
    """Descriptions, keywords, weight and chunk ids of a node or an edge."""
    descriptions = tuple(part.strip().strip('"') for part in attributes.get("description", "").split(SEPARATOR))
    chunk_ids = tuple(part for part in attributes.get("source_id", "").split(SEPARATOR) if part)
    keywords = attributes.get("keywords", "").replace(SEPARATOR, ",").strip('"')
    return tuple(part for part in descriptions if part), keywords, _number(attributes.get("weight"), 1.0), chunk_ids


def _name(*rows: Row) -> str:
    return next((name for row in rows if (name := _text(row.get("file_path"))) not in _NAMELESS), "")


def _named(key: str, row: Row) -> str:
    return _name(row) or key


def _asked_about(entry: Row) -> str:
    """The passage at the end of the prompt, for entries that do not name their chunk."""
    passage = _text(entry.get("original_prompt")).rpartition("\nText:\n")[2]
    return passage.partition("\n######################")[0].strip().strip("`").strip()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _strings(value: object) -> list[str]:
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


def _number(value: object, default: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever it is, it is a number or an error
    except (TypeError, ValueError):
        return default
    return number if math.isfinite(number) else default
