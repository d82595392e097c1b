"""Where a document comes from: a file that is parsed, or a document that is there already."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.failpoints import failpoint
from easy_knowledge_retriever.ingestion.parses import parse_key, parse_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.parsing import parser_for
from easy_knowledge_retriever.parsing.base import Source
from easy_knowledge_retriever.types import DocRecord, DocStatus, Document, Metadata

__all__ = ["File", "Given", "Origin", "identity_of", "without_broken_characters"]

_WORTH_KEEPING: Final = 0.2
"""Seconds a parse takes that is kept for a second attempt."""


_BROKEN: Final = re.compile("[\0\ud800-\udfff]")


class Origin(ABC):
    """A document on its way in: what it is called, its version, and then what it says."""

    @abstractmethod
    def record(self) -> DocRecord:
        """Its status before anything is known of its content."""

    @abstractmethod
    async def version(self) -> str:
        """Digest of its content.

        Raises:
            ParseError: There is nothing to read.
        """

    @abstractmethod
    async def document(self, kb: KnowledgeBase, *, keep: bool = True) -> Document:
        """The document. ``version`` was called before.

        Args:
            kb: The base, which may know it already.
            keep: Whether a parse that took long may be written there for a second attempt.

        Raises:
            ParseError: It cannot be read.
        """


class Given(Origin):
    """A document that was parsed elsewhere, or a bare text."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def record(self) -> DocRecord:
        given = self._document
        return DocRecord(given.id, given.name, DocStatus.PROCESSING, given.collection, metadata=given.metadata)

    async def version(self) -> str:
        return self._document.digest

    async def document(self, kb: KnowledgeBase, *, keep: bool = True) -> Document:
        return self._document


class File(Origin):
    """A file, parsed by what its suffix says; equal contents are parsed once.

    Args:
        path: The file.
        source: How its document is called; the content is filled in when it is read.
    """

    def __init__(self, path: Path, source: Source) -> None:
        self._path = path
        self._source = source

    @classmethod
    def at(cls, path: str | Path, name: str, collection: str, metadata: Metadata, first_page: int, last_page: int | None) -> File:
        """The file at ``path``, its document called ``name``; pages are 1-based and both included."""
        suffix = Path(path).suffix.lower()
        source = Source(name, b"", suffix, collection, "", metadata, first_page, last_page)
        return cls(Path(path), source)

    def record(self) -> DocRecord:
        source = self._source
        return DocRecord(source.document_id, source.name, DocStatus.PROCESSING, source.collection, metadata=source.metadata)

    async def version(self) -> str:
        parser_for(self._path)
        content = await asyncio.to_thread(_content, self._path)
        self._source = await asyncio.to_thread(_filled, self._source, content)
        return self._source.digest

    async def document(self, kb: KnowledgeBase, *, keep: bool = True) -> Document:
        parser = parser_for(self._path)
        known = await self._known(kb, parser.fingerprint)
        if known is not None:
            return known
        failpoint("parse-start")
        began = time.perf_counter()
        document = await asyncio.to_thread(parser.parse, self._source)
        failpoint("parsed")
        if keep and time.perf_counter() - began > _WORTH_KEEPING:
            await kb.parses.put_many({parse_key(document.digest, document.parser): document})
            failpoint("parse-durable")
        return document

    async def _known(self, kb: KnowledgeBase, parser: str) -> Document | None:
        """The parse of the same content, from an attempt that failed later or from another document."""
        source = self._source
        parse = await parse_of(kb, source.digest, parser)
        if parse is not None and not parse.text:
            parse = (await kb.documents.get_many([parse.id])).get(parse.id)
        if parse is None or parse.digest != source.digest:
            return None
        return replace(parse, id=source.document_id, name=source.name, collection=source.collection, metadata=source.metadata)


def identity_of(record: DocRecord) -> tuple[str, str, str]:
    """What its chunks carry of a document: a caller's own id may come back under another name or in another collection."""
    return record.version, record.name, record.collection


def without_broken_characters(document: Document) -> Document:
    """The document with NUL and halves of surrogate pairs replaced one for one: no store keeps them, and offsets stay."""
    if _BROKEN.search(document.text) is None and _BROKEN.search(document.title) is None:
        return document
    warnings = (*document.warnings, "broken_characters")
    return replace(
        document, text=_BROKEN.sub("\ufffd", document.text), title=_BROKEN.sub("\ufffd", document.title), warnings=warnings
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ParseError(f"there is no file {str(path)!r}", code="not_found") from error
    except OSError as error:
        raise ParseError(f"{str(path)!r} cannot be read: {error.strerror}", code="not_found") from error


def _filled(source: Source, content: bytes) -> Source:
    return Source(
        source.name,
        content,
        source.suffix,
        source.collection,
        source.document_id,
        source.metadata,
        source.first_page,
        source.last_page,
    )
