"""Every Python block of the README and the documentation runs, offline, in a folder with the demonstration documents."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from easy_knowledge_retriever.cli.demo import demo_documents
from tests.docs.blocks import blocks, pages, run
from tests.style.source import PACKAGE, relative

WITH_BLOCKS = [page for page in pages() if list(blocks(page))]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=relative)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    for document in demo_documents():
        shutil.copy(document, tmp_path / document.name)
    (tmp_path / PACKAGE.name).symlink_to(PACKAGE)  # as in a checkout
    monkeypatch.chdir(tmp_path)
    found = list(blocks(page))
    if any(block.needs == "endpoint" for block in found):
        monkeypatch.setenv("OPENAI_BASE_URL", request.getfixturevalue("endpoint"))
        monkeypatch.setenv("OPENAI_API_KEY", "a key of the test")
    run(found)


def test_the_readme_has_a_program_of_twenty_lines() -> None:
    [program] = [block.code for block in blocks(WITH_BLOCKS[0])]
    assert len(program.strip().splitlines()) <= 22
