"""Formats that a table of what a base says is written in. Each writer takes rows as they come and keeps none.

A cell may hold anything that a document did. In formats that a spreadsheet opens, text that it would take for a formula is put
behind an apostrophe; what XML cannot hold is left out.
"""

from __future__ import annotations

import csv
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from easy_knowledge_retriever.errors import LimitExceeded, MissingExtraError
from easy_knowledge_retriever.operating.tables import COLUMNS, KINDS, Cell, Record
from easy_knowledge_retriever.types import RelationKey

__all__ = ["FORMATS", "TableWriter", "neutral", "xml_text"]

_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_EXCEL_CELL, _EXCEL_ROWS = 32_767, 1_048_576
_SHOWN: Final = ("document_id", "chunk_ids", "id")
"""Columns that say nothing to a reader."""


def neutral(cell: Cell) -> Cell:
    """The cell, or the text that no spreadsheet computes. A number is one."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def xml_text(text: object) -> str:
    """The text without what XML forbids, escaped."""
    return escape(_NOT_XML.sub("", str(text)))


class TableWriter(ABC):
    """Writes one file.

    Args:
        path: The file; does not exist yet.
        vectors: Whether the rows have vectors.
    """

    def __init__(self, path: Path, *, vectors: bool) -> None:
        self.path = path
        self.vectors = vectors

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Writes some rows."""

    @abstractmethod
    def close(self) -> None:
        """Ends the file."""

    def columns(self, kind: str) -> list[str]:
        """The columns of one kind of row."""
        return [*COLUMNS[kind], *(["vector"] if self.vectors else [])]

    def all_columns(self) -> list[str]:
        """The columns of all kinds in one table."""
        return ["kind", *dict.fromkeys(column for kind in KINDS for column in self.columns(kind))]


class _Text(TableWriter):
    def __init__(self, path: Path, *, vectors: bool) -> None:
        super().__init__(path, vectors=vectors)
        self.file = path.open("w", encoding="utf-8", errors="replace", newline="")

    def close(self) -> None:
        self.file.close()


class _Csv(_Text):
    """One table of all kinds, with a column that says which."""

    def __init__(self, path: Path, *, vectors: bool) -> None:
        super().__init__(path, vectors=vectors)
        self._table = csv.DictWriter(self.file, self.all_columns(), restval="")
        self._table.writeheader()

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self._table.writerow({column: neutral(cell) for column, cell in record.items()})


class _Markdown(_Text):
    """A section a kind, an entry a row."""

    _kind = ""

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            if record["kind"] != self._kind:
                self._kind = str(record["kind"])
                self.file.write(f"# {self._kind.capitalize()}s\n\n" if self._kind != "entity" else "# Entities\n\n")
            self.file.write(f"## {_one_line(_title(record))}\n\n")
            for column in self.columns(self._kind):
                if column not in _SHOWN and record[column] not in {"", None}:
                    self.file.write(f"- {column.replace('_', ' ')}: {_one_line(record[column])}\n")
            self.file.write("\n")


class _Plain(_Text):
    """A block of lines a row."""

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self.file.write(f"{record['kind']}: {_one_line(_title(record))}\n")
            for column in self.columns(str(record["kind"])):
                if column not in _SHOWN and record[column] not in {"", None}:
                    self.file.write(f"  {column.replace('_', ' ')}: {_one_line(record[column])}\n")
            self.file.write("\n")


