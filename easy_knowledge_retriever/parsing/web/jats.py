"""XML: articles in JATS (ANSI/NISO Z39.96) with their sections, other documents as their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.parsing.xml import tree
from easy_knowledge_retriever.text.cleaning import clean, one_line
from easy_knowledge_retriever.types import BlockKind, Link

__all__ = ["XmlParser"]

_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_KINDS: Final[Mapping[str, BlockKind]] = MappingProxyType(
    {"disp-formula": "equation", "disp-quote": "quote", "code": "code", "preformat": "code", "fn": "footnote", "p": "text"}
)
_INSIDE: Final = frozenset(
    "body back sec ack app app-group boxed-text bio glossary notes fn-group table-wrap-foot floats-group sub-article response "
    "list list-item def-list def-item def alternatives fig-group".split()
)
"""Elements that hold blocks."""
_SECTIONS: Final = frozenset("sec app ack glossary boxed-text".split())
_APART: Final = frozenset("fig table-wrap disp-formula list disp-quote boxed-text fn supplementary-material".split())
"""Blocks that may stand in a paragraph, and are read after it."""
_LEFT_OUT: Final = frozenset("label object-id graphic media front-stub permissions".split())
_DEEPEST: Final = 50
_BLANKS: Final = re.compile(r"\s+")


class XmlParser(DocumentParser):
    """An article: title, authors, abstract, sections, tables, captions, references. Any other XML: each element with text.

    A cross-reference is a link to ``#`` and the id it names.
    """

    name = "xml"
    version = "1"
    suffixes = (".xml", ".nxml", ".jats")
    needs = MappingProxyType({"lxml": "lxml"})

    def parsed(self, source: Source) -> Parsed:
        root = tree(source.content, source.name)
        articles = [root] if _name(root) == "article" else root.findall("article")
        if not articles:
            return assembled(list(_plain(root)))
        pieces = [piece for article in articles for piece in _article(article)]
        title = next((piece.text for piece in pieces if piece.kind == "heading"), "")
        return assembled(pieces, title=title)


def _article(article: Any) -> Iterator[Piece]:
    yield from _front(article, 1)
    for part in ("body", "back", "floats-group"):
        yield from (piece for element in article.iterchildren(part) for piece in _blocks(element, 1))
    for inner in article.iterchildren("sub-article", "response"):
        yield from _front(inner, 1)
        yield from (piece for element in inner.iterchildren("body", "back") for piece in _blocks(element, 1))


def _front(article: Any, level: int) -> Iterator[Piece]:
    """Title, authors and abstracts."""
    meta = article.find("front/article-meta")
    meta = article.find("front-stub") if meta is None else meta
    if meta is None:
        return
    yield from _heading(meta.find("title-group/article-title"), level)
    names = [
        one_line(f"{n.findtext('given-names') or ''} {n.findtext('surname') or ''}") for n in meta.iterfind("contrib-group//name")
    ]
    if any(names):
        yield Piece("text", ", ".join(filter(None, names)))
    for abstract in meta.iterchildren("abstract", "trans-abstract"):
        if abstract.find("title") is None:
            yield Piece("heading", "Abstract", level=level + 1)
        yield from _blocks(abstract, level)


def _blocks(parent: Any, level: int, *, listed: bool = False) -> Iterator[Piece]:
    """What stands in an element; ``level`` is that of the heading above."""
    for element in parent if level < _DEEPEST else ():
        name = _name(element)
        if name == "title":
            yield from _heading(element, level + (_name(parent) != "body"))
        elif name in {"fig", "supplementary-material"}:
            yield from _caption(element)
        elif name == "table-wrap":
            yield from _caption(element)
            yield from _table(element)
            yield from _blocks(element.iterchildren("table-wrap-foot"), level)
        elif name == "ref-list":
            yield from _heading(element.find("title"), level + 1)
            yield from (piece for reference in element.iterfind("ref") for piece in _reference(reference))
        elif name in _INSIDE:
            deeper = name in _SECTIONS and _name(parent) not in {"body", "back"}
            yield from _blocks(element, level + deeper, listed=name.startswith("list"))
        elif name in _KINDS:
            yield from _paragraph(element, "list" if listed else _KINDS[name])
            yield from _blocks(element.iterchildren(*_APART), level)


def _paragraph(element: Any, kind: BlockKind) -> Iterator[Piece]:
    text, links = _inline(element, as_is=kind == "code")
    if text and kind == "list":
        yield Piece(kind, f"- {text}", links=tuple(Link(link.start + 2, link.end + 2, link.target) for link in links))
    elif text:
        yield Piece(kind, text, links=links)


def _heading(element: Any, level: int) -> Iterator[Piece]:
    said = _inline(element)[0] if element is not None else ""
    if said:
        label = element.getparent().findtext("label") or ""
        yield Piece("heading", one_line(f"{label} {said}"), level=level)


def _caption(element: Any) -> Iterator[Piece]:
    """The label and the caption of a figure or a table, as one."""
    parts = [element.findtext("label") or ""]
    parts += [_inline(part)[0] for part in element.iterfind("caption/*")]
    said = one_line(" ".join(parts))
    if said:
        yield Piece("caption", said)


def _table(element: Any) -> Iterator[Piece]:
    rows = [[_inline(cell)[0] for cell in row if _name(cell) in {"td", "th"}] for row in element.iter("tr")]
    text = table_text(rows)
    if text:
        yield Piece("table", text)


def _reference(reference: Any) -> Iterator[Piece]:
    """A cited work: as it is written, or what is known of it."""
    for cited in reference.iterchildren("mixed-citation", "element-citation", "citation"):
        words = cited.itertext() if _name(cited) != "element-citation" else (" ".join(part.itertext()) for part in cited)
        said = one_line(" ".join(words) if _name(cited) == "element-citation" else "".join(words))
        if said:
            yield Piece("list", f"- {said}")


def _inline(element: Any, *, as_is: bool = False) -> tuple[str, tuple[Link, ...]]:
    """The text of an element, and its links, without blocks that stand in it."""
    parts: list[str] = []
    links: list[Link] = []
    length = 0
    for text, target in _runs(element, "", 0):
        said = clean(text).text if as_is else _BLANKS.sub(" ", clean(text).text)
        if not as_is and (not parts or parts[-1].endswith(" ")):
            said = said.lstrip()
        start, end = length + len(said) - len(said.lstrip()), length + len(said.rstrip())
        if target and start < end:
            links.append(Link(start, end, target))
        if said:
            parts.append(said)
            length += len(said)
    whole = "".join(parts).rstrip()
    return whole, tuple(link for link in links if link.end <= len(whole))


def _runs(element: Any, target: str, depth: int) -> Iterator[tuple[str, str]]:
    """Pieces of text, each with what it points to."""
    yield element.text or "", target
    for child in element if depth < _DEEPEST else ():
        name = _name(child)
        if name == "break":
            yield " ", target
        elif name not in _APART | _LEFT_OUT:
            own = child.get(_HREF) or (f"#{child.get('rid')}" if name == "xref" else "")
            yield from _runs(child, own or target, depth + 1)
        yield child.tail or "", target


def _plain(root: Any) -> Iterator[Piece]:
    """Every element that has text of its own, whole."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        own = [element.text or "", *(child.tail or "" for child in element)]
        if any(part.strip() for part in own):
            said = one_line("".join(element.itertext()))
            if said:
                yield Piece("text", said)
        else:
            waiting += reversed(element)


def _name(element: Any) -> str:
    """Its name without a namespace; empty for what is no element."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
