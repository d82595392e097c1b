"""From the pieces of a PDF's pages to one text: paragraphs mended, headings given their depth, every piece with page and box."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from easy_knowledge_retriever.parsing.pieces import ENDS, Piece
from easy_knowledge_retriever.types import Box, Link

__all__ = ["mended", "page_list", "plain_inline"]


_INLINE: Final = re.compile(
    r"""
    (?P<math>\$[^$\n]{0,300}[\\^_{][^$\n]{0,300}\$)
    | \\(?P<escaped>[!-/:-@\[-`{-~])
    | (?P<stars>\*+)
    | \[(?P<text>(?:[^\[\]\\\n]|\\.){1,500})\]\((?P<target>(?:https?://|mailto:|ftp://)[^\s()]{1,2000}(?:\([^\s()]{0,200}\))?[^\s()]{0,200})\)
    """,
    re.VERBOSE,
)
_RAISED: Final = re.compile(r"\$\s*(?P<mark>[\^_])\s*\{?\s*(?P<digits>\d{1,4})\s*\}?\s*\$")
_SUPERSCRIPTS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def plain_inline(markdown: str) -> tuple[str, tuple[Link, ...]]:
    """A line of the reader's Markdown as plain text, with its links. Formulas stay; a lone exponent becomes a raised digit."""
    pieces: list[str] = []
    links: list[Link] = []
    length = at = 0
    for match in _INLINE.finditer(markdown):
        before = markdown[at : match.start()]
        shown = _shown(match)
        pieces += [before, shown]
        length += len(before) + len(shown)
        at = match.end()
        if match.group("target") and shown:
            links.append(Link(length - len(shown), length, match.group("target")))
    pieces.append(markdown[at:])
    return "".join(pieces), tuple(links)


def _shown(match: re.Match[str]) -> str:
    if math := match.group("math"):
        raised = _RAISED.fullmatch(math)
        table = _SUPERSCRIPTS if raised and raised.group("mark") == "^" else _SUBSCRIPTS
        return raised.group("digits").translate(table) if raised else math
    if match.group("escaped"):
        return match.group("escaped")
    return plain_inline(match.group("text"))[0] if match.group("text") else ""


_ITEM: Final = re.compile(r"(?:[-•*–▪◦]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)])\s")
_RUN_IN: Final = re.compile(r"[A-ZÀ-Þ][A-ZÀ-Þ ,&/-]{2,40}: \S")
_NEAR: Final = 0.006
"""Share of a page's height below which two lines are of one paragraph: about a third of a line."""
_ASIDE: Final = re.compile(r"\(.*\)")
"""A line in brackets is a remark on the heading before, whatever its type."""
_TALL: Final = 1.25
"""A short line this much taller than the text around is a heading."""
_HEADING_LENGTH: Final = 120


def mended(pieces: Sequence[Piece], body_size: float) -> list[Piece]:
    """The pieces with broken paragraphs joined, tall lines made headings, and numbered parts put in their order of depth.

    Args:
        pieces: In reading order.
        body_size: Height of the characters of the running text, in points; 0 if unknown.
    """
    return _with_labels(_joined(_promoted(pieces, body_size)))


def _promoted(pieces: Sequence[Piece], body_size: float) -> list[Piece]:
    sizes = [(piece.size, piece.level or 1) for piece in pieces if piece.kind == "heading" and piece.size]
    promoted = []
    for piece in pieces:
        if _is_tall(piece, body_size):
            promoted.append(replace(piece, kind="heading", level=_level(piece, sizes)))
        elif piece.kind == "heading" and _ASIDE.fullmatch(piece.text):
            promoted.append(replace(piece, kind="text", level=None))
        else:
            promoted.append(piece)
    return promoted


def _is_tall(piece: Piece, body_size: float) -> bool:
    return (
        piece.kind == "text"
        and 0 < body_size * _TALL <= piece.size
        and len(piece.text) <= _HEADING_LENGTH
        and sum(map(str.isalpha, piece.text)) >= 3
        and not piece.text.endswith((",", ";"))
        and not _ASIDE.fullmatch(piece.text)
    )


def _level(piece: Piece, sizes: Sequence[tuple[float, int]]) -> int:
    """The level of headings as tall as it is, or one above those that are smaller."""
    same = [level for size, level in sizes if 0.95 <= size / piece.size <= 1.05]
    smaller = [level - 1 for size, level in sizes if size < 0.95 * piece.size]
    return max(min(same or smaller, default=1), 1)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and _continues(last, piece):
            joined[-1] = _together(last, piece, " ")
        else:
            joined.append(piece)
    return joined


def _continues(first: Piece, second: Piece) -> bool:
    """Whether a paragraph goes on in the next piece, or a heading is the bold beginning of one."""
    if second.kind != "text" or second.page != first.page or _ITEM.match(second.text):
        return False
    near = _gap(first, second) < _NEAR
    if first.kind == "heading":
        return near and _RUN_IN.match(first.text) is not None
    return first.kind in {"text", "list"} and not first.text.endswith(ENDS) and (second.text[0].islower() or near)


def _gap(first: Piece, second: Piece) -> float:
    """Blank height between two pieces that stand one below the other; 1 for others."""
    one, two = first.box, second.box
    if one is None or two is None or one.right <= two.left or two.right <= one.left or two.top < one.top:
        return 1.0
    return two.top - one.bottom


def _together(first: Piece, second: Piece, between: str) -> Piece:
    offset = len(first.text) + len(between)
    moved = tuple(Link(link.start + offset, link.end + offset, link.target) for link in second.links)
    return replace(
        first,
        kind="text" if first.kind == "heading" and second.kind == "text" else first.kind,
        level=None if second.kind == "text" else first.level,
        text=f"{first.text}{between}{second.text}",
        box=_around(first.box, second.box),
        links=first.links + moved,
    )


def _around(one: Box | None, two: Box | None) -> Box | None:
    if one is None or two is None:
        return one or two
    return Box(min(one.left, two.left), min(one.top, two.top), max(one.right, two.right), max(one.bottom, two.bottom))


_RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {
        word: rank
        for rank, words in enumerate(
            (
                "book part livre partie buch teil libro parte livro boek deel",
                "title titre titel título titolo",
                "chapter chapitre kapitel capítulo capitolo hoofdstuk annex annexe anhang anexo allegato bijlage appendix",
                "section abschnitt sección sezione seção secção afdeling",
                "subsection sous-section unterabschnitt subsección sottosezione",
                "article artikel artículo articolo artigo §",
            )
        )
        for word in words.split()
    }
)
"""Words that legal and technical texts number their parts with, and how deep such a part is."""
_LABEL: Final = re.compile(
    rf"(?P<word>{'|'.join(re.escape(word) for word in sorted(_RANKS, key=len, reverse=True))})\s*"
    r"(?P<number>\d{1,4}[a-z]?|[IVXLC]{1,7}|[A-Z]|premier|première|1er|first|one)(?:\s*[.:–—-]\s*(?P<title>\S.{0,140}))?\s*[.:]?",
    re.IGNORECASE,
)
_FEWEST_LABELS: Final = 3
_TITLE_LENGTH: Final = 200


def _with_labels(pieces: Sequence[Piece]) -> list[Piece]:
    """Lines such as ``CHAPTER II`` and ``Article 5`` made headings with their titles, where a document is divided that way."""
    labels = [_label(piece) for piece in pieces]
    ranks = sorted({_rank(label) for label in labels if label})
    if sum(map(bool, labels)) < _FEWEST_LABELS:
        return list(pieces)
    found: list[Piece] = []
    divided, at = False, 0
    while at < len(pieces):
        piece, label = pieces[at], labels[at]
        at += 1
        if label:
            divided = True
            if label.group("title") is None and at < len(pieces) and not labels[at] and _is_title_of(piece, pieces[at]):
                piece = _together(piece, replace(pieces[at], kind="heading"), "\n")
                at += 1
            piece = replace(piece, kind="heading", level=2 + ranks.index(_rank(label)))
        elif piece.kind == "heading" and divided:
            piece = replace(piece, level=2 + len(ranks))
        found.append(piece)
    return found


def _label(piece: Piece) -> re.Match[str] | None:
    """The word and number of a part, if the piece is the line that opens it."""
    match = _LABEL.fullmatch(piece.text) if piece.kind in {"text", "heading"} else None
    return None if match is None or (match.group("title") and piece.kind != "heading") else match


def _rank(label: re.Match[str]) -> int:
    return _RANKS[label.group("word").lower()]


def _is_title_of(label: Piece, piece: Piece) -> bool:
    if piece.kind != "text" or piece.page != label.page:
        return piece.kind == "heading" and piece.page == label.page
    return (
        len(piece.text) <= _TITLE_LENGTH
        and not piece.text[0].islower()
        and not piece.text.endswith((*ENDS, ","))
        and not _ITEM.match(piece.text)
    )


def page_list(pages: Sequence[int]) -> str:
    """Page numbers as people write them: ``1-3, 7``."""
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in _runs(pages))


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