class _GraphML(_Text):
    """The graph: entities are nodes, relations edges. Chunks are none of it."""

    def __init__(self, path: Path, *, vectors: bool) -> None:
        super().__init__(path, vectors=vectors)
        self.file.write('<?xml version="1.0" encoding="utf-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for kind, domain in (("entity", "node"), ("relation", "edge")):
            for column in self.columns(kind):
                type_ = {"mentions": "int", "weight": "double"}.get(column, "string")
                self.file.write(f'<key id="{domain}-{column}" for="{domain}" attr.name="{column}" attr.type="{type_}"/>\n')
        self.file.write('<graph edgedefault="undirected">\n')

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            if record["kind"] == "entity":
                self.file.write(f"<node id={_attribute(record['id'])}>{self._data(record, 'node')}</node>\n")
            elif record["kind"] == "relation":
                pair = RelationKey.of_id(str(record["id"]))
                ends = f"source={_attribute(pair.first)} target={_attribute(pair.second)}"
                self.file.write(f"<edge {ends}>{self._data(record, 'edge')}</edge>\n")

    def _data(self, record: Record, domain: str) -> str:
        columns = self.columns(str(record["kind"]))
        return "".join(f'<data key="{domain}-{column}">{xml_text(record[column])}</data>' for column in columns)

    def close(self) -> None:
        self.file.write("</graph>\n</graphml>\n")
        super().close()


class _Excel(TableWriter):
    """A sheet a kind."""

    def __init__(self, path: Path, *, vectors: bool) -> None:
        super().__init__(path, vectors=vectors)
        self._book = _installed("openpyxl", "excel").Workbook(write_only=True)
        self._sheets = {}
        self._rows = dict.fromkeys(KINDS, 1)
        for kind in KINDS:
            self._sheets[kind] = self._book.create_sheet(kind)
            self._sheets[kind].append(self.columns(kind))

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            kind = str(record["kind"])
            self._rows[kind] += 1
            if self._rows[kind] > _EXCEL_ROWS:
                raise LimitExceeded(f"Excel holds {_EXCEL_ROWS} rows a sheet", hint="export as CSV or Parquet")
            self._sheets[kind].append([_excel_cell(record[column]) for column in self.columns(kind)])

    def close(self) -> None:
        self._book.save(self.path)


class _Parquet(TableWriter):
    """One table of all kinds, a row group a part."""

    def __init__(self, path: Path, *, vectors: bool) -> None:
        super().__init__(path, vectors=vectors)
        self._arrow, parquet = _installed("pyarrow", "parquet"), _installed("pyarrow.parquet", "parquet")
        numbers = {"mentions": "int64", "page_start": "int64", "page_end": "int64", "weight": "double"}
        self._schema = self._arrow.schema([(column, numbers.get(column, "string")) for column in self.all_columns()])
        self._file = parquet.ParquetWriter(path, self._schema)

    def write(self, records: Sequence[Record]) -> None:
        columns = {column: [_arrow_cell(record.get(column)) for record in records] for column in self.all_columns()}
        self._file.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._file.close()


FORMATS: Final[Mapping[str, Callable[..., TableWriter]]] = MappingProxyType(
    {"csv": _Csv, "excel": _Excel, "md": _Markdown, "txt": _Plain, "graphml": _GraphML, "parquet": _Parquet}
)
"""Name of a format → its writer."""


def _installed(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as failure:
        raise MissingExtraError(module.partition(".")[0], extra) from failure


def _title(record: Record) -> str:
    match record["kind"]:
        case "entity":
            return str(record["name"])
        case "relation":
            return f"{record['source']} – {record['target']}"
        case _:
            pages = f", p. {record['page_start']}" if record["page_start"] is not None else ""
            return f"{record['documents']}{pages}"


def _one_line(cell: object) -> str:
    return " ".join(str(cell).split())


def _attribute(text: object) -> str:
    return quoteattr(_NOT_XML.sub("", str(text)), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _excel_cell(cell: Cell) -> Cell:
    cell = neutral(cell)
    if not isinstance(cell, str):
        return cell
    clean = _NOT_XML.sub("", cell)
    return clean if len(clean) <= _EXCEL_CELL else f"{clean[: _EXCEL_CELL - 1]}…"


def _arrow_cell(cell: Cell) -> Cell:
    return cell.encode("utf-8", "replace").decode() if isinstance(cell, str) else cell
