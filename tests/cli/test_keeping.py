"""The verbs that keep a base: what they leave behind, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ekr

QUESTION = "Who decides whether a night is cancelled?"


def context(ekr: Ekr, *flags: str) -> str:
    ended = ekr("query", QUESTION, "--mode", "mix", "--context-only", *flags)
    assert ended.code == 0, ended.err
    return ended.out


@pytest.mark.parametrize("backend", ["sqlite", "files"])
def test_an_exported_base_answers_as_before_where_it_is_imported(ingested: Ekr, backend: str) -> None:
    exported = ingested("export", "base.jsonl", "--json")
    assert exported.code == 0
    assert exported.document["rows"]["documents"] == exported.document["rows"]["status"]
    there = ("--working-dir", "copy", "--storage", backend)
    imported = ingested("import", "base.jsonl", "--json", *there)
    assert imported.code == 0, imported.out
    assert imported.document["rows"] == sum(exported.document["rows"].values())
    assert context(ingested, *there) == context(ingested)
    assert ingested("verify", "--deep", *there).code == 0


def test_import_into_a_base_that_is_there_ends_with_6(ingested: Ekr) -> None:
    assert "rows in base.jsonl" in ingested("export", "base.jsonl").out
    ended = ingested("import", "base.jsonl")
    assert ended.code == 6
    assert "holds something already" in ended.err
    assert ingested("verify").code == 0


def test_import_of_what_is_not_there_ends_with_4_and_of_something_else_with_9(ekr: Ekr, tmp_path: Path) -> None:
    assert ekr("import", "nothing.jsonl").code == 4
    (tmp_path / "notes.jsonl").write_text("{}\n")
    ended = ekr("import", "notes.jsonl")
    assert ended.code == 9
    assert "is no exported base" in ended.err


def test_a_base_is_moved_to_files_and_back(ingested: Ekr) -> None:
    moved = ingested("migrate", "files", "--to", "files")
    assert moved.code == 0, moved.err
    assert "the same as in ./rag_storage" in moved.out
    assert "--storage files" in moved.out
    here = ("--working-dir", "files", "--storage", "files")
    back = ingested("migrate", "back", "--json", *here)
    assert back.document["storage"] == "sqlite"
    assert context(ingested) == context(ingested, *here) == context(ingested, "--working-dir", "back")


def test_migrate_to_what_is_there_or_unknown_ends_with_6(ingested: Ekr) -> None:
    assert ingested("migrate", "rag_storage").code == 6
    unknown = ingested("migrate", "moved", "--to", "paper")
    assert unknown.code == 6
    assert "one of sqlite, files" in unknown.err


def test_export_of_no_base_ends_with_4(ekr: Ekr) -> None:
    assert ekr("export", "base.jsonl").code == 4
