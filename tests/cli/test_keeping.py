"""The verbs that keep a base: what they leave behind, and how they end."""

from __future__ import annotations

import sqlite3
from contextlib import closing
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


@pytest.mark.parametrize("backend", ["sqlite", "files"])
def test_a_backup_is_restored_into_a_new_folder(ingested: Ekr, tmp_path: Path, backend: str) -> None:
    here = ("--working-dir", "here", "--storage", backend)
    assert ingested("migrate", "here", "--to", backend).code == 0
    made = ingested("backup", "base.zip", "--json", *here)
    assert made.code == 0, made.out
    assert made.document["rows"]["status"] == len(ingested("list", "--json").document["documents"])
    assert made.document["bytes"] == (tmp_path / "base.zip").stat().st_size
    there = ("--working-dir", "there", "--storage", backend)
    restored = ingested("restore", "base.zip", "--json", *there)
    assert restored.code == 0, restored.out
    assert restored.document["backup"]["rows"] == made.document["rows"]
    assert context(ingested, *there) == context(ingested)
    again = ingested("restore", "base.zip", *there)
    assert again.code == 6
    assert ingested("verify", "--deep", *there).code == 0


def test_backup_and_restore_end_as_their_errors_say(ingested: Ekr, tmp_path: Path) -> None:
    assert ingested("backup", "base.zip", "--working-dir", "nowhere").code == 4
    assert ingested("restore", "nothing.zip", "--working-dir", "there").code == 4
    (tmp_path / "notes.zip").write_text("no archive")
    assert ingested("restore", "notes.zip", "--working-dir", "there").code == 9
    assert not (tmp_path / "there").exists()
    assert "documents, " in ingested("backup", "base.zip").out
    assert ingested("backup", "nowhere/base.zip").code == 9
    assert "documents of 20" in ingested("restore", "base.zip", "--working-dir", "there").out


def test_rm_with_purge_leaves_no_byte(ekr: Ekr, tmp_path: Path) -> None:
    secret = "canary-9f3b7c21d04e58a6b1c2d3e4f5a6b7c8d9"
    (tmp_path / f"{secret}.md").write_text(f"# {secret}\n\nThe {secret} was repaired on 4 July.\n")
    (tmp_path / "tram.md").write_text("# Tram\n\nThe ridge tram was repaired on 4 July.\n")
    assert ekr("ingest", f"{secret}.md", "tram.md").code == 0
    assert ekr("rm", f"{secret}.md", "--purge", "--yes").code == 0
    files = [file for file in (tmp_path / "rag_storage").rglob("*") if file.is_file()]
    assert files
    assert [file.name for file in files if secret.encode() in file.read_bytes()] == []
    assert [d["name"] for d in ekr("list", "--json").document["documents"]] == ["tram.md"]


def test_clear_asks_and_leaves_an_empty_base(ingested: Ekr) -> None:
    refused = ingested("clear", stdin="n\n")
    assert refused.code == 2
    assert ingested("list", "--json").document["documents"]
    assert ingested("clear", "--yes", "--json").document["dropped"] > 1
    assert ingested("list", "--json").document["documents"] == []
    assert ingested("verify", "--deep").code == 0


def test_doctor_says_what_opening_would_do_to_the_file(ingested: Ekr, tmp_path: Path) -> None:
    def found() -> tuple[bool, str]:
        checks = ingested("doctor", "--json").document["checks"]
        return next((check["passed"], check["found"]) for check in checks if check["name"] == "format")

    assert found() == (True, "2, as this library writes it")
    for version, message in ((99, "this library knows up to 2"), (1, "from before the first release")):
        with closing(sqlite3.connect(tmp_path / "rag_storage" / "knowledge.db", isolation_level=None)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        passed, said = found()
        assert not passed
        assert message in said


def test_export_of_a_table(ingested: Ekr, tmp_path: Path) -> None:
    ended = ingested("export", "base.csv", "--format", "csv", "--vectors", "--json")
    assert ended.code == 0
    assert set(ended.document["rows"]) == {"entity", "relation", "chunk"}
    assert (tmp_path / "base.csv").read_text().startswith("kind,id,name,")
    unknown = ingested("export", "base.doc", "--format", "doc")
    assert unknown.code == 6
    assert "one of csv" in unknown.err
