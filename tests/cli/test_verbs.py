"""Each verb: what it shows, what it gives as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from easy_knowledge_retriever.cli import verbs
from easy_knowledge_retriever.errors import UpstreamTimeout, WorkingDirLockedError
from tests.cli.conftest import Ekr

EXAMPLE = "The ridge tram was repaired on 4 July."
QUESTION = "Who decides whether a night is cancelled?"
FORGED = "\x1b]0;owned\x07red"


def test_ingest_of_files_and_a_folder(ekr: Ekr, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text(f"# Tram\n\n{EXAMPLE}\n")
    (folder / "deep" / "b.txt").write_text("Lunch is at noon.")
    (folder / "draft.md").write_text("# Draft\n\nNothing yet.")
    (folder / "picture.xyz").write_bytes(b"\0")
    ended = ekr("ingest", "notes", "--exclude", "draft*", "--json")
    assert ended.code == 0
    assert [(d["name"], d["status"]) for d in ended.document["documents"]] == [("a.md", "processed"), ("deep/b.txt", "processed")]
    assert [(Path(s["path"]).name, s["reason"]) for s in ended.document["skipped"]] == [("picture.xyz", "no parser for .xyz")]
    again = ekr("ingest", "notes", "--include", "*.md", "--json")
    assert [(d["name"], d["unchanged"]) for d in again.document["documents"]] == [("a.md", True), ("draft.md", False)]


def test_ingest_reads_text_from_standard_input(ekr: Ekr) -> None:
    assert ekr("ingest", "-", "--name", "tram.txt", stdin=EXAMPLE).code == 0
    assert [d["name"] for d in ekr("list", "--json").document["documents"]] == ["tram.txt"]
    nameless = ekr("ingest", "-", stdin=EXAMPLE)
    assert nameless.code == 6
    assert "--name" in nameless.err


def test_ingest_goes_on_after_a_broken_document_and_ends_with_3(ekr: Ekr, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (tmp_path / "good.md").write_text(f"# Tram\n\n{EXAMPLE}\n")
    ended = ekr("ingest", "broken.pdf", "good.md", "--json")
    assert ended.code == 3
    assert [(d["name"], d["status"]) for d in ended.document["documents"]] == [("broken.pdf", "failed"), ("good.md", "processed")]
    assert ended.document["documents"][0]["error"]
    shown = ekr("ingest", "broken.pdf")
    assert shown.code == 3
    assert shown.err.count("was not ingested") == 1
    assert shown.err.count("export it again") == 1


def test_ingest_refuses_a_named_file_without_a_parser_with_3(ekr: Ekr, tmp_path: Path) -> None:
    (tmp_path / "picture.xyz").write_bytes(b"\0")
    ended = ekr("ingest", "picture.xyz")
    assert ended.code == 3
    assert "no parser for .xyz" in ended.err


def test_ingest_of_nothing_that_exists_ends_with_4(ekr: Ekr, tmp_path: Path) -> None:
    ended = ekr("ingest", "nowhere.md")
    assert ended.code == 4
    assert "nowhere.md" in ended.err
    assert not (tmp_path / "rag_storage").exists()


def test_query_shows_the_answer_and_its_pages(ingested: Ekr) -> None:
    ended = ingested("query", QUESTION, "--mode", "bm25")
    assert ended.code == 0
    assert "duty officer" in ended.out
    assert "handbook.pdf, p. 3" in ended.out


def test_query_as_json_and_as_context(ingested: Ekr) -> None:
    ended = ingested("query", QUESTION, "--mode", "bm25", "--json")
    document = ended.document
    assert (document["schema_version"], document["verb"], document["ok"]) == (1, "query", True)
    assert {"file_path": "handbook.pdf", "pages": [3]}.items() <= document["references"][0].items()
    context = ingested("query", QUESTION, "--mode", "bm25", "--context-only", "--chunk-top-k", "1")
    assert "whether a night is cancelled" in context.out


def test_query_streams(ingested: Ekr) -> None:
    whole = ingested("query", QUESTION, "--mode", "bm25", "--json").document["answer"]
    streamed = ingested("query", QUESTION, "--mode", "bm25", "--stream")
    assert streamed.code == 0
    assert whole.split("[")[0].strip() in streamed.out
    assert "handbook.pdf, p. 3" in streamed.out


def test_query_sees_only_what_is_asked_for(ingested: Ekr) -> None:
    seen = ingested("query", "oxygen meter", "--mode", "bm25", "--document", "incident_report.md", "--json").document
    assert {chunk["file_path"] for chunk in seen["chunks"]} == {"incident_report.md"}
    assert ingested("query", "oxygen meter", "--mode", "bm25", "--meta", "year=2031", "--json").document["chunks"] == []
    assert ingested("query", "oxygen meter", "--mode", "bm25", "--collection", "none", "--json").document["chunks"] == []
    assert ingested("query", "oxygen meter", "--document", "nothing.md").code == 4
    assert ingested("query", "oxygen meter", "--meta", "year").code == 6


def test_collection_and_metadata_given_at_ingest_can_be_asked_for(ekr: Ekr, tmp_path: Path) -> None:
    (tmp_path / "tram.md").write_text(f"# Tram\n\n{EXAMPLE}\n")
    assert (
        ekr("ingest", "tram.md", "--collection", "log", "--meta", "year=2031", "--meta", "final=true", "--meta", "by=A. B.").code
        == 0
    )
    assert ekr("ingest", "-", "--name", "x.txt", "--collection", "other", stdin="The tram is green.").code == 0
    for wish in (["--collection", "log"], ["--meta", "year=2031"], ["--meta", "final=true"], ["--meta", "by=A. B."]):
        seen = ekr("query", "tram", "--mode", "bm25", *wish, "--json").document
        assert [chunk["file_path"] for chunk in seen["chunks"]] == ["tram.md"]
    assert ekr("query", "tram", "--mode", "bm25", "--meta", "year=2031.5", "--json").document["chunks"] == []


def test_query_in_a_mode_that_is_not_there_ends_with_6(ingested: Ekr) -> None:
    ended = ingested("query", "anything", "--mode", "telepathy")
    assert ended.code == 6
    assert "telepathy" in ended.err
    assert "hybrid_mix" in ended.err
    assert "Traceback" not in ended.err


def test_list_and_rm(ingested: Ekr) -> None:
    assert "handbook.pdf" in ingested("list").out
    assert ingested("list", "--status", "failed", "--json").document["documents"] == []
    assert ingested("rm", "handbook.pdf").code == 2
    assert ingested("rm", "nothing.md", "--yes").code == 4
    gone = ingested("rm", "handbook.pdf", "--yes", "--json")
    assert gone.code == 0
    assert [deleted["status"] for deleted in gone.document["deleted"]] == ["success"]
    assert [d["name"] for d in ingested("list", "--json").document["documents"]] == ["incident_report.md"]


def test_rm_takes_its_answer_from_standard_input(ekr: Ekr) -> None:
    assert ekr("ingest", "-", "--name", "x.txt", stdin=EXAMPLE).code == 0
    assert ekr("rm", "x.txt", stdin="n\n").code == 2
    assert ekr("rm", "x.txt", stdin="y\n").code == 0
    empty = ekr("query", "tram")
    assert empty.code == 4
    assert "is empty" in empty.err


def test_ingest_of_an_empty_folder_says_so(ekr: Ekr, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = ekr("ingest", "empty")
    assert ended.code == 4
    assert "nothing to ingest" in ended.err
    assert "ekr formats" in ended.err


def test_files_of_the_same_name_are_two_documents(ekr: Ekr, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "n.md").write_text(f"# Tram {folder}\n\n{EXAMPLE}\n")
    assert ekr("ingest", "a/n.md", "b/n.md").code == 0
    assert sorted(d["name"] for d in ekr("list", "--json").document["documents"]) == ["a/n.md", "b/n.md"]


def test_rm_refuses_a_name_that_two_collections_have(ekr: Ekr) -> None:
    for collection in ("log", "other"):
        assert ekr("ingest", "-", "--name", "x.txt", "--collection", collection, stdin=EXAMPLE).code == 0
    records = ekr("list", "--json").document["documents"]
    refused = ekr("rm", "x.txt", "--yes")
    assert refused.code == 6
    assert records[0]["id"] in refused.err
    assert ekr("rm", records[0]["id"], "--yes").code == 0
    assert [record["id"] for record in ekr("list", "--json").document["documents"]] == [records[1]["id"]]


def test_status_counts(ingested: Ekr) -> None:
    document = ingested("status", "--json").document
    assert document["documents"]["processed"] == 2
    assert document["chunks"] > 2
    assert document["bytes"] > 0
    assert "2 processed" in ingested("status").out


def test_graph(ingested: Ekr) -> None:
    stats = ingested("graph", "stats", "--json").document
    assert stats["entities"] > 0
    name = stats["hubs"][0]["name"]
    shown = ingested("graph", "show", name, "--json").document
    assert shown["entity"]["entity_name"] == name
    assert len(shown["relations"]) == stats["hubs"][0]["relations"]
    assert name in ingested("graph", "stats").out
    assert name in ingested("graph", "show", name).out
    lindqvist = ingested("graph", "show", "Tomas Lindqvist")
    assert lindqvist.code == 0
    assert "mentioned in handbook.pdf, incident_report.md" in lindqvist.out
    nobody = ingested("graph", "show", "Qqqqq")
    assert nobody.code == 4
    assert "ekr graph stats" in nobody.err
    assert "Tomas Lindqvist" in ingested("graph", "show", "lindqvist").err


def test_verify(ingested: Ekr) -> None:
    assert ingested("verify", "--deep", "--json").document["findings"] == []
    assert ingested("verify").code == 0


@pytest.mark.damages
def test_verify_finds_and_mends_what_is_broken(ekr: Ekr, tmp_path: Path) -> None:
    assert ekr("ingest", "-", "--name", "tram.txt", stdin=EXAMPLE).code == 0
    with closing(sqlite3.connect(tmp_path / "rag_storage" / "knowledge.db")) as base, base:
        base.execute("DELETE FROM lexical")
        base.execute("DELETE FROM vector")
    broken = ekr("verify", "--deep")
    assert broken.code == 9
    assert "its posting is missing" in broken.out
    half = ekr("verify", "--repair", "--json")
    assert half.code == 9
    assert {finding["check"] for finding in half.document["findings"]} == {"I2"}
    assert "I4" in {finding["check"] for finding in half.document["repaired"]}
    mended = ekr("verify", "--repair", "--embed")
    assert mended.code == 0
    assert "mended" in mended.out
    assert ekr("verify", "--deep").code == 0


def test_another_model_is_refused_where_it_would_be_used(ingested: Ekr, tmp_path: Path) -> None:
    other = ("--embedding-dim", "32")
    (tmp_path / "more.md").write_text(EXAMPLE)
    for arguments in (("ingest", "more.md"), ("query", QUESTION), ("graph", "merge", "A", "B")):
        refused = ingested(*arguments, *other)
        assert refused.code == 9
        assert "dimension 256" in refused.err
        assert "dimension 32" in refused.err
        assert "ekr reindex" in refused.err
    assert ingested("list", *other).code == 0
    found = ingested("verify", *other)
    assert found.code == 9
    assert "ekr reindex" in found.out


def test_reindex_says_what_it_takes_and_makes_the_vectors_of_the_other_model(ingested: Ekr) -> None:
    other = ("--embedding-dim", "32")
    assert "run 'ekr reindex'" in ingested("doctor", *other).out
    planned = ingested("reindex", "--dry-run", *other, "--json").document
    assert "vectors" in ingested("reindex", "--dry-run", *other).out
    assert ingested("query", QUESTION).code == 0
    done = ingested("reindex", *other)
    assert done.code == 0
    assert f"{planned['vectors']} vectors of fake-bag-of-words/32" in done.out
    assert f"{planned['vectors']} of {planned['vectors']} vectors" in done.err
    assert ingested("query", QUESTION, *other).code == 0
    assert ingested("query", QUESTION).code == 9
    assert ingested("verify", "--deep", *other).code == 0
    assert ingested("reindex", *other, "--json").document["before"] == "fake-bag-of-words/32"


def test_formats_and_version(ekr: Ekr) -> None:
    assert {".md", ".txt", ".pdf"} <= set(ekr("formats", "--json").document["formats"])
    assert ".pdf" in ekr("formats").out
    assert ekr("version", "--json").document["versions"]["sqlite"] == sqlite3.sqlite_version
    assert "easy-knowledge-retriever" in ekr("version").out


def test_doctor_finds_all_well(ekr: Ekr) -> None:
    ended = ekr("doctor", "--json")
    assert ended.code == 0
    assert {check["name"]: check["passed"] for check in ended.document["checks"]}["embedding"]


@pytest.mark.parametrize("verb", ["list", "status", "query anything", "rm x --yes", "graph stats", "graph show x", "verify"])
def test_without_a_knowledge_base_nothing_is_made(ekr: Ekr, tmp_path: Path, verb: str) -> None:
    ended = ekr(*verb.split())
    assert ended.code == 4
    assert "ekr ingest" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "code"), [(UpstreamTimeout("no answer", hint="try later"), 8), (WorkingDirLockedError("pid 1 is writing"), 7)]
)
def test_an_error_gives_its_exit_code_and_a_document(
    ekr: Ekr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: int
) -> None:
    (tmp_path / "rag_storage").mkdir()

    def raising(*_: object) -> object:
        raise failure

    monkeypatch.setattr(verbs, "retriever", raising)
    ended = ekr("list", "--json")
    assert ended.code == code
    assert ended.document["ok"] is False
    assert ended.document["error"]["message"] in str(failure)
    assert ended.err == ""
    assert "Traceback" in ekr("list", "-v").err


def test_ctrl_c_ends_with_130(ekr: Ekr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rag_storage").mkdir()

    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "retriever", interrupted)
    assert ekr("list").code == 130


def test_a_closed_pipe_ends_with_141() -> None:
    program = "import sys; from easy_knowledge_retriever.cli import main; sys.argv = ['ekr', 'version', '--json']; main()"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_wrong_usage_ends_with_2(ekr: Ekr) -> None:
    assert ekr("query").code == 2
    assert ekr("list", "--nonsense").code == 2
    assert ekr("fly").code == 2


def test_a_name_cannot_steer_the_terminal(ekr: Ekr) -> None:
    ended = ekr("rm", FORGED, "--yes", "--working-dir", ".")
    assert ended.code == 4
    assert "\x1b" not in ended.err + ended.out


def test_help_names_every_verb_with_an_example() -> None:
    program = "import sys; from easy_knowledge_retriever.cli import main; sys.argv = ['ekr', *sys.argv[1:]]; main()"
    shown = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True).stdout
    for verb in ("demo", "ingest", "list", "rm", "status", "query", "graph", "verify", "doctor", "formats", "version"):
        assert verb in shown
    one = subprocess.run([sys.executable, "-c", program, "ingest", "--help"], capture_output=True, text=True, check=True).stdout
    assert "Example: ekr ingest" in one
    assert "--working-dir" in one


def test_demo_answers_from_the_right_pages(ekr: Ekr, tmp_path: Path) -> None:
    ended = ekr("demo", "--json", "--mode", "bm25")
    assert ended.code == 0
    assert len(ended.document["answers"]) == 7
    assert list(tmp_path.iterdir()) == []
    json.dumps(ended.document)


def test_names_are_merged_and_taken_apart(ekr: Ekr, tmp_path: Path) -> None:
    (tmp_path / "names.md").write_text(
        "The Northern Grid Council (NGC) met in Lund. Then the NGC met Ada Brandt. Ada Brandt knows Dr. Ada Brandt.\n"
    )
    assert ekr("ingest", "names.md").code == 0
    shown = ekr("graph", "merges", "--json").document["merges"]
    assert [(merge["variant"], merge["kind"], merge["file_path"]) for merge in shown] == [
        ("Dr. Ada Brandt", "honorific", ""),
        ("NGC", "acronym", "names.md"),
    ]
    assert "acronym" in ekr("graph", "merges", "Northern Grid Council").out
    assert ekr("graph", "unmerge", "NGC").out.strip().endswith("'NGC' is an entity of its own now")
    assert len(ekr("graph", "merges", "--json").document["merges"]) == 1
    assert ekr("graph", "unmerge", "NGC").code == 4
    assert ekr("graph", "merge", "NGC", "Northern Grid Council").code == 0
    assert ekr("graph", "merges", "--json").document["merges"] == shown
    assert ekr("graph", "merges", "--suggest", "--json").document["suggestions"] == []
    assert ekr("verify", "--deep").code == 0
