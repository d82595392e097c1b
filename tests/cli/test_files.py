"""Which files a list of paths stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever.cli.files import find_files
from easy_knowledge_retriever.errors import NotFound


def _reads(path: Path) -> bool:
    return path.suffix == ".md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.md", "a.md", "deep/c.md", "deep/draft.md", ".hidden.md", ".git/d.md", "image.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_a_folder_is_searched_in_order_without_hidden_files(folder: Path) -> None:
    found = find_files([folder], _reads)
    assert [name for _, name in found.files] == ["a.md", "b.md", "deep/c.md", "deep/draft.md"]
    assert [(skipped.path.name, skipped.named) for skipped in found.skipped] == [("image.png", False)]


def test_patterns_without_a_slash_are_about_the_last_part(folder: Path) -> None:
    assert [name for _, name in find_files([folder], _reads, exclude=["draft*"]).files] == ["a.md", "b.md", "deep/c.md"]
    assert [name for _, name in find_files([folder], _reads, include=["deep/*"]).files] == ["deep/c.md", "deep/draft.md"]


def test_a_file_named_twice_is_one(folder: Path) -> None:
    found = find_files([folder / "a.md", folder, folder / "a.md"], _reads)
    assert [name for _, name in found.files].count("a.md") == 1


def test_a_named_file_that_cannot_be_read_is_told_apart(folder: Path) -> None:
    assert [skipped.named for skipped in find_files([folder / "image.png"], _reads).skipped] == [True]


def test_a_link_to_a_folder_above_is_not_followed(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    assert len(find_files([folder], _reads).files) == 4


def test_a_path_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        find_files([folder, folder / "nowhere"], _reads)


def test_files_of_two_folders_never_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/n.md", "b/n.md", "b/deep/n.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "a")
    assert [name for _, name in find_files([Path("n.md"), Path("../b/n.md")], _reads).files] == ["a/n.md", "b/n.md"]
    assert [name for _, name in find_files([Path(), Path("../b")], _reads).files] == ["a/n.md", "b/n.md", "b/deep/n.md"]
    assert [name for _, name in find_files([Path("../b"), Path("../b/n.md")], _reads).files] == ["n.md", "deep/n.md"]
    assert [name for _, name in find_files([Path("../b/n.md")], _reads).files] == ["n.md"]
