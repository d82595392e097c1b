"""Port of the parsers, and what they read from."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import ClassVar, Final

from easy_knowledge_retriever.errors import EKRError, MissingExtraError, ParseError
from easy_knowledge_retriever.text.hashing import digest, document_id
from easy_knowledge_retriever.types import Block, Document, Link, Metadata, PageSpan

__all__ = ["DocumentParser", "Parsed", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A file to parse: its bytes and how its document is called."""

    name: str
    """Identity within the collection."""
    content: bytes
    suffix: str = ""
    """In lower case, with the dot; that of the name if empty."""
    collection: str = ""
    document_id: str = ""
    """Id the caller gave; made from name and collection if empty."""
    metadata: Metadata = field(default_factory=dict)
    first_page: int = 1
    """First page wanted, 1-based."""
    last_page: int | None = None
    """Last page wanted, 1-based and itself included; None for the end of the file."""
    digest: str = field(init=False)
    """Digest of the content, and of the range where only some pages are wanted: the version."""

    def __post_init__(self) -> None:
        of_content = digest(self.content)
        wanted = of_content if self.whole else digest(f"{of_content} {self.first_page} {self.last_page}")
        object.__setattr__(self, "digest", wanted)
        if not self.suffix:
            object.__setattr__(self, "suffix", PurePath(self.name).suffix.lower())
        if not self.document_id:
            object.__setattr__(self, "document_id", document_id(self.name, self.collection))

    @property
    def whole(self) -> bool:
        """Whether all pages are wanted."""
        return self.first_page == 1 and self.last_page is None

    def wants(self, page: int) -> bool:
        """Whether a page is in the range, 1-based."""
        return self.first_page <= page and (self.last_page is None or page <= self.last_page)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser finds in a content, whatever its document is called."""

    text: str
    blocks: Sequence[Block] = ()
    title: str = ""
    pages: Sequence[PageSpan] = ()
    links: Sequence[Link] = ()
    warnings: Sequence[str] = ()


class DocumentParser(ABC):
    """Reads one format. Without state, safe in several threads."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Raised with every change to what it finds: cached parses of another version are not used."""
    suffixes: ClassVar[tuple[str, ...]]
    """In lower case, with the dot."""
    paged: ClassVar[bool] = False
    """Whether the format has pages."""
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Modules it imports that are no dependency of the base install → the packages they come in, all of them of one extra."""
    extra: ClassVar[str] = "documents"
    """The extra that installs them."""

    @property
    def fingerprint(self) -> str:
        """Name and version, as ``Document.parser`` has it."""
        return f"{self.name} {self.version}"

    @property
    def missing(self) -> str:
        """The first package it needs that is not installed; empty if it can read."""
        return next((package for module, package in self.needs.items() if importlib.util.find_spec(module) is None), "")

    def parse(self, source: Source) -> Document:
        """The document. It computes and nothing else, so an async caller runs it in a thread.

        Raises:
            ParseError: The content cannot be read, holds no text, or is of another format than the name says.
            MissingExtraError: It needs a package that is not installed.
        """
        if self.missing:
            raise MissingExtraError(self.missing, self.extra)
        if not source.content.strip(b"\0\t\n\r "):
            raise ParseError(f"{source.name!r} is empty", code="empty")
        _refuse_other_content(source, self.suffixes)
        parsed = self._translated(source)
        if not parsed.text.strip():
            raise ParseError(f"{source.name!r} holds no text", code="empty")
        warnings = list(parsed.warnings)
        if not (source.whole or self.paged):
            warnings.append(f"the page range is ignored: {source.suffix} has no pages")
        return Document(
            id=source.document_id,
            name=source.name,
            text=parsed.text,
            digest=source.digest,
            blocks=tuple(parsed.blocks),
            title=parsed.title,
            collection=source.collection,
            pages=tuple(parsed.pages),
            links=tuple(parsed.links),
            metadata=source.metadata,
            parser=self.fingerprint,
            warnings=tuple(warnings),
        )

    def _translated(self, source: Source) -> Parsed:
        try:
            return self.parsed(source)
        except (EKRError, MemoryError):
            raise
        except Exception as error:  # what the readers of other people raise over a broken file is anybody's guess
            raise ParseError(
                f"{source.name!r} is damaged, or no {source.suffix} file: {type(error).__name__}: {error}",
                code="corrupt",
                hint="open it and save it again, or fetch it again",
            ) from error

    @abstractmethod
    def parsed(self, source: Source) -> Parsed:
        """What the content holds; it is neither empty nor plainly of another format.

        Raises:
            ParseError: It cannot be read. Whatever else is raised becomes one, ``corrupt``.
        """


_OLD: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SIGNATURES: Final[tuple[tuple[bytes, str, tuple[str, ...]], ...]] = (
    (b"%PDF-", "a PDF", (".pdf",)),
    (b"PK\x03\x04", "a ZIP archive or an Office file", (".zip", ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub")),
    (_OLD, "an old Office or Outlook file", (".doc", ".xls", ".ppt", ".msg")),
    (b"{\\rtf", "a rich text file", (".rtf",)),
    (b"\x1f\x8b", "a gzip archive", (".gz",)),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", (".7z",)),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", (".png",)),
    (b"\xff\xd8\xff", "a JPEG picture", (".jpg", ".jpeg")),
    (b"GIF8", "a GIF picture", (".gif",)),
    (b"SQLite format 3\0", "an SQLite database", (".db", ".sqlite")),
    (b"\x7fELF", "a program", ()),
)
"""First bytes, what they mean, and the suffixes that say the same."""


_LOCKED: Final = "EncryptedPackage".encode("utf-16-le")
"""Stands in an Office file with a password, which is wrapped in the old format."""


def _refuse_other_content(source: Source, suffixes: tuple[str, ...]) -> None:
    if source.content.startswith(_OLD) and _LOCKED in source.content:
        raise ParseError(
            f"{source.name!r} is encrypted: a password is needed",
            code="encrypted",
            hint="save a copy without a password and ingest that",
        )
    for signature, meaning, own in _SIGNATURES:
        if source.content.startswith(signature) and not set(own) & set(suffixes):
            fitting = f"give it the suffix {own[0]}" if len(own) == 1 else "give it the suffix of its format"
            raise ParseError(f"{source.name!r} is {meaning} by its content, not what its name says", code="corrupt", hint=fitting)
