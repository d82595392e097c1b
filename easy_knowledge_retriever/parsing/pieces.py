"""How a parser writes a document: piece after piece, put together to one text with exact spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from easy_knowledge_retriever.parsing.base import Parsed
from easy_knowledge_retriever.types import Block, BlockKind, Box, Link, PageSpan

__all__ = ["ENDS", "Piece", "assembled", "pieces_of", "squared", "table_text"]

ENDS: Final = tuple(".!?…:;")
"""What a paragraph that does not go on ends with."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A heading, paragraph, list item or table, as a block of the document will be."""

    kind: BlockKind
    text: str
    """Clean, not blank, without blanks at its ends."""
    page: int | None = None
    """1-based page, slide or sheet; None where the format has none."""
    level: int | None = None
    """Depth of a heading, 1 at the top; None for other kinds."""
    box: Box | None = None
    links: tuple[Link, ...] = ()
    """Offsets into the text of the piece."""
    size: float = 0.0
    """Height of its tallest characters, in points; 0 if unknown."""


def assembled(pieces: Sequence[Piece], *, title: str = "", warnings: Sequence[str] = ()) -> Parsed:
    """One text of all pieces, with the spans of blocks, pages and links.

    Args:
        pieces: In reading order. A page that comes back after another one must be numbered anew.
        title: What the document declares as its title.
        warnings: What the user should know of the reading.
    """
    texts: list[str] = []
    blocks: list[Block] = []
    links: list[Link] = []
    pages: list[PageSpan] = []
    at = 0
    for before, piece in zip([None, *pieces], pieces, strict=False):
        gap = _between(before, piece) if before else ""
        start = at + len(gap)
        at = start + len(piece.text)
        texts += [gap, piece.text]
        blocks.append(Block(piece.kind, start, at, piece.page, piece.level, piece.box))
        links += [Link(start + link.start, start + link.end, link.target) for link in piece.links]
        if piece.page is None:
            continue
        if pages and pages[-1].page == piece.page:
            pages[-1] = replace(pages[-1], end=at)
        else:
            pages.append(PageSpan(piece.page, start, at))
    return Parsed("".join(texts), blocks, title=title, pages=pages, links=links, warnings=warnings)


def _between(first: Piece, second: Piece) -> str:
    """A line end inside a list and where a sentence goes on over the page, a blank line elsewhere."""
    if first.kind == second.kind == "list" and first.page == second.page:
        return "\n"
    runs_on = first.kind == second.kind == "text" and not first.text.endswith(ENDS) and second.text[0].islower()
    return "\n" if runs_on and first.page != second.page else "\n\n"


def pieces_of(text: str, blocks: Iterable[Block], links: Iterable[Link]) -> Iterator[Piece]:
    """The pieces of a text that was parsed, for a document that holds it. Pages and boxes are not those of the other one.

    Args:
        text: What was parsed.
        blocks: Its blocks.
        links: Its links.
    """
    known = list(links)
    for block in blocks:
        said = text[block.start : block.end]
        start = block.start + len(said) - len(said.lstrip())
        inside = (link for link in known if start <= link.start and link.end <= block.end)
        yield Piece(
            block.kind,
            said.strip(),
            level=block.level,
            links=tuple(Link(link.start - start, link.end - start, link.target) for link in inside),
        )


def squared(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows made as long as the longest, without the columns that are empty in all of them."""
    width = max(map(len, rows), default=0)
    full = [[*row, *[""] * (width - len(row))] for row in rows]
    filled = [column for column in range(width) if any(row[column] for row in full)]
    return [[row[column] for column in filled] for row in full]


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """A table as it stands in a text: a row a line, ``| cell | cell |``. Line ends inside a cell become blanks.

    Args:
        rows: Cells of each row. Rows without any text are left out.
    """
    flat = ([" ".join(cell.split()) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in flat if any(row))
