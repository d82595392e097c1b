"""The examples run as a newcomer runs them: with no key and, with the environment set, with an endpoint."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.style.source import ROOT

EXAMPLES = ROOT / "example"


def _run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"} | environment,
        cwd=environment.get("EKR_WORKING_DIR", ROOT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_numbered_examples_run_without_a_key(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert "handbook.pdf: 5 pages" in _run("1_build_database.py", EKR_WORKING_DIR=folder)
    assert "nothing to do" in _run("1_build_database.py", EKR_WORKING_DIR=folder)
    analysed = _run("2_analyze_database.py", EKR_WORKING_DIR=folder)
    assert "Relations an entity, and how many entities have so many" in analysed
    assert (tmp_path / "degrees.png").read_bytes().startswith(b"\x89PNG")
    retrieved = _run("3_retrieve.py", EKR_WORKING_DIR=folder)
    for mode in ("naive", "bm25", "local", "global", "hybrid", "mix", "hybrid_mix", "graph_walk"):
        assert f"── {mode} ──" in retrieved
    assert "face shield" in retrieved


def test_the_numbered_examples_run_with_an_endpoint(tmp_path: Path, endpoint: str) -> None:
    models = {
        "OPENAI_BASE_URL": endpoint,
        "OPENAI_API_KEY": "a key of the test",
        "EKR_LLM_MODEL": "test-model",
        "EKR_EMBEDDING_MODEL": "test-embedding",
        "EKR_EMBEDDING_DIM": "1536",
        "EKR_RERANK_MODEL": "test-reranker",
        "EKR_RERANK_URL": f"{endpoint}/rerank",
        "EKR_WORKING_DIR": str(tmp_path),
    }
    assert "chunks" in _run("1_build_database.py", **models)
    assert "── hybrid_mix ──" in _run("3_retrieve.py", **models)


def test_the_main_job_answers_from_the_right_pages(tmp_path: Path) -> None:
    out = _run("ask_documents.py", "--working-dir", str(tmp_path / "base"))
    questions = out.count("\nQ: ")
    assert questions >= 5
    right = int(out.rpartition(f" of {questions} answers cite")[0].rpartition("\n")[2])
    assert right >= questions - 1, out


@pytest.mark.parametrize("asked", [(), ("--ask", "Where is the key?")])
def test_the_main_job_reads_a_folder_of_the_user(tmp_path: Path, asked: tuple[str, ...]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    rooms = ("Kitchen", "Cellar", "Attic", "Workshop", "Garden", "Library")
    text = "\n\n".join(f"## {room}\n\nThe {room.lower()} is locked; its key hangs behind the door." for room in rooms)
    (folder / "house.md").write_text(f"# House\n\n{text}\n")
    (folder / "plan.xyz").write_bytes(b"\0")
    out = _run("ask_documents.py", str(folder), *asked, "--working-dir", str(tmp_path / "base"))
    assert "Reading 1 document " in out
    assert "plan.xyz: no parser for .xyz" in out
    assert out.count("\nQ: ") == (1 if asked else 6)
    assert "house.md" in out


@pytest.mark.parametrize(
    ("heading", "subject"),
    [
        ("## 4.2 Nitrogen annex", "Nitrogen annex"),
        ("**1940s–1950s**", ""),
        ("The 1940s–1950s", ""),
        ("History of the 1950s", "History of the 1950s"),
        ("# [Modes](modes.md) and `words`", "Modes and words"),
        ("| a | row |", ""),
        ("Year    Tram    Fare", ""),
        ("12", ""),
    ],
)
def test_what_a_heading_is_about(heading: str, subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    assert importlib.import_module("ask_documents").subject(heading) == subject
