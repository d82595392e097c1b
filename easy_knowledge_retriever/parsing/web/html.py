"""HTML: what a reader sees, with headings, lists, tables, links and the description of pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from easy_knowledge_retriever.errors import MissingExtraError
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.parsing.web.charset import decoded
from easy_knowledge_retriever.text.cleaning import one_line
from easy_knowledge_retriever.types import BlockKind, Link

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["HtmlParser", "html_pieces", "html_title"]

_UNSEEN: Final = frozenset(
    "script style template noscript head iframe object svg canvas nav button select option datalist dialog".split()
)
_BLOCKS: Final = frozenset(
    "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr html li main ol p pre section summary table ul caption thead tbody tfoot tr td th".split()
)
_KINDS: Final[MappingProxyType[str, BlockKind]] = MappingProxyType(
    {"li": "list", "dd": "list", "pre": "code", "figcaption": "caption", "caption": "caption", "blockquote": "quote"}
)
_HEADING: Final = re.compile(r"h[1-6]")
_HIDDEN: Final = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*hidden")
_ASIDE: Final = frozenset({"navigation", "search", "banner", "contentinfo"})
"""Roles of what stands around the text of a page."""
_WIDEST: Final = 100
"""Columns and rows that one cell may span."""
_SPACE: Final = re.compile(r"\s+")


class HtmlParser(DocumentParser):
    """A page without its scripts, navigation and what is hidden.

    Nested elements are walked without recursion, so depth costs nothing. A cell that spans several rows is said in each of them.
    """

    name = "html"
    version = "1"
    suffixes = (".html", ".htm", ".xhtml")
    needs = MappingProxyType({"selectolax": "selectolax"})

    def parsed(self, source: Source) -> Parsed:
        page = decoded(source.content, source.name)
        pieces = html_pieces(page.text)
        title = html_title(page.text) or next((piece.text for piece in pieces if piece.kind == "heading"), "")
        return assembled(pieces, title=title, warnings=page.warnings)


def html_title(markup: str) -> str:
    """The title a page declares.

    Raises:
        MissingExtraError: The package that reads HTML is not installed.
    """
    title = _tree(markup).css_first("head > title")
    return one_line(title.text()) if title is not None else ""


def html_pieces(markup: str) -> list[Piece]:
    """The pieces of a page or a part of one.

    Args:
        markup: Clean text.

    Raises:
        MissingExtraError: The package that reads HTML is not installed.
    """
    body = _tree(markup).body
    return [] if body is None else list(_pieces(body))


def _tree(markup: str) -> LexborHTMLParser:
    try:
        from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415  # an optional package
    except ImportError as missing:
        raise MissingExtraError("selectolax", HtmlParser.extra) from missing
    return LexborHTMLParser(markup)


@dataclass(slots=True)
class _Line:
    """The text of a block that is being read."""

    kind: BlockKind = "text"
    level: int | None = None
    text: str = ""
    links: list[Link] = field(default_factory=list)

    def add(self, text: str, target: str) -> None:
        """More of it, in a link if there is a target; but for code, runs of blanks are one."""
        said = text if self.kind == "code" else _SPACE.sub(" ", text)
        if self.kind != "code" and (not self.text or self.text[-1].isspace()):
            said = said.lstrip()
        start, end = (len(self.text) + len(part) for part in (said[: len(said) - len(said.lstrip())], said.rstrip()))
        if target and start < end:
            goes_on = self.links and self.links[-1].target == target and not self.text[self.links[-1].end :].strip()
            self.links.append(Link(self.links.pop().start if goes_on else start, end, target))
        self.text += said

    def piece(self) -> Iterator[Piece]:
        """What was read, if it is anything."""
        text = self.text.rstrip().lstrip("\n") if self.kind == "code" else self.text.strip()
        if not text:
            return
        shift = self.text.index(text) - (2 if self.kind == "list" else 0)
        links = tuple(Link(link.start - shift, link.end - shift, link.target) for link in self.links)
        said = {"list": f"- {text}", "heading": text.replace("\n", " ")}.get(self.kind, text)
        yield Piece(self.kind, said, level=self.level, links=links)


def _pieces(top: LexborNode) -> Iterator[Piece]:
    """Walks in document order; a block ends where another begins or an element that makes one ends."""
    line, around, targets = _Line(), list[tuple[BlockKind, int | None]](), list[str]()
    waiting: list[tuple[LexborNode, bool]] = [(top, False)]
    while waiting:
        node, ends = waiting.pop()
        tag = node.tag or ""
        if tag == "-text":
            line.add(node.text(deep=False), targets[-1] if targets else "")
        elif tag == "br":
            line.text = line.text.rstrip(" ") + "\n"
        elif ends and tag == "a":
            targets.pop()
        elif ends:
            yield from line.piece()
            around.pop()
            line = _Line(*around[-1]) if around else _Line()
        elif tag in _UNSEEN or tag.startswith("-") or _is_hidden(node):
            continue
        elif tag == "a":
            targets.append(node.attributes.get("href") or "")
            waiting += [(node, True), *_below(node)]
        elif (apart := list(_apart(tag, node))) or tag == "img":
            yield from [*line.piece(), *apart]
            line = _Line(line.kind, line.level)
        elif tag in _BLOCKS:
            yield from line.piece()
            around.append(_kind(tag, around[-1] if around else ("text", None)))
            line = _Line(*around[-1])
            waiting += [(node, True), *_below(node)]
        else:
            waiting += _below(node)
    yield from line.piece()


def _apart(tag: str, node: LexborNode) -> Iterator[Piece]:
    """The pieces of an element that is read as a whole."""
    if tag == "img" and (described := one_line(node.attributes.get("alt") or "")):
        yield Piece("image", described)
    if tag == "table" and all(table.mem_id == node.mem_id for table in node.css("table")):
        rows = list(_rows(node))
        if sum(1 for row in rows if sum(map(bool, row)) > 1) > 1:  # else it only lays out a page
            caption = node.css_first("caption")
            if caption is not None and (said := one_line(_seen(caption))):
                yield Piece("caption", said)
            yield Piece("table", table_text(rows))


def _below(node: LexborNode) -> list[tuple[LexborNode, bool]]:
    return [(child, False) for child in reversed(list(node.iter(include_text=True)))]


def _kind(tag: str, around: tuple[BlockKind, int | None]) -> tuple[BlockKind, int | None]:
    if _HEADING.fullmatch(tag):
        return "heading", int(tag[1])
    if tag in _KINDS:
        return _KINDS[tag], None
    return around if tag in {"p", "div", "span"} and around[0] != "heading" else ("text", None)


def _is_hidden(node: LexborNode) -> bool:
    given = node.attributes
    if "hidden" in given or given.get("aria-hidden") == "true" or given.get("role") in _ASIDE:
        return True
    return bool(_HIDDEN.search(given.get("style") or ""))


def _rows(table: LexborNode) -> Iterator[list[str]]:
    """Rows of cells; what spans several rows is said in each."""
    hanging: dict[int, tuple[int, str]] = {}
    for row in table.css("tr"):
        cells: list[str] = []
        for cell in row.css("td, th"):
            _hang(cells, hanging)
            said = one_line(_seen(cell))
            rows, columns = (_span(cell.attributes.get(name)) for name in ("rowspan", "colspan"))
            if rows > 1:
                hanging[len(cells)] = (rows - 1, said)
            cells += [said, *[""] * (columns - 1)]
        _hang(cells, hanging)
        yield cells


def _hang(cells: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    """Puts the cells that reach down from above where they belong."""
    while len(cells) in hanging:
        left, said = hanging.pop(len(cells))
        if left > 1:
            hanging[len(cells)] = (left - 1, said)
        cells.append(said)


def _seen(cell: LexborNode) -> str:
    """The words of a cell, without what is not shown."""
    parts, waiting = list[str](), [cell]
    while waiting:
        node = waiting.pop()
        if node.tag == "-text":
            parts.append(node.text(deep=False))
        elif node.tag not in _UNSEEN and not _is_hidden(node):
            if node.tag in _BLOCKS or node.tag == "br":
                parts.append(" ")
            waiting += reversed(list(node.iter(include_text=True)))
    return "".join(parts)


def _span(value: str | None) -> int:
    return min(max(int(value), 1), _WIDEST) if value and value.isdigit() else 1
