"""Values to JSON objects and back. JSON exists here and in no other step."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from easy_knowledge_retriever.kg.base import JsonObject, JsonValue
from easy_knowledge_retriever.types import (
    Block,
    Box,
    Chunk,
    DocRecord,
    DocStatus,
    Document,
    Entity,
    EntityMention,
    Expansion,
    Extraction,
    Fragment,
    Link,
    NameRow,
    NameUse,
    Naming,
    PageSpan,
    Relation,
    RelationKey,
    RelationMention,
    Reply,
    StagedVectors,
    Summary,
    Tally,
    Transcript,
)

__all__ = [
    "decode_chunk",
    "decode_document",
    "decode_entity",
    "decode_extraction",
    "decode_manifest",
    "decode_name_rows",
    "decode_naming",
    "decode_record",
    "decode_relation",
    "decode_staged_vectors",
    "decode_summary",
    "decode_transcript",
    "encode_chunk",
    "encode_document",
    "encode_entity",
    "encode_extraction",
    "encode_manifest",
    "encode_name_rows",
    "encode_naming",
    "encode_record",
    "encode_relation",
    "encode_staged_vectors",
    "encode_summary",
    "encode_transcript",
]

# Inside a decoder JSON is Any: the shape was written by the encoder beside it, and a store that was tampered with
# fails with a KeyError or TypeError, which the storages report as StoreCorruptError.
Json = Any


def encode_document(value: Document) -> JsonObject:
    """A document as a JSON object."""
    return {
        "id": value.id,
        "name": value.name,
        "text": value.text,
        "digest": value.digest,
        "blocks": [[b.kind, b.start, b.end, b.page, b.level, b.box] for b in value.blocks],
        "title": value.title,
        "collection": value.collection,
        "pages": [list(p) for p in _page_rows(value.pages)],
        "links": [[link.start, link.end, link.target] for link in value.links],
        "metadata": dict(value.metadata),
        "parser": value.parser,
        "warnings": list(value.warnings),
    }


def decode_document(data: Json) -> Document:
    """The document an object stands for."""
    return Document(
        id=data["id"],
        name=data["name"],
        text=data["text"],
        digest=data["digest"],
        blocks=tuple(
            Block(kind, start, end, page, level, Box(*box) if box else None)
            for kind, start, end, page, level, box in data["blocks"]
        ),
        title=data["title"],
        collection=data["collection"],
        pages=_pages(data["pages"]),
        links=tuple(Link(*row) for row in data["links"]),
        metadata=dict(data["metadata"]),
        parser=data["parser"],
        warnings=tuple(data["warnings"]),
    )


def encode_chunk(value: Chunk) -> JsonObject:
    """A chunk as a JSON object; a parent and the head of a table only where it has one."""
    return {
        **({"parent": list(value.parent)} if value.parent else {}),
        **({"table_head": value.table_head} if value.table_head else {}),
        "id": value.id,
        "document_id": value.document_id,
        "document_name": value.document_name,
        "version": value.version,
        "order": value.order,
        "text": value.text,
        "start": value.start,
        "end": value.end,
        "pages": [list(p) for p in _page_rows(value.pages)],
        "headings": list(value.headings),
        "tokens": value.tokens,
        "collection": value.collection,
        "extra": dict(value.extra),
        "next_id": value.next_id,
    }


def decode_chunk(data: Json) -> Chunk:
    """The chunk an object stands for."""
    return Chunk(
        id=data["id"],
        document_id=data["document_id"],
        document_name=data["document_name"],
        version=data["version"],
        order=data["order"],
        text=data["text"],
        start=data["start"],
        end=data["end"],
        pages=_pages(data["pages"]),
        headings=tuple(data["headings"]),
        tokens=data["tokens"],
        collection=data["collection"],
        extra=dict(data["extra"]),
        next_id=data["next_id"],
        parent=(data["parent"][0], data["parent"][1]) if "parent" in data else None,
        table_head=data.get("table_head", ""),
    )


def encode_extraction(value: Extraction) -> JsonObject:
    """An extraction as a JSON object."""
    return {
        "chunk_id": value.chunk_id,
        "document_id": value.document_id,
        "source": value.source,
        "entities": [[m.name, m.type, m.description, m.start, m.end] for m in value.entities],
        "relations": [[m.source, m.target, m.description, list(m.keywords), m.weight, m.start, m.end] for m in value.relations],
    }


def decode_extraction(data: Json) -> Extraction:
    """The extraction an object stands for."""
    return Extraction(
        chunk_id=data["chunk_id"],
        document_id=data["document_id"],
        source=data["source"],
        entities=tuple(EntityMention(*row) for row in data["entities"]),
        relations=tuple(
            RelationMention(source, target, description, tuple(keywords), weight, start, end)
            for source, target, description, keywords, weight, start, end in data["relations"]
        ),
    )


def encode_transcript(value: Transcript) -> JsonObject:
    """The replies about a chunk as a JSON object."""
    return {
        "document_id": value.document_id,
        "parts": [[[reply.text, reply.cut] for reply in part] for part in value.parts],
        "complete": value.complete,
    }


def decode_transcript(data: Json) -> Transcript:
    """The replies an object stands for; none in a row of an earlier version, which kept what was read from them."""
    return Transcript(
        document_id=data["document_id"],
        parts=tuple(tuple(Reply(text, cut) for text, cut in part) for part in data.get("parts", [[]])),
        complete=data.get("complete", False),
    )


def encode_naming(value: Naming) -> JsonObject:
    """How a document uses its names as a JSON object: names of one use stand together."""
    names: dict[NameUse, list[str]] = {}
    for key, use in value.uses.items():
        names.setdefault(use, []).append(key)
    return {
        "uses": [[*use, keys] for use, keys in sorted(names.items())],
        "expansions": [list(expansion) for expansion in value.expansions],
    }


def decode_naming(data: Json) -> Naming:
    """How the document of an object uses its names."""
    uses = {key: NameUse(kind, look, life) for kind, look, life, keys in data["uses"] for key in keys}
    return Naming(
        uses=dict(sorted(uses.items())),
        expansions=tuple(Expansion(*row) for row in data["expansions"]),
    )


def encode_name_rows(value: Mapping[str, NameRow]) -> JsonObject:
    """The rows of a group of names as a JSON object; what is empty is left out."""
    return {key: {name: part for name, part in _parts(row).items() if part} for key, row in value.items()}


def _parts(row: NameRow) -> dict[str, JsonValue]:
    return {
        "documents": row.documents,
        "kinds": dict(row.kinds),
        "looks": dict(row.looks),
        "lives": dict(row.lives),
        "expansions": dict(row.expansions),
        "acronyms": dict(row.acronyms),
        "apart": row.apart,
        "whole": row.whole,
        "into": row.into,
        "merged": list(row.merged),
    }


def decode_name_rows(data: Json) -> dict[str, NameRow]:
    """The rows an object stands for."""
    return {key: NameRow(**{**parts, "merged": tuple(parts.get("merged", ()))}) for key, parts in data.items()}


def encode_staged_vectors(value: StagedVectors) -> JsonObject:
    """Vectors as a JSON object."""
    packed = base64.b64encode(value.packed).decode()
    return {"document_id": value.document_id, "keys": list(value.keys), "packed": packed}


def decode_staged_vectors(data: Json) -> StagedVectors:
    """The vectors an object stands for."""
    return StagedVectors(data["document_id"], tuple(data["keys"]), base64.b64decode(data["packed"]))


def encode_manifest(value: tuple[str, ...]) -> JsonObject:
    """The chunk ids of a document as a JSON object."""
    return {"chunk_ids": list(value)}


def decode_manifest(data: Json) -> tuple[str, ...]:
    """The chunk ids an object stands for."""
    return tuple(data["chunk_ids"])


def encode_entity(value: Entity) -> JsonObject:
    """An entity as a JSON object."""
    return {
        "key": value.key,
        "names": [list(row) for row in value.names],
        "types": [list(row) for row in value.types],
        "fragments": [list(row) for row in value.fragments],
        "chunk_ids": list(value.chunk_ids),
        "file_paths": list(value.file_paths),
        "mention_count": value.mention_count,
        "sources": list(value.sources),
        "summary": value.summary,
        "pending": value.pending,
    }


def decode_entity(data: Json) -> Entity:
    """The entity an object stands for."""
    return Entity(
        key=data["key"],
        names=_tally(data["names"]),
        types=_tally(data["types"]),
        fragments=tuple(map(Fragment._make, data["fragments"])),
        chunk_ids=tuple(data["chunk_ids"]),
        file_paths=tuple(data["file_paths"]),
        mention_count=data["mention_count"],
        sources=tuple(data["sources"]),
        summary=data["summary"],
        pending=data.get("pending", False),  # a base of before there were summaries
    )


def encode_relation(value: Relation) -> JsonObject:
    """A relation as a JSON object."""
    return {
        "key": list(value.key),
        "first_name": value.first_name,
        "second_name": value.second_name,
        "keywords": [list(row) for row in value.keywords],
        "fragments": [list(row) for row in value.fragments],
        "weight": value.weight,
        "chunk_ids": list(value.chunk_ids),
        "file_paths": list(value.file_paths),
        "mention_count": value.mention_count,
        "sources": list(value.sources),
        "summary": value.summary,
        "pending": value.pending,
    }


def decode_relation(data: Json) -> Relation:
    """The relation an object stands for."""
    return Relation(
        key=RelationKey(*data["key"]),
        first_name=data["first_name"],
        second_name=data["second_name"],
        keywords=_tally(data["keywords"]),
        fragments=tuple(map(Fragment._make, data["fragments"])),
        weight=data["weight"],
        chunk_ids=tuple(data["chunk_ids"]),
        file_paths=tuple(data["file_paths"]),
        mention_count=data["mention_count"],
        sources=tuple(data["sources"]),
        summary=data["summary"],
        pending=data.get("pending", False),  # a base of before there were summaries
    )


def encode_summary(value: Summary) -> JsonObject:
    """A summary as a JSON object."""
    of = value.of if isinstance(value.of, str) else list(value.of)
    return {"of": of, "covers": list(value.covers), "text": value.text}


def decode_summary(data: Json) -> Summary:
    """The summary an object stands for."""
    of = data["of"] if isinstance(data["of"], str) else RelationKey(*data["of"])
    return Summary(of, tuple(data["covers"]), data["text"])


def encode_record(value: DocRecord) -> JsonObject:
    """A document's status as a JSON object."""
    return {
        "id": value.id,
        "name": value.name,
        "status": value.status.value,
        "collection": value.collection,
        "version": value.version,
        "pending_version": value.pending_version,
        "attempts": value.attempts,
        "stage": value.stage,
        "error": value.error,
        "chunk_count": value.chunk_count,
        "page_count": value.page_count,
        "title": value.title,
        "track_id": value.track_id,
        "metadata": dict(value.metadata),
        "created_at": value.created_at,
        "updated_at": value.updated_at,
    }


def decode_record(data: Json) -> DocRecord:
    """The status an object stands for."""
    return DocRecord(**{**data, "status": DocStatus(data["status"])})


def _page_rows(pages: tuple[PageSpan, ...]) -> list[tuple[int, int, int]]:
    return [(p.page, p.start, p.end) for p in pages]


def _pages(rows: Json) -> tuple[PageSpan, ...]:
    return tuple(PageSpan(page, start, end) for page, start, end in rows)


def _tally(rows: Json) -> Tally:
    return tuple(map(_pair, rows))


def _pair(row: Json) -> tuple[str, int]:
    value, count = row
    return value, count
