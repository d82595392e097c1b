"""Parsers: a file in, a Document of blocks with pages and spans out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Source
from easy_knowledge_retriever.parsing.data.csv import CsvParser
from easy_knowledge_retriever.parsing.data.notebook import NotebookParser
from easy_knowledge_retriever.parsing.mail.eml import EmlParser
from easy_knowledge_retriever.parsing.mail.msg import MsgParser
from easy_knowledge_retriever.parsing.markdown import MarkdownParser
from easy_knowledge_retriever.parsing.office.docx import DocxParser
from easy_knowledge_retriever.parsing.office.odf import OdfParser
from easy_knowledge_retriever.parsing.office.pptx import PptxParser
from easy_knowledge_retriever.parsing.office.xlsx import XlsxParser
from easy_knowledge_retriever.parsing.pdf import PdfParser
from easy_knowledge_retriever.parsing.plain_text import PlainTextParser
from easy_knowledge_retriever.parsing.web.epub import EpubParser
from easy_knowledge_retriever.parsing.web.html import HtmlParser
from easy_knowledge_retriever.parsing.web.jats import XmlParser

__all__ = ["PARSERS", "DocumentParser", "Source", "can_parse", "formats", "missing_formats", "parser_for", "parser_of_suffix"]


def _reader(suffix: str) -> DocumentParser | None:
    """The parser of an attachment, which may be any of them."""
    return PARSERS.get(suffix)


_EACH: Final[tuple[DocumentParser, ...]] = (
    MarkdownParser(),
    PlainTextParser(),
    PdfParser(),
    DocxParser(),
    PptxParser(),
    XlsxParser(),
    OdfParser(),
    HtmlParser(),
    EpubParser(),
    XmlParser(),
    EmlParser(_reader),
    MsgParser(_reader),
    CsvParser(),
    NotebookParser(),
)
PARSERS: Final[Mapping[str, DocumentParser]] = MappingProxyType(
    {suffix: parser for parser in _EACH for suffix in parser.suffixes}
)
"""Suffix to parser: another format is one file and its name here."""


def parser_for(path: str | PurePath) -> DocumentParser:
    """The parser of a file, by its suffix.

    Raises:
        ParseError: ``unsupported``: there is none.
    """
    return parser_of_suffix(PurePath(path).suffix.lower(), str(path))


def parser_of_suffix(suffix: str, name: str) -> DocumentParser:
    """The parser of a suffix, in lower case with the dot.

    Args:
        suffix: The suffix.
        name: What the file is called, for the message.

    Raises:
        ParseError: ``unsupported``: there is none.
    """
    if suffix not in PARSERS:
        raise ParseError(
            f"{name!r} cannot be read: there is no parser for {repr(suffix) if suffix else 'a name without suffix'}",
            code="unsupported",
            hint=f"readable are {', '.join(sorted(PARSERS))}; `ekr formats` lists them",
        )
    return PARSERS[suffix]


def can_parse(path: str | PurePath) -> bool:
    """Whether there is a parser for files of this suffix."""
    return PurePath(path).suffix.lower() in PARSERS


def formats() -> dict[str, str]:
    """Every suffix that can be read here, with the name of its parser."""
    return {suffix: PARSERS[suffix].name for suffix in sorted(PARSERS) if not PARSERS[suffix].missing}


def missing_formats() -> dict[str, str]:
    """Every suffix whose parser needs a package that is not installed, with the extra that installs it."""
    return {suffix: PARSERS[suffix].extra for suffix in sorted(PARSERS) if PARSERS[suffix].missing}
