"""Cutting a document into chunks: slices of its text that know their pages and headings."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.sectioning import Cutting, HeadingPaths, Part
from easy_knowledge_retriever.operations.table_heads import TableHeads
from easy_knowledge_retriever.text.hashing import chunk_id
from easy_knowledge_retriever.text.measure import TokenRuler, trimmed
from easy_knowledge_retriever.text.tokenizer import Tokenizer
from easy_knowledge_retriever.types import Chunk, Document, Metadata, PageSpan

__all__ = ["ChunkingFunction", "apply_chunking", "chunk_document", "chunking_by_token_size", "pages_of"]

ChunkingFunction = Callable[..., "Sequence[Mapping[str, Any]] | Awaitable[Sequence[Mapping[str, Any]]]"]
"""Called with tokenizer, content, split_by_character, split_by_character_only, overlap, size, and ``pages=`` if it takes them."""


def chunking_by_token_size(
    tokenizer: Tokenizer,
    content: str,
    split_by_character: str | None = None,
    split_by_character_only: bool = False,
    chunk_overlap_token_size: int = 100,
    chunk_token_size: int = 1200,
    *,
    pages: Sequence[PageSpan] | None = None,
) -> list[dict[str, Any]]:
    """Cuts a text into slices of a number of tokens that overlap by another.

    Given a marker, the text is cut before each of its occurrences first, so a marker stays with what it opens; these sections
    are then cut by tokens unless ``split_by_character_only``. Slices end between words, blanks at their ends are left out.

    Args:
        tokenizer: Counts.
        content: The text.
        split_by_character: The marker.
        split_by_character_only: Whether sections are kept whole however long they are.
        chunk_overlap_token_size: Tokens that two neighbours share.
        chunk_token_size: Tokens of a slice at most.
        pages: Where each page stands in the text.

    Returns:
        Dicts with ``tokens``, ``content``, ``chunk_order_index``, ``start`` and ``end`` (``content[start:end]`` of the text given
        is the slice), and ``page_start`` and ``page_end`` where pages are given.

    Raises:
        ConfigError: The overlap is not less than the size, or one of them is negative.
    """
    _check_sizes(chunk_token_size, chunk_overlap_token_size)
    ruler = TokenRuler(tokenizer, content)
    found: list[dict[str, Any]] = []
    for section_start, section_end in _marked_sections(content, split_by_character):
        if split_by_character and split_by_character_only:
            windows = iter([(section_start, section_end, ruler.exactly(section_start, section_end))])
        else:
            windows = _windows(ruler, section_start, section_end, chunk_token_size, chunk_overlap_token_size)
        for start, end, tokens in windows:
            found.append(
                {
                    "tokens": tokens,
                    "content": content[start:end],
                    "chunk_order_index": len(found),
                    "start": start,
                    "end": end,
                }
            )
    for chunk in found if pages else ():
        on = _pages(content, pages or (), chunk["start"], chunk["end"])
        if on:
            chunk |= {"page_start": on[0].page, "page_end": on[-1].page}
    return found


def chunk_document(
    document: Document,
    tokenizer: Tokenizer,
    *,
    chunk_token_size: int = 1200,
    chunk_overlap_token_size: int = 100,
    parent_chunk_token_size: int | None = None,
) -> tuple[Chunk, ...]:
    """Cuts a document along its sections, paragraphs and sentences; see :meth:`operations.sectioning.Cutting.parts`.

    The chunks are slices of the text and together cover it. Each has its exact pages and its heading path, title first. Where a
    table had to be cut, it is cut between rows, and each chunk that begins inside it carries its head.

    Args:
        document: A parsed document.
        tokenizer: Counts.
        chunk_token_size: Tokens of a chunk at most.
        chunk_overlap_token_size: Tokens that neighbours share at most, where a section had to be cut.
        parent_chunk_token_size: Tokens of a parent at most; the document is then cut into parents and each of them into chunks.

    Raises:
        ConfigError: The overlap is not less than the size, the size not less than the parent's, or one is negative.
    """
    _check_sizes(chunk_token_size, chunk_overlap_token_size, parent_chunk_token_size)
    cutting = Cutting(document, TokenRuler(tokenizer, document.text))
    families: Sequence[tuple[tuple[int, int] | None, Sequence[Part]]]
    if parent_chunk_token_size is None:
        families = [(None, cutting.parts(chunk_token_size, chunk_overlap_token_size))]
    else:
        parents = [(parent.start, parent.end) for parent in cutting.parts(parent_chunk_token_size, 0)]
        families = [(span, cutting.parts(chunk_token_size, chunk_overlap_token_size, span)) for span in parents]
    chunks: list[Chunk] = []
    for parent, parts in families:
        for part in parts:
            chunk = _chunk(document, len(chunks), (part.start, part.end), part.tokens, part.headings)
            chunks.append(replace(chunk, parent=parent))
    return _completed(document, chunks)


async def apply_chunking(
    function: ChunkingFunction,
    document: Document,
    tokenizer: Tokenizer,
    *,
    split_by_character: str | None = None,
    split_by_character_only: bool = False,
    chunk_token_size: int = 1200,
    chunk_overlap_token_size: int = 100,
    parent_chunk_token_size: int | None = None,
) -> tuple[Chunk, ...]:
    """Chunks of a document as the user wants them cut.

    :func:`chunking_by_token_size` itself stands for "no wish" and cuts along the structure, unless there is a marker to split by.
    Of the dicts a function returns, ``content`` is required; ``tokens``, ``chunk_order_index``, ``start``, ``end``,
    ``page_start``, ``page_end`` and ``heading`` (text, or the path as a sequence) are understood; other keys are kept in
    ``Chunk.extra``. Content without ``start`` and ``end`` is looked up in the text. A synchronous function runs in a thread.

    Args:
        function: The retriever's ``chunking_func``.
        document: A parsed document.
        tokenizer: Counts.
        split_by_character: Passed on.
        split_by_character_only: Passed on.
        chunk_token_size: Passed on.
        chunk_overlap_token_size: Passed on.
        parent_chunk_token_size: Tokens of a parent. That of a function's chunk is the part of the document, cut along the
            structure, that holds its middle, with the whole of each chunk that belongs there.

    Raises:
        ConfigError: The function returned something that is no list of such dicts, or content that the document does not have.
    """
    if function is chunking_by_token_size and not split_by_character:
        return await asyncio.to_thread(
            chunk_document,
            document,
            tokenizer,
            chunk_token_size=chunk_token_size,
            chunk_overlap_token_size=chunk_overlap_token_size,
            parent_chunk_token_size=parent_chunk_token_size,
        )
    returned = await _called(
        function,
        (tokenizer, document.text, split_by_character, split_by_character_only, chunk_overlap_token_size, chunk_token_size),
        document.pages,
    )
    chunks = await asyncio.to_thread(_from_dicts, returned, document, tokenizer)
    if parent_chunk_token_size is None:
        return chunks
    return await asyncio.to_thread(_in_parents, chunks, document, tokenizer, parent_chunk_token_size)


def _in_parents(chunks: Sequence[Chunk], document: Document, tokenizer: Tokenizer, size: int) -> tuple[Chunk, ...]:
    parts = Cutting(document, TokenRuler(tokenizer, document.text)).parts(size, 0)
    starts = [part.start for part in parts]
    spans = [(part.start, part.end) for part in parts]
    homes = [max(bisect_right(starts, (chunk.start + chunk.end) // 2) - 1, 0) for chunk in chunks]
    for home, chunk in zip(homes, chunks, strict=True):
        spans[home] = min(spans[home][0], chunk.start), max(spans[home][1], chunk.end)
    return tuple(replace(chunk, parent=spans[home]) for home, chunk in zip(homes, chunks, strict=True))


def _check_sizes(size: int, overlap: int, parent: int | None = None) -> None:
    if parent is not None and parent <= size:
        raise ConfigError(
            f"chunks of {size!r} tokens have no parents of {parent!r}",
            hint="parent_chunk_token_size must be more than chunk_token_size",
        )
    if size < 1 or not 0 <= overlap < size:
        raise ConfigError(
            f"chunks of {size!r} tokens cannot overlap by {overlap!r}",
            hint="chunk_overlap_token_size must be at least 0 and less than chunk_token_size",
        )


def _marked_sections(content: str, marker: str | None) -> Iterator[tuple[int, int]]:
    borders = [match.start() for match in re.finditer(re.escape(marker), content)] if marker else []
    for start, end in zip([0, *borders], [*borders, len(content)], strict=True):
        first, last = trimmed(content, start, end)
        if first < last:
            yield first, last


def _windows(ruler: TokenRuler, start: int, end: int, size: int, overlap: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and tokens of each window. Every one brings new text: none only repeats the end of the one before."""
    reached = start
    while reached < end:
        stop, tokens = ruler.fitting(start, end, size)
        if stop <= reached:
            start = trimmed(ruler.text, reached, end)[0]
            continue
        yield start, stop, tokens
        reached = stop
        start = trimmed(ruler.text, ruler.before(stop, overlap, start + 1), end)[0]


