"""Tables in text: CSV and TSV, in any encoding and with any of the usual delimiters."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Final

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, table_text
from easy_knowledge_retriever.text.cleaning import decode

__all__ = ["CsvParser"]

_DELIMITERS: Final = "\t;|,"
"""The first that fits: a comma may be a decimal one."""
_SAMPLE: Final = 1 << 14
_LONGEST_CELL: Final = 1 << 20
"""Characters; a longer cell means a quotation mark that nothing closes."""


class CsvParser(DocumentParser):
    """One table, a row a line. The delimiter is found where the name does not say it."""

    name = "csv"
    version = "1"
    suffixes = (".csv", ".tsv")

    def parsed(self, source: Source) -> Parsed:
        decoded = decode(source.content, source.name)
        delimiter = "\t" if source.suffix == ".tsv" else _delimiter(decoded.text)
        try:
            text = table_text(_rows(decoded.text, delimiter))
        except csv.Error as error:
            raise ParseError(
                f"{source.name!r} is no table: {error}", code="corrupt", hint="look for a quotation mark that nothing closes"
            ) from error
        return assembled([Piece("table", text)] if text else [], warnings=decoded.warnings)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    # The limit is one for the whole process: it is only ever raised, as another thread may be reading under it.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _delimiter(text: str) -> str:
    """The one that cuts most of the first lines into the same number of cells, several of them; a comma if none does."""

    def agreement(delimiter: str) -> int:
        lines = islice(csv.reader(io.StringIO(text[:_SAMPLE], newline=""), delimiter=delimiter), 50)
        widths = [len(row) for row in lines if row]
        usual = max(set(widths), key=widths.count, default=0)
        return widths.count(usual) if usual > 1 else 0

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best) else ","
