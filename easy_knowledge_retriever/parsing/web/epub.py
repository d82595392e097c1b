"""Books in EPUB: their chapters in reading order."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import archives
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled
from easy_knowledge_retriever.parsing.web.charset import decoded
from easy_knowledge_retriever.parsing.web.html import html_pieces
from easy_knowledge_retriever.parsing.xml import member_tree
from easy_knowledge_retriever.text.cleaning import one_line

__all__ = ["EpubParser"]

_OPF: Final = "{http://www.idpf.org/2007/opf}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_CONTAINER: Final = "META-INF/container.xml"
_MARKUP: Final = frozenset({"application/xhtml+xml", "text/html"})


class EpubParser(DocumentParser):
    """The parts of a book as HTML, one after the other, without its navigation. A book has no pages."""

    name = "epub"
    version = "1"
    suffixes = (".epub",)
    needs = MappingProxyType({"selectolax": "selectolax", "lxml": "lxml"})

    def parsed(self, source: Source) -> Parsed:
        warnings: list[str] = []
        with archives.opened(source.content, source.name) as archive:
            root = member_tree(archive, _CONTAINER, source.name).find(".//{*}rootfile")
            path = root.get("full-path", "") if root is not None else ""
            package = member_tree(archive, path, source.name)
            pieces = list(_pieces(archive, package, posixpath.dirname(path), warnings))
        title = package.findtext(f".//{_DC}title") or ""
        return assembled(pieces, title=one_line(title), warnings=warnings)


def _pieces(archive: zipfile.ZipFile, package: Any, folder: str, warnings: list[str]) -> Iterator[Piece]:
    items = {item.get("id"): item for item in package.iter(f"{_OPF}item")}
    for reference in package.iter(f"{_OPF}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _MARKUP or "nav" in item.get("properties", "").split():
            continue
        member = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        try:
            page = decoded(archive.read(member), member)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ParseError) as error:
            warnings.append(f"a part of the book was left out: {error}")
            continue
        warnings += page.warnings
        yield from html_pieces(page.text)
