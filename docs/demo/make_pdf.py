"""Writes the demonstration handbook as a PDF: ``python docs/demo/make_pdf.py``. Standard library only.

Reads a small part of Markdown (headings, paragraphs, tables, ``<!-- page -->`` for a new page) and sets it in Helvetica
on A4. The output is the same bytes on every machine: no dates, no compression, no fonts inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "handbook.md"
TARGET = HERE.parents[1] / "easy_knowledge_retriever" / "cli" / "data" / "handbook.pdf"

WIDTH, HEIGHT, MARGIN = 595, 842, 72
BODY = 10.5
HEADING_SIZES = {1: 20.0, 2: 15.0, 3: 12.0}
PAGE_BREAK = "<!-- page -->"
_WIDTHS = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 584 584 "
    "584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667 611 278 "
    "278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 "
    "500 334 260 334 584"
)
ADVANCE = dict(zip(map(chr, range(32, 127)), map(int, _WIDTHS.split()), strict=True))
"""Widths of Helvetica in thousandths of its size; other characters are taken for average."""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of the source: a heading (level 1 to 3), a paragraph (level 0) or a table (rows)."""

    level: int = 0
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def pages(markdown: str) -> Iterator[list[Item]]:
    """The items of each page."""
    for page in markdown.split(PAGE_BREAK):
        yield [_item(piece) for piece in re.split(r"\n\s*\n", page.strip())]


def _item(piece: str) -> Item:
    heading = re.match(r"(#{1,3}) (.*)", piece)
    if heading:
        return Item(level=len(heading.group(1)), text=heading.group(2))
    if piece.startswith("|"):
        rows = [tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in piece.splitlines()]
        return Item(rows=tuple(row for row in rows if not set("".join(row)) <= set("-: ")))
    return Item(text=" ".join(piece.split()))


def _measure(text: str, size: float) -> float:
    return sum(ADVANCE.get(character, 556) for character in text) * size / 1000


def _lines(text: str, size: float, width: float) -> Iterator[str]:
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and _measure(longer, size) > width:
            yield line
            line = word
        else:
            line = longer
    yield line


class Sheet:
    """The content stream of one page, written from the top down."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.y: float = HEIGHT - MARGIN - 10

    def line(self, text: str, *, x: float = MARGIN, y: float | None = None, size: float = BODY, bold: bool = False) -> None:
        """Shows one line of text."""
        shown = re.sub(rb"([\\()])", rb"\\\1", text.encode("cp1252"))
        font = b"F2" if bold else b"F1"
        position = f"{x:.2f} {self.y if y is None else y:.2f} Td".encode()
        self.parts.append(b"BT /%s %s Tf %s (%s) Tj ET" % (font, f"{size:g}".encode(), position, shown))

    def rule(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draws a thin straight line."""
        self.parts.append(f"0.6 w {x:.2f} {y:.2f} m {to_x:.2f} {to_y:.2f} l S".encode())

    def paragraph(self, text: str) -> None:
        """Sets a paragraph."""
        for line in _lines(text, BODY, WIDTH - 2 * MARGIN):
            self.line(line)
            self.y -= BODY * 1.4
        self.y -= 6

    def heading(self, text: str, level: int) -> None:
        """Sets a heading."""
        size = HEADING_SIZES[level]
        self.y -= size * 0.6
        for line in _lines(text, size, WIDTH - 2 * MARGIN):
            self.line(line, size=size, bold=True)
            self.y -= size * 1.35
        self.y -= 3

    def table(self, rows: tuple[tuple[str, ...], ...]) -> None:
        """Sets a ruled table; columns are as wide as their longest cell asks for."""
        wanted = [max(_measure(row[n], BODY) for row in rows) + 12 for n in range(len(rows[0]))]
        scale = min(1.0, (WIDTH - 2 * MARGIN) / sum(wanted))
        edges = [MARGIN + scale * sum(wanted[:n]) for n in range(len(wanted) + 1)]
        top = self.y + 12
        for number, row in enumerate(rows):
            self.rule(edges[0], self.y + 12, edges[-1], self.y + 12)
            for cell, x in zip(row, edges, strict=False):
                self.line(cell, x=x + 5, size=BODY * scale, bold=number == 0)
            self.y -= 18
        self.rule(edges[0], self.y + 12, edges[-1], self.y + 12)
        for x in edges:
            self.rule(x, top, x, self.y + 12)
        self.y -= 10


def typeset(items: list[Item], header: str, footer: str) -> bytes:
    """The content stream of one page."""
    sheet = Sheet()
    sheet.line(header, y=HEIGHT - 40, size=8)
    sheet.line(footer, y=36, size=8)
    for item in items:
        if item.rows:
            sheet.table(item.rows)
        elif item.level:
            sheet.heading(item.text, item.level)
        else:
            sheet.paragraph(item.text)
    if sheet.y < MARGIN:
        raise ValueError(f"the page that begins with {items[0].text!r} is too long by {MARGIN - sheet.y:.0f} points")
    return b"\n".join(sheet.parts)


def pdf(markdown: str) -> bytes:
    """The handbook as a PDF file."""
    sheets = list(pages(markdown))
    title = sheets[0][0].text
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Title (%s) /Producer (make_pdf.py) >>" % title.encode("cp1252"),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    ]
    kids = []
    for number, items in enumerate(sheets, start=1):
        stream = typeset(items, "Aldmoor Observatory, edition 7", f"Page {number} of {len(sheets)}")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R"
            b" /Resources << /Font << /F1 4 0 R /F2 5 0 R >> >> >>" % (WIDTH, HEIGHT, len(objects))
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    return _file(objects)


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 3 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


if __name__ == "__main__":
    TARGET.write_bytes(pdf(SOURCE.read_text(encoding="utf-8")))
    print(f"wrote {TARGET}")
