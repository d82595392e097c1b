"""PDF by liteparse: text, headings, tables and boxes, page by page. No OCR."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from easy_knowledge_retriever.errors import ConfigError, ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pdf_layout import mended, page_list, plain_inline
from easy_knowledge_retriever.parsing.pdf_tables import Cell, table_rows
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.text.cleaning import clean, one_line
from easy_knowledge_retriever.types import BlockKind, Box, Link

if TYPE_CHECKING:
    import liteparse

__all__ = ["PdfParser"]

_KINDS: Final[dict[str, BlockKind]] = {
    "heading": "heading",
    "paragraph": "text",
    "list_item": "list",
    "code": "code",
    "table": "table",
    "grid_fallback": "text",
}
"""Kinds of the reader that hold text, and ours."""
_MOST_PAGES: Final = 100_000


class PdfParser(DocumentParser):
    """The text layer of a PDF, in reading order, without running headers and footers.

    Headings and paragraphs stand in the text without marks, a table as rows of ``| cell | cell |``. Every block knows its page
    and its box. Scanned pages have no text layer: they are named in a warning, and a file of nothing else is refused.
    """

    name = "liteparse"
    version = "1"
    suffixes = (".pdf",)
    paged = True

    def parsed(self, source: Source) -> Parsed:
        result = _read(source)
        pages = [page for page in result.pages if source.wants(page.page_num)]
        _check_pages(source, result, pages)
        pieces = [piece for page in pages for piece in list(_pieces(page)) or _unlaid(page)]
        if not pieces:
            raise ParseError(
                f"{source.name!r} has no text: its {len(pages)} pages are pictures or empty",
                code="no_text",
                hint="run OCR over it first; a scan needs a text layer",
            )
        parsed = assembled(mended(pieces, _body_size(pages)))
        title = _title(_declared_title(result), _first_heading(parsed))
        return replace(parsed, title=title, warnings=tuple(_warnings(result, pages, parsed)))


def _read(source: Source) -> liteparse.ParseResult:
    if b"%PDF-" not in source.content[:1024]:
        raise ParseError(f"{source.name!r} is not a PDF", code="corrupt", hint="give it the suffix of its format")
    import liteparse  # noqa: PLC0415  # a native library, loaded with the first PDF and not with the package

    reader = liteparse.LiteParse(
        output_format="markdown",
        ocr_enabled=False,
        quiet=True,
        image_mode="off",
        max_pages=_MOST_PAGES,
        target_pages=None if source.whole else f"{source.first_page}-{source.last_page or _MOST_PAGES}",
        continue_on_page_error=True,
        extract_links=True,
        extract_blocks=True,
        extract_document_metadata=True,
        include_complexity=True,
    )
    try:
        return reader.parse(source.content)
    except liteparse.ParseError as error:
        if "password" in str(error).lower():
            raise ParseError(
                f"{source.name!r} is encrypted and cannot be read: a password is needed",
                code="encrypted",
                hint="save a copy without a password and ingest that",
            ) from error
        raise ParseError(
            f"{source.name!r} is damaged or cut: {error}", code="corrupt", hint="fetch or export it again"
        ) from error


def _check_pages(source: Source, result: liteparse.ParseResult, pages: Sequence[liteparse.ParsedPage]) -> None:
    if pages or result.page_errors:
        return
    if result.total_pages and not source.whole:
        raise ConfigError(
            f"page {source.first_page} of {source.name!r} is wanted, which has {result.total_pages}",
            hint="start_page and end_page count from 0",
        )
    raise ParseError(f"{source.name!r} has no pages", code="empty")


_LONE_NUMBER: Final = re.compile(r"\s*(?P<before>\S(?:.{0,38}\S)?)\s+(?P<number>\d{1,4})\s*")


def _pieces(page: liteparse.ParsedPage) -> Iterator[Piece]:
    numbered = {
        found.group("before"): found.group("number") for found in map(_LONE_NUMBER.fullmatch, page.text.splitlines()) if found
    }
    complete = {line.strip() for line in page.text.splitlines()}
    for block in page.blocks or ():
        kind = _KINDS.get(block.kind)
        text, links = _content(block, page)
        if kind is None or not text.strip():
            continue
        if text in numbered and text not in complete:
            # The layout loses a number that stands apart in a short line ("Article 8"); the plain text of the page has it.
            text = f"{text} {numbered[text]}"
        level = (block.level or 1) if kind == "heading" else None
        yield Piece(kind, text, page.page_num, level, _box(block, page), links, _size(block, page))


def _unlaid(page: liteparse.ParsedPage) -> list[Piece]:
    """A page that is nothing but what looks like a running header: its plain text is better than nothing."""
    lines = [one_line(line) for line in page.text.splitlines()]
    text = "\n".join(line for line in lines if line)
    return [Piece("text", text, page.page_num)] if text else []


def _content(block: liteparse.LayoutBlock, page: liteparse.ParsedPage) -> tuple[str, tuple[Link, ...]]:
    """What a block says, and its links."""
    if block.kind == "table":
        return _cleaned(_table(block, page)), ()
    if block.lines is not None:
        return _cleaned("\n".join(block.lines)), ()
    marked = f"{block.marker} " if block.kind == "list_item" and block.marker else ""
    return plain_inline(_cleaned(marked + (block.text or "")))


def _cleaned(raw: str) -> str:
    presented = _PRESENTED.sub(lambda match: unicodedata.normalize("NFKC", match.group()), clean(raw).text)
    return _LEADERS.sub(" … ", presented).strip()


_LEADERS: Final = re.compile(r"[ \t]*(?:\.[ \t]?){5,}")
"""The dots that lead from an entry of a list to its page or price."""
_PRESENTED: Final = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdfb\ufe70-\ufefc]+")
"""Ligatures and shapes of letters by their place in the word, which a text layer may hold instead of the letters."""


def _table(block: liteparse.LayoutBlock, page: liteparse.ParsedPage) -> str:
    """A table, one row a line."""
    rows = [[_inline(cell.text) for cell in row] for row in (block.header or [], *(block.rows or [])) if row]
    cells = [
        Cell(" ".join(item.text.split()), item.x, item.y, item.x + item.width, item.y + item.height)
        for item in _items(block, page)
        if item.text.strip()
    ]
    return table_text(table_rows(rows, cells))


def _inline(markdown: str) -> str:
    return " ".join(plain_inline(markdown)[0].split())


def _items(block: liteparse.LayoutBlock, page: liteparse.ParsedPage) -> Iterator[liteparse.TextItem]:
    """What the file draws in the area of a block, upright."""
    area = block.bbox
    for item in page.text_items if area else ():
        across = area.x - 1 <= item.x <= area.x + area.width
        if across and area.y - 1 <= item.y <= area.y + area.height - 1 and not item.rotation:
            yield item


def _box(block: liteparse.LayoutBlock, page: liteparse.ParsedPage) -> Box | None:
    area = block.bbox
    if area is None or page.width <= 0 or page.height <= 0:
        return None
    left, top, right, bottom = area.x, area.y, area.x + area.width, area.y + area.height
    return Box(*(min(max(v, 0.0), 1.0) for v in (left / page.width, top / page.height, right / page.width, bottom / page.height)))


def _size(block: liteparse.LayoutBlock, page: liteparse.ParsedPage) -> float:
    """Height of the tallest characters of a short block."""
    return 0.0 if len(block.text or "") > 200 else max((item.height for item in _items(block, page)), default=0.0)


def _body_size(pages: Sequence[liteparse.ParsedPage]) -> float:
    """Height of the characters that most of the text is set in."""
    lengths: Counter[float] = Counter()
    for page in pages:
        for item in page.text_items:
            lengths[round(item.height, 1)] += len(item.text)
    total, seen = lengths.total(), 0
    for size in sorted(lengths):
        seen += lengths[size]
        if 2 * seen >= total:
            return size
    return 0.0


_DC_TITLE: Final = re.compile(r"<dc:title>\s*<rdf:Alt>\s*<rdf:li[^<>]{0,200}>([^<>]{1,500})</rdf:li>")
_NO_TITLE: Final = re.compile(
    r"(?i)untitled|microsoft word\b.*|.*\.(?:docx?|pdf|indd|tex|qxd|odt|xlsx?|pptx?|fm)|[\d\W_]*|.{0,2}"
)


_TITLE_LENGTH: Final = 150
"""A title stands before every chunk, so one of several lines gives way to the first heading, or is cut."""


def _title(declared: str, heading: str) -> str:
    if 0 < len(declared) <= _TITLE_LENGTH:
        return declared
    title = heading or declared
    return title if len(title) <= _TITLE_LENGTH else title[:_TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def _declared_title(result: liteparse.ParseResult) -> str:
    """The title in the file's metadata, unless it is the name of some file."""
    found = _DC_TITLE.search(result.doc_meta.xmp) if result.doc_meta and result.doc_meta.xmp else None
    title = one_line(html.unescape(found.group(1))) if found else ""
    return "" if _NO_TITLE.fullmatch(title) else title


def _first_heading(parsed: Parsed) -> str:
    """The first heading, if it is among the first blocks of the first two pages."""
    for block in parsed.blocks[:6]:
        if block.kind == "heading" and (block.page or 1) <= parsed.pages[0].page + 1:
            return " ".join(parsed.text[block.start : block.end].split())
    return ""


def _warnings(result: liteparse.ParseResult, pages: Sequence[liteparse.ParsedPage], parsed: Parsed) -> Iterator[str]:
    held = {span.page for span in parsed.pages}
    empty = [page.page_num for page in pages if page.page_num not in held]
    scanned = [page.page_num for page in pages if page.page_num in empty and page.complexity and page.complexity.full_page_image]
    garbled = [page.page_num for page in pages if page.complexity and page.complexity.is_garbled]
    failed = [error.page_num for error in result.page_errors]
    if empty:
        yield f"no text on page{'s' * (len(empty) > 1)} {page_list(empty)}" + (", scanned: run OCR first" if scanned else "")
    if garbled:
        yield f"the text of page{'s' * (len(garbled) > 1)} {page_list(garbled)} may be wrong: a font does not say what it shows"
    if failed:
        yield f"page{'s' * (len(failed) > 1)} {page_list(sorted(failed))} could not be read"
