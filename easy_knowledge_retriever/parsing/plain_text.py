"""Plain text: paragraphs between blank lines."""

from __future__ import annotations

import re
from typing import Final

from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.text.cleaning import decode
from easy_knowledge_retriever.text.measure import trimmed
from easy_knowledge_retriever.types import Block

__all__ = ["PlainTextParser"]

_GAP: Final = re.compile(r"\n[^\S\n]*\n")


class PlainTextParser(DocumentParser):
    """Text without markup, in any encoding that :func:`text.cleaning.decode` knows."""

    name = "plain-text"
    version = "1"
    suffixes = (".txt", ".text")

    def parsed(self, source: Source) -> Parsed:
        decoded = decode(source.content, source.name)
        gaps = [match.end() for match in _GAP.finditer(decoded.text)]
        spans = (trimmed(decoded.text, start, end) for start, end in zip([0, *gaps], [*gaps, len(decoded.text)], strict=True))
        blocks = [Block("text", start, end) for start, end in spans if start < end]
        return Parsed(decoded.text, blocks, warnings=decoded.warnings)
