"""A backup into an empty folder, or into a base that holds nothing."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.sqlite.copying import examine_database
from easy_knowledge_retriever.operating.archives import Manifest, read_archive
from easy_knowledge_retriever.operating.backing_up import sqlite_file
from easy_knowledge_retriever.operating.drafts import draft_folder
from easy_knowledge_retriever.operating.importing import import_base

__all__ = ["restore"]


async def restore(kb: KnowledgeBase, path: Path, observer: Observer = ignore) -> Manifest:
    """Makes a base of a backup. The archive may be anybody's: it is checked whole before anything of it is used.

    Args:
        kb: Not open, and with nothing in it: a base in one SQLite file for a backup of one, whose folder must be empty or not
            there; a base on any storages for one of rows.
        path: The archive.
        observer: Told how far it is.

    Raises:
        NotFound: There is no such file.
        ConfigError: There is something already, or the backup is of a SQLite file and the base is not.
        StoreCorruptError: The archive is no backup, is damaged, or would do harm; nothing was restored.
        StoreVersionError: A newer version of this library made it.
        StorageError: It cannot be written.
    """
    database = sqlite_file(kb)
    manifest = await asyncio.to_thread(read_archive, path, None)
    if manifest.payload == "base.jsonl":
        await _import(kb, path, observer)
    elif database is not None:
        await _put_in_place(database, path)
    else:
        raise ConfigError(
            f"{str(path)!r} is the backup of a base in SQLite", hint="restore it with --storage sqlite, then use 'ekr migrate'"
        )
    return manifest


async def _put_in_place(database: Path, path: Path) -> None:
    async with draft_folder(database.parent) as folder:
        copy = folder / database.name
        await asyncio.to_thread(read_archive, path, copy)
        await asyncio.to_thread(examine_database, copy)
        for left in folder.iterdir():  # what SQLite makes to read a file
            if left != copy:
                left.unlink()


async def _import(kb: KnowledgeBase, path: Path, observer: Observer) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="ekr-restore-") as folder:
            rows = Path(folder) / "base.jsonl"
            await asyncio.to_thread(read_archive, path, rows)
            await kb.open()
            try:
                await import_base(kb, rows, observer)
            finally:
                await kb.close()
    except OSError as failure:
        raise StorageError(
            f"{str(path)!r} was not restored: {failure}", hint="is there room in the temporary folder?"
        ) from failure
