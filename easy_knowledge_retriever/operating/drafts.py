"""Files and folders that are there when they are whole, and not before."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from easy_knowledge_retriever.errors import ConfigError, StorageError

__all__ = ["draft", "draft_folder", "scratch"]


@asynccontextmanager
async def draft(path: Path) -> AsyncIterator[Path]:
    """A name beside ``path`` to write to. At the end the file is synced and takes its name; if the block raises, it is removed.

    Raises:
        StorageError: It could not be put in its place.
    """
    unfinished = _beside(path)
    try:
        yield unfinished
        await asyncio.to_thread(_settle, unfinished, path)
    finally:
        await asyncio.to_thread(unfinished.unlink, missing_ok=True)


@asynccontextmanager
async def draft_folder(path: Path) -> AsyncIterator[Path]:
    """A new folder beside ``path``, which must be empty or not there. At the end it takes its name; else it is removed.

    Raises:
        ConfigError: There is something in ``path``.
        StorageError: The folder could not be made, or not be put in its place.
    """
    _require_empty(path)
    unfinished = _beside(path)
    try:
        try:
            await asyncio.to_thread(_make, unfinished)
        except OSError as failure:
            raise StorageError(
                f"{str(unfinished)!r} cannot be made: {failure}", hint="may its parent be written to?"
            ) from failure
        yield unfinished
        _require_empty(path)
        await asyncio.to_thread(_settle, unfinished, path)
    finally:
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)


@asynccontextmanager
async def scratch(path: Path) -> AsyncIterator[Path]:
    """A new folder beside ``path`` that is removed in the end.

    Raises:
        OSError: It could not be made.
    """
    folder = _beside(path)
    await asyncio.to_thread(folder.mkdir, mode=0o700)
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _require_empty(path: Path) -> None:
    """Makes sure that nothing would be overwritten.

    Raises:
        ConfigError: ``path`` is a file, or a folder with something in it.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ConfigError(f"{str(path)!r} is not an empty folder", hint="name one that is empty or does not exist yet")


def _beside(path: Path) -> Path:
    return path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def _make(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)


def _settle(unfinished: Path, path: Path) -> None:
    try:
        for file in [unfinished] if unfinished.is_file() else sorted(unfinished.rglob("*")):
            _sync(file)
        if unfinished.is_dir() and path.exists():
            path.rmdir()
        unfinished.replace(path)
        _sync(path.absolute().parent)
    except OSError as failure:
        raise StorageError(f"{str(path)!r} was not written: {failure}", hint="is there room, and may it be written?") from failure


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # cannot be opened there, and its entries are written through
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
