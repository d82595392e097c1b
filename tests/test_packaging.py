"""What is installed: few dependencies, each with its reason, and the data files in the wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.style.source import ROOT, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BASE = {
    "PyStemmer",
    "aiofiles",
    "liteparse",
    "nano-vectordb",
    "networkx",
    "numpy",
    "onnxruntime",
    "openai",
    "rank-bm25",
    "rich",
    "tenacity",
    "tiktoken",
    "tokenizers",
    "typer",
}


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match
    return match.group()


def test_the_base_install_has_these_dependencies() -> None:
    assert {_name(requirement) for requirement in PROJECT["dependencies"]} == BASE


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)) == BASE


def test_the_wheel_holds_what_the_package_needs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for path in tracked():
        name = path.relative_to(ROOT)
        if name.parts[0] == "easy_knowledge_retriever" or len(name.parts) == 1:
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if name.startswith("easy_knowledge_retriever/")}
    wanted = {path.relative_to(ROOT).as_posix() for path in tracked() if path.is_relative_to(ROOT / "easy_knowledge_retriever")}
    assert held == wanted


def test_ci_calls_the_test_command_and_nothing_less() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("exec python3 tests/run.py")
    assert "python3 tests/run.py" in (ROOT / "README.md").read_text(encoding="utf-8")