def pages_of(document: Document, start: int, end: int) -> tuple[PageSpan, ...]:
    """The parts of a slice of a document that stand on each page and are not blank."""
    return _pages(document.text, document.pages, start, end)


def _pages(text: str, pages: Sequence[PageSpan], start: int, end: int) -> tuple[PageSpan, ...]:
    """The parts of a slice that stand on each page and are not blank."""
    first = bisect_right(pages, start, key=lambda span: span.end)
    on = itertools.takewhile(lambda span: span.start < end, itertools.islice(pages, first, None))
    clipped = (PageSpan(span.page, max(span.start, start), min(span.end, end)) for span in on)
    return tuple(span for span in clipped if text[span.start : span.end].strip())


def _chunk(
    document: Document,
    order: int,
    span: tuple[int, int],
    tokens: int,
    headings: tuple[str, ...],
    pages: tuple[PageSpan, ...] | None = None,
    extra: Metadata | None = None,
) -> Chunk:
    """The one place where a slice becomes a chunk."""
    start, end = span
    text = document.text[start:end]
    return Chunk(
        id=chunk_id(document.id, document.digest, order, text),
        document_id=document.id,
        document_name=document.name,
        version=document.digest,
        order=order,
        text=text,
        start=start,
        end=end,
        pages=pages_of(document, start, end) if pages is None else pages,
        headings=headings,
        tokens=tokens,
        collection=document.collection,
        extra=extra or {},
    )


