"""Which files a list of paths stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from easy_knowledge_retriever.errors import NotFound

__all__ = ["Found", "Skipped", "find_files"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not ingested, and why."""

    path: Path
    reason: str
    named: bool
    """Whether the user named it: then leaving it out is a failure."""


@dataclass(frozen=True, slots=True)
class Found:
    """Files to ingest, each once, in order, and those that are not."""

    files: tuple[tuple[Path, str], ...]
    """Path, and the name the document gets: its path under the folder that holds all that was named."""
    skipped: tuple[Skipped, ...]


def find_files(
    paths: Sequence[Path], reads: Callable[[Path], bool], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Found:
    """The files that ``paths`` stand for. Folders are searched to any depth; hidden files and links to folders are left out.

    A document is named by its path below the deepest folder that holds everything in ``paths``: one file has its own name, a
    file of one folder its path there, and files of two folders never share a name.

    Args:
        paths: Files and folders.
        reads: Whether a file of this suffix can be read.
        include: Patterns one of which the name in its folder must match, if there are any.
        exclude: Patterns none of which it may match.

    Raises:
        NotFound: One of the paths does not exist.
    """
    files: dict[Path, str] = {}
    skipped: list[Skipped] = []
    for path in paths:
        if not path.exists():
            raise NotFound(f"there is no file or folder {str(path)!r}", hint="nothing was ingested")
    above = _common_folder(paths)
    for path in paths:
        for file in _under(path):
            if file != path and not _wanted(file.relative_to(path).as_posix(), include, exclude):
                continue
            if not reads(file):
                skipped.append(Skipped(file, f"no parser for {file.suffix or 'a name without suffix'}", named=file == path))
                continue
            files.setdefault(file.resolve(), _absolute(file).relative_to(above).as_posix())
    return Found(tuple(files.items()), tuple(skipped))


def _common_folder(paths: Sequence[Path]) -> Path:
    folders = [_absolute(path if path.is_dir() else path.parent) for path in paths]
    return Path(os.path.commonpath(folders)) if folders else Path()


def _absolute(path: Path) -> Path:
    """Without dots, but with its links: a link is called what the user called it."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow the links


def _under(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file():
                yield file


def _wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    return (not include or any(_matches(name, pattern) for pattern in include)) and not any(
        _matches(name, pattern) for pattern in exclude
    )


def _matches(name: str, pattern: str) -> bool:
    """A pattern without a slash is about the last part of the name, as in .gitignore."""
    return fnmatch(name if "/" in pattern else name.rpartition("/")[2], pattern) or fnmatch(name, pattern)
