"""Taking in an index of another system on the command line."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.cli.conftest import Ekr
from tests.support.lightrag import write_index


def test_an_index_is_taken_in_and_answers(ekr: Ekr, tmp_path: Path) -> None:
    write_index(tmp_path / "old")
    ended = ekr("import-lightrag", "old")
    assert ended.code == 0, ended.err
    assert "2 documents, 3 chunks, 2 extractions as the model gave them, 1 taken back from the graph" in ended.out
    assert "not carried over: 1 documents that were not finished there" in ended.out
    assert [d["name"] for d in ekr("list", "--json").document["documents"]] == ["marlow.txt", "verdel.txt"]
    assert "bridge" in ekr("query", "Who built the bridge?").out
    assert ekr("verify", "--deep").code == 0
    again = ekr("import-lightrag", "old", "--json").document
    assert all(document["unchanged"] for document in again["documents"])


def test_a_folder_without_an_index_ends_with_4(ekr: Ekr, tmp_path: Path) -> None:
    ended = ekr("import-lightrag", "nothing")
    assert (ended.code, "kv_store_text_chunks.json" in ended.err) == (4, True)


def test_an_index_in_the_way_is_pointed_at(ekr: Ekr, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_index(tmp_path / "rag_storage")
    with caplog.at_level(logging.WARNING):
        ekr("status")
    assert "ekr import-lightrag" in caplog.text
    caplog.clear()
    ekr("import-lightrag", "rag_storage")
    caplog.clear()
    ekr("status")
    assert "import-lightrag" not in caplog.text