def _completed(document: Document, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The chunks with what they know of each other and of the table they begin inside of."""
    heads, following = TableHeads(document), [*(chunk.id for chunk in chunks[1:]), ""]
    return tuple(
        replace(chunk, next_id=next_id, table_head=heads.of(chunk.start))
        for chunk, next_id in zip(chunks, following, strict=False)
    )


async def _called(function: ChunkingFunction, arguments: tuple[object, ...], pages: tuple[PageSpan, ...]) -> object:
    named = {"pages": pages} if _takes_pages(function) else {}
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        returned: object = function(*arguments, **named)
    else:
        returned = await asyncio.to_thread(function, *arguments, **named)
    return await returned if inspect.isawaitable(returned) else returned


def _takes_pages(function: ChunkingFunction) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "pages" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


_EXPECTED: Final[Mapping[str, tuple[type, ...]]] = {
    "content": (str,),
    "tokens": (int,),
    "chunk_order_index": (int,),
    "start": (int,),
    "end": (int,),
    "page_start": (int,),
    "page_end": (int,),
    "heading": (str, list, tuple),
}
"""Keys with a meaning, and what they may hold beside None. Every other key is kept in ``extra``."""
_SCALARS: Final = (str, int, float, bool)


def _from_dicts(returned: object, document: Document, tokenizer: Tokenizer) -> tuple[Chunk, ...]:
    rows = _checked(returned)
    rows.sort(key=lambda row: row.get("chunk_order_index", 0))
    paths, places = HeadingPaths(document), _Places(document.text)
    chunks: list[Chunk] = []
    for row in rows:
        if not row["content"].strip():
            continue
        start, end = places.of(row)
        text = document.text[start:end]
        tokens = row.get("tokens") if text == row["content"] else None
        chunks.append(
            _chunk(
                document,
                len(chunks),
                (start, end),
                len(tokenizer.encode(text)) if tokens is None else tokens,
                _headings(row, paths, start, end),
                _stated_pages(row, document, start, end),
                {key: value for key, value in row.items() if key not in _EXPECTED},
            )
        )
    return _completed(document, chunks)


def _checked(returned: object) -> list[dict[str, Any]]:
    """The rows without their None values, each key of the right type."""
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        raise _rubbish(f"returned {type(returned).__name__}, not a list")
    rows = []
    for position, row in enumerate(returned):
        if not isinstance(row, Mapping):
            raise _rubbish(f"returned {type(row).__name__} as chunk {position}, not a dict")
        given = {key: value for key, value in row.items() if value is not None}
        if "content" not in given:
            raise _rubbish(f"gave chunk {position} no 'content'")
        for key, value in given.items():
            if not isinstance(key, str) or not isinstance(value, _EXPECTED.get(key, _SCALARS)):
                raise _rubbish(f"gave chunk {position} the key {key!r} with {type(value).__name__}")
        rows.append(given)
    return rows


def _rubbish(what: str) -> ConfigError:
    return ConfigError(
        f"chunking_func {what}",
        hint="return a list of dicts with 'content', a slice of the text, and optionally tokens, chunk_order_index, start, end, "
        "page_start, page_end, heading; other keys hold text, numbers or booleans",
    )


class _Places:
    """Finds where the contents of a text's chunks stand, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._from = 0

    def of(self, row: Mapping[str, Any]) -> tuple[int, int]:
        """Span of a row's content, as it states it or as it is found; after the one before if it occurs there."""
        content = row["content"].strip().strip("\ufffd").strip()
        span = self._stated(row, content) or self._found(content)
        if span is None:
            raise _rubbish(f"returned content that the text does not have: {content[:60]!r}")
        self._from = span[0] + 1
        return span

    def _stated(self, row: Mapping[str, Any], content: str) -> tuple[int, int] | None:
        start, end = row.get("start"), row.get("end")
        if start is None or end is None:
            return None
        if not 0 <= start <= end <= len(self._text) or self._text[start:end].strip() != content:
            raise _rubbish(f"gave start {start!r} and end {end!r}, where the text does not have {content[:60]!r}")
        return trimmed(self._text, start, end)

    def _found(self, content: str) -> tuple[int, int] | None:
        """The content as it is, or else with other blanks between its words."""
        for beginning in (self._from, 0):
            at = self._text.find(content, beginning)
            if at >= 0:
                return at, at + len(content)
        words = re.compile(r"\s+".join(map(re.escape, content.split())))
        match = words.search(self._text, self._from) or words.search(self._text)
        return match.span() if match else None


def _headings(row: Mapping[str, Any], paths: HeadingPaths, start: int, end: int) -> tuple[str, ...]:
    heading = row.get("heading")
    if heading is None:
        return paths.of(start, end)
    path = (heading,) if isinstance(heading, str) else tuple(map(str, heading))
    return paths.titled(tuple(text for text in path if text.strip()))


def _stated_pages(row: Mapping[str, Any], document: Document, start: int, end: int) -> tuple[PageSpan, ...] | None:
    """Pages the function states, in place of those of the parse."""
    first = row.get("page_start")
    if first is None:
        return None
    last = row.get("page_end", first)
    known = _pages(document.text, document.pages, start, end)
    if known and (known[0].page, known[-1].page) == (first, last):
        return known
    return (PageSpan(first, start, end),) if first == last else (PageSpan(first, start, end), PageSpan(last, end, end))
