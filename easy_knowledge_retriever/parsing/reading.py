"""From a path or a bare text to a parsed document."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import aiofiles

from easy_knowledge_retriever.errors import ConfigError, ParseError
from easy_knowledge_retriever.parsing import Source, parser_for, parser_of_suffix
from easy_knowledge_retriever.parsing.markdown import MarkdownParser, parse_markdown
from easy_knowledge_retriever.text import hashing
from easy_knowledge_retriever.text.cleaning import clean
from easy_knowledge_retriever.types import Document, Metadata, MetadataValue, PageSpan

__all__ = ["parse_source", "read_source", "text_document"]

_NO_METADATA: Mapping[str, MetadataValue] = MappingProxyType({})


async def read_source(
    path: str | Path,
    *,
    name: str | None = None,
    collection: str = "",
    document_id: str = "",
    metadata: Metadata = _NO_METADATA,
    start_page: int | None = None,
    end_page: int | None = None,
) -> Source:
    """The bytes of a file that can be parsed, under the name its document gets. The one place where pages become 1-based.

    Args:
        path: The file.
        name: What the document is called; the name of the file if None.
        collection: Where it goes.
        document_id: Id the caller wants; made from name and collection if empty.
        metadata: What the caller knows about it.
        start_page: First page wanted, counted from 0; the first if None.
        end_page: Last page wanted, counted from 0 and itself included; the last if None.

    Raises:
        ParseError: ``unsupported`` before the file is opened, ``not_found`` if it cannot be.
        ConfigError: The pages are no range.
    """
    first, last = 0 if start_page is None else start_page, end_page
    if first < 0 or (last is not None and last < first):
        raise ConfigError(
            f"start_page {start_page!r} and end_page {end_page!r} are no range of pages",
            hint="both count from 0, and end_page is itself included",
        )
    parser_for(path)
    return Source(
        name=Path(path).name if name is None else name,
        content=await _content(Path(path)),
        suffix=Path(path).suffix.lower(),
        collection=collection,
        document_id=document_id,
        metadata=metadata,
        first_page=first + 1,
        last_page=None if last is None else last + 1,
    )


async def _content(path: Path) -> bytes:
    try:
        async with aiofiles.open(path, "rb") as file:
            return await file.read()
    except FileNotFoundError as error:
        raise ParseError(f"there is no file {str(path)!r}", code="not_found", hint="check the path") from error
    except IsADirectoryError as error:
        raise ParseError(f"{str(path)!r} is a folder", code="not_found", hint="name the files in it") from error
    except OSError as error:
        raise ParseError(f"{str(path)!r} cannot be opened: {error.strerror}", code="not_found") from error


async def parse_source(source: Source) -> Document:
    """The document of a source, parsed in a thread by the parser of its suffix.

    Raises:
        ParseError: It cannot be read.
        ConfigError: Pages are wanted that it does not have.
    """
    return await asyncio.to_thread(parser_of_suffix(source.suffix, source.name).parse, source)


def text_document(
    content: str,
    *,
    name: str = "",
    collection: str = "",
    document_id: str = "",
    metadata: Metadata = _NO_METADATA,
    pages: Sequence[PageSpan] = (),
) -> Document:
    """A document of bare text, read as Markdown, which plain text is too.

    Args:
        content: The text; it is cleaned.
        name: What it is called; its id if empty.
        collection: Where it goes.
        document_id: Id the caller wants; made from the name, or of the text if it has none.
        metadata: What the caller knows about it.
        pages: Where each page stands in ``content``.

    Raises:
        ParseError: ``empty``: there is nothing but blanks.
        ConfigError: The pages are not in order or reach beyond the text.
    """
    text, spans, warnings = _cleaned(content, pages)
    if not text.strip():
        raise ParseError(f"{name or 'the text'!r} is empty", code="empty")
    identity = document_id or (hashing.document_id(name, collection) if name else hashing.text_document_id(text, collection))
    parsed = parse_markdown(text)
    return Document(
        id=identity,
        name=name or identity,
        text=text,
        digest=hashing.digest(text),
        blocks=tuple(parsed.blocks),
        title=parsed.title,
        collection=collection,
        pages=spans,
        links=tuple(parsed.links),
        metadata=metadata,
        parser=MarkdownParser().fingerprint,
        warnings=warnings,
    )


def _cleaned(content: str, pages: Sequence[PageSpan]) -> tuple[str, tuple[PageSpan, ...], tuple[str, ...]]:
    """The clean text with the pages where they stand in it."""
    whole = clean(content)
    if whole.text == content or not pages:
        _check_spans(whole.text, pages)
        return whole.text, tuple(pages), whole.warnings
    _check_spans(content, pages)
    pieces: list[str] = []
    spans: list[PageSpan] = []
    length = at = 0
    for page in pages:
        before, inside = clean(content[at : page.start]).text, clean(content[page.start : page.end]).text
        spans.append(PageSpan(page.page, length + len(before), length + len(before) + len(inside)))
        pieces += [before, inside]
        length, at = spans[-1].end, page.end
    return "".join([*pieces, clean(content[at:]).text]), tuple(spans), whole.warnings


def _check_spans(text: str, pages: Sequence[PageSpan]) -> None:
    at = 0
    for page in pages:
        if not at <= page.start <= page.end <= len(text):
            raise ConfigError(
                f"{page!r} is not a part of the text after the page before", hint=f"the text has {len(text)} characters"
            )
        at = page.end
