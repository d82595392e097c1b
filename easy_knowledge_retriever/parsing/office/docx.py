"""Word documents: headings by their style, lists, tables, footnotes, comments, equations, captions."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from easy_knowledge_retriever.parsing import archives
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.text.cleaning import clean, one_line
from easy_knowledge_retriever.types import BlockKind, Link

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

__all__ = ["DocxParser"]

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PICTURE: Final = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
_HEADING: Final = re.compile(r"(?i)heading (\d)")
_LEFT_OUT: Final = frozenset(
    {_FALLBACK, *(f"{_W}{name}" for name in ("del", "moveFrom", "pPr", "rPr", "txbxContent", "instrText"))}
)
_MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
)
_DEEPEST: Final = 20
"""Content controls and tables inside each other; what lies deeper is left out."""


class DocxParser(DocumentParser):
    """What a reader of the document sees, without headers, footers and what tracked changes have deleted.

    A cell that spans several rows is said in each of them. Footnotes and comments stand after the paragraph that has their mark,
    a picture is its description.
    """

    name = "docx"
    version = "1"
    suffixes = (".docx", ".docm")
    needs = MappingProxyType({"docx": "python-docx"})

    def parsed(self, source: Source) -> Parsed:
        archives.opened(source.content, source.name).close()
        from docx import Document  # noqa: PLC0415  # an optional package

        word = Document(io.BytesIO(source.content))
        pieces = list(_Reader.of(word).pieces())
        title = clean(word.core_properties.title or "").text.strip()
        named = next((piece.text for piece in pieces if piece.kind == "heading"), "")
        return assembled(pieces, title=title or named)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one document."""

    body: Any
    levels: Mapping[str, int]
    """Style → depth of a heading."""
    kinds: Mapping[str, BlockKind]
    """Style → kind of a paragraph, for styles that say it."""
    notes: Mapping[tuple[str, str], str]
    """Element of a mark and its number → what stands there."""
    targets: Mapping[str, str]
    """Relationship → where a link points."""

    @classmethod
    def of(cls, word: WordDocument) -> _Reader:
        """With what the document says apart from its body."""
        levels, kinds = {}, dict[str, BlockKind]()
        for style in word.styles:
            level = _level_of(style)
            name = (style.name or "").lower()
            if level:
                levels[style.style_id] = level
            elif name.startswith("list"):
                kinds[style.style_id] = "list"
            elif name == "caption":
                kinds[style.style_id] = "caption"
            elif "quote" in name:
                kinds[style.style_id] = "quote"
        related = word.part.rels.values()
        targets = {rel.rId: rel.target_ref for rel in related if rel.is_external and rel.reltype.endswith("/hyperlink")}
        return cls(word.element.body, levels, kinds, dict(_notes(word)), targets)

    def pieces(self) -> Iterator[Piece]:
        """The document, in order."""
        yield from self._blocks(self.body, 0)

    def _blocks(self, parent: Any, depth: int) -> Iterator[Piece]:
        for element in parent if depth < _DEEPEST else ():
            if element.tag == f"{_W}p":
                yield from self._paragraph(element, depth)
            elif element.tag == f"{_W}tbl":
                text = table_text(self._rows(element, depth))
                if text:
                    yield Piece("table", text)
            elif element.tag in {f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins", f"{_W}moveTo", f"{_W}customXml"}:
                yield from self._blocks(element, depth + 1)

    def _paragraph(self, element: Any, depth: int) -> Iterator[Piece]:
        text, links = self._text(element)
        if text:
            style = element.find(f"{_W}pPr/{_W}pStyle")
            named = style.get(f"{_W}val") if style is not None else ""
            level = _outline(element) or self.levels.get(named)
            kind: BlockKind = "heading" if level else self.kinds.get(named, "text")
            if kind == "text" and element.find(f"{_W}pPr/{_W}numPr") is not None:
                kind = "list"
            elif kind == "text" and _is_formula(element):
                kind = "equation"
            if kind == "list":
                text, links = f"- {text}", tuple(Link(link.start + 2, link.end + 2, link.target) for link in links)
            yield Piece(kind, text, level=level, links=links)
        yield from self._beside(element, depth)

    def _beside(self, paragraph: Any, depth: int) -> Iterator[Piece]:
        """Pictures, text boxes and notes that hang on a paragraph."""
        for element in _walked(paragraph, _LEFT_OUT - {f"{_W}txbxContent"}):
            if element.tag == _PICTURE:
                described = one_line(element.get("descr") or "")
                if described:
                    yield Piece("image", described)
            elif element.tag == f"{_W}txbxContent" and depth < _DEEPEST:
                yield from self._blocks(element, depth + 1)
            elif (note := self.notes.get((element.tag, element.get(f"{_W}id", "")))) is not None:
                yield Piece("note" if element.tag.endswith("commentReference") else "footnote", note)

    def _text(self, paragraph: Any) -> tuple[str, tuple[Link, ...]]:
        """The text of a paragraph without blanks at its ends, and its links."""
        parts: list[str] = []
        spans: list[tuple[Any, str, int, int]] = []
        length = 0
        for element in _walked(paragraph, _LEFT_OUT):
            part = _MARKS.get(element.tag, "") if element.tag in _MARKS else ""
            if element.tag in {f"{_W}t", f"{_M}t"}:
                part = clean(element.text or "").text
            link = next((above for above in element.iterancestors(f"{_W}hyperlink")), None) if part else None
            target = self.targets.get(link.get(f"{_R}id", ""), "") if link is not None else ""
            if target and spans and spans[-1][0] is link:
                spans[-1] = (link, target, spans[-1][2], length + len(part))
            elif target:
                spans.append((link, target, length, length + len(part)))
            parts.append(part)
            length += len(part)
        whole = "".join(parts)
        before, text = len(whole) - len(whole.lstrip()), whole.strip()
        places = ((max(start - before, 0), min(end - before, len(text)), target) for _, target, start, end in spans)
        return text, tuple(Link(start, end, target) for start, end, target in places if start < end)

    def _rows(self, table: Any, depth: int) -> Iterator[list[str]]:
        above: dict[int, str] = {}
        for row in table.iter(f"{_W}tr"):
            if next(row.iterancestors(f"{_W}tbl")) is not table:
                continue
            cells = [""] * _number(row.find(f"{_W}trPr/{_W}gridBefore"), 0)
            for cell in row.iter(f"{_W}tc"):
                if next(cell.iterancestors(f"{_W}tr")) is not row:
                    continue
                merged = cell.find(f"{_W}tcPr/{_W}vMerge")
                goes_on = merged is not None and merged.get(f"{_W}val", "continue") == "continue"
                said = above.get(len(cells), "") if goes_on else self._cell(cell, depth)
                above[len(cells)] = said
                cells += [said, *[""] * (_number(cell.find(f"{_W}tcPr/{_W}gridSpan"), 1) - 1)]
            yield cells

    def _cell(self, cell: Any, depth: int) -> str:
        return " ".join(piece.text for piece in self._blocks(cell, depth + 1))


def _walked(top: Any, left_out: frozenset[str]) -> Iterator[Any]:
    """The elements below one, in order, without those left out and what is in them."""
    waiting = list(reversed(top))
    while waiting:
        element = waiting.pop()
        if isinstance(element.tag, str) and element.tag not in left_out:
            yield element
            if not element.tag.endswith("}txbxContent"):
                waiting += reversed(element)


def _level_of(style: Any) -> int | None:
    """Depth of the headings a style makes, by its name or by the one it is made from."""
    for _ in range(_DEEPEST):
        name = style.name or ""
        if found := _HEADING.fullmatch(name):
            return int(found.group(1))
        if name.lower() == "title":
            return 1
        level = _outline(style.element)
        if level:
            return level
        style = getattr(style, "base_style", None)
        if style is None:
            return None
    return None


def _outline(element: Any) -> int | None:
    """The depth a paragraph or a style states itself: 0 is the first, 9 is running text."""
    stated = element.find(f"{_W}pPr/{_W}outlineLvl")
    value = stated.get(f"{_W}val", "9") if stated is not None else "9"
    return int(value) + 1 if value.isdigit() and int(value) < 9 else None


def _number(element: Any, usual: int) -> int:
    """How many columns an element says, within reason."""
    value = element.get(f"{_W}val", "") if element is not None else ""
    return min(int(value), 100) if value.isdigit() else usual


def _is_formula(paragraph: Any) -> bool:
    """Whether nothing but a formula stands in it."""
    words = "".join(element.text or "" for element in paragraph.iter(f"{_W}t"))
    return not words.strip() and next(paragraph.iter(f"{_M}oMath"), None) is not None


def _notes(word: WordDocument) -> Iterator[tuple[tuple[str, str], str]]:
    """The notes of a document, by the element of their mark and their number."""
    from lxml import etree  # noqa: PLC0415  # comes with python-docx

    guarded = etree.XMLParser(resolve_entities=False, no_network=True)
    for kind in ("footnote", "endnote", "comment"):
        part = next((rel.target_part for rel in word.part.rels.values() if rel.reltype.endswith(f"/{kind}s")), None)
        root = etree.fromstring(part.blob, guarded) if part is not None else ()
        for note in root:
            words = (element.text or "" for element in _walked(note, _LEFT_OUT) if element.tag == f"{_W}t")
            said = one_line("".join(words))
            if said and note.get(f"{_W}type") is None:
                author = note.get(f"{_W}author")
                yield (f"{_W}{kind}Reference", note.get(f"{_W}id", "")), f"{author}: {said}" if author else said
