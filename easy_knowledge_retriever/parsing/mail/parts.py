"""What mails of all kinds are made of: what was said, what was quoted, what is attached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import PurePath
from typing import Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Source
from easy_knowledge_retriever.parsing.pieces import Piece, pieces_of

__all__ = ["Reader", "attached_pieces", "said_pieces"]

_GAP: Final = re.compile(r"\n[^\S\n]*\n")

Reader = Callable[[str], DocumentParser | None]
"""Finds the parser of a suffix."""


def said_pieces(text: str) -> Iterator[Piece]:
    """The paragraphs of a message; lines that begin with ``>`` are quoted.

    Args:
        text: Clean text.
    """
    for quoted, lines in groupby(text.splitlines(), lambda line: line.lstrip().startswith(">")):
        for paragraph in _GAP.split("\n".join(lines)):
            if paragraph.strip():
                yield Piece("quote" if quoted else "text", paragraph.strip())


def attached_pieces(reader: Reader, name: str, content: bytes, warnings: list[str]) -> Iterator[Piece]:
    """What a file says that is attached.

    Args:
        reader: Finds its parser.
        name: What it is called.
        content: Its bytes.
        warnings: Are added to.

    Raises:
        ParseError: It cannot be read.
        MissingExtraError: Its parser needs a package that is not installed.
    """
    suffix = PurePath(name).suffix.lower()
    parser = reader(suffix)
    if parser is None:
        raise ParseError(f"there is no parser for {suffix or 'a name without suffix'!r}", code="unsupported")
    found = parser.parse(Source(name, content, suffix))
    warnings += [f"{name!r}: {warning}" for warning in found.warnings]
    yield from pieces_of(found.text, found.blocks, found.links)
