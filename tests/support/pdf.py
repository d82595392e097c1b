"""A writer of small PDFs for tests: lines of text in Helvetica, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

_TOP, _LEFT, _WIDTH, _HEIGHT = 790, 60, 595, 842


def pdf_bytes(pages: list[list[tuple[str, int]]], *, xmp_title: str = "", encrypted: bool = False) -> bytes:
    """A PDF with these pages.

    Args:
        pages: Lines of each page as text (in Windows-1252) and font size; an empty text is a gap of that size.
        xmp_title: A title to put into the metadata.
        encrypted: Whether it asks for a password that nobody knows.
    """
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    objects = [b"", b"", font]
    kids = []
    for lines in pages:
        objects.append(_stream(b"", _drawn(lines)))
        contents = len(objects)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>"
            % (_WIDTH, _HEIGHT, contents)
        )
        kids.append(len(objects))
    metadata = b""
    if xmp_title:
        objects.append(_stream(b"/Type /Metadata /Subtype /XML ", _xmp(xmp_title)))
        metadata = b" /Metadata %d 0 R" % len(objects)
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R%s >>" % metadata
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    trailer = b""
    if encrypted:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"ab" * 32, b"cd" * 32))
        trailer = b" /Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), b"01" * 16, b"01" * 16)
    return _file(objects, trailer)


def _drawn(lines: Sequence[tuple[str, int]]) -> bytes:
    y = float(_TOP)
    drawn = []
    for text, size in lines:
        y -= 1.3 * size
        escaped = text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        if escaped:
            drawn.append(b"BT /F1 %d Tf 1 0 0 1 %d %.1f Tm (%s) Tj ET" % (size, _LEFT, y, escaped))
    return b"\n".join(drawn)


def _stream(entries: bytes, content: bytes) -> bytes:
    return b"<< %s/Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def _xmp(title: str) -> bytes:
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title><rdf:Alt>'
        f'<rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title></rdf:Description></rdf:RDF></x:xmpmeta>'
    ).encode()


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    content = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        content
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
        + b"trailer << /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, len(content))
    )
