"""One file that holds a base as it is at this moment, and is read back before it gets its name.

It is a ZIP archive of two members: ``manifest.json`` and either ``knowledge.db``, a copy of the SQLite file, or ``base.jsonl``,
an export, for a base on any other storages.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from easy_knowledge_retriever import __version__
from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.sqlite.copying import copy_database, rows_in_database
from easy_knowledge_retriever.kg.sqlite.store import SqliteStore
from easy_knowledge_retriever.operating.archives import FORMAT, MANIFEST, VERSION, Manifest, read_archive
from easy_knowledge_retriever.operating.drafts import draft, scratch
from easy_knowledge_retriever.operating.exporting import export_base

__all__ = ["BackupReport", "backup", "sqlite_file"]

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup holds."""

    path: str
    kind: Literal["sqlite", "rows"]
    bytes: int
    """Of the archive."""
    rows: Mapping[str, int]
    """Rows of each table, or of each role."""


def sqlite_file(kb: KnowledgeBase) -> Path | None:
    """The file that holds all of a base; None if it is on other storages, or on several."""
    found: Path | None = None
    for storage in kb.storages():
        store = storage.store
        if not isinstance(store, SqliteStore) or found not in {None, store.path}:
            return None
        found = store.path
    return found


async def backup(kb: KnowledgeBase, path: Path, observer: Observer = ignore) -> BackupReport:
    """Writes a backup of a base that may be in use, also by other processes, and reads it back.

    Args:
        kb: An open base.
        path: The archive; one that is there is replaced when the new one is whole.
        observer: Told how far it is.

    Raises:
        StorageError: The base cannot be read, or the archive not be written.
    """
    database = sqlite_file(kb)
    payload: Literal["knowledge.db", "base.jsonl"] = "base.jsonl" if database is None else "knowledge.db"
    try:
        async with draft(path) as archive, scratch(path) as folder:
            copy = folder / payload
            if database is None:
                rows: Mapping[str, int] = await export_base(kb, copy, observer)
            else:
                await asyncio.to_thread(copy_database, database, copy)
                rows = await asyncio.to_thread(rows_in_database, copy)
            await asyncio.to_thread(_pack, archive, copy, payload, rows)
            await asyncio.to_thread(read_archive, archive, None)
            size = archive.stat().st_size
    except OSError as failure:
        raise StorageError(f"{str(path)!r} was not written: {failure}", hint="is there room, and may it be written?") from failure
    return BackupReport(str(path), "rows" if database is None else "sqlite", size, dict(rows))


def _pack(archive: Path, copy: Path, payload: Literal["knowledge.db", "base.jsonl"], rows: Mapping[str, int]) -> None:
    sha = hashlib.sha256()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        with copy.open("rb") as source, packed.open(payload, "w", force_zip64=True) as member:
            while block := source.read(_BLOCK):
                sha.update(block)
                member.write(block)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(FORMAT, VERSION, __version__, created, payload, copy.stat().st_size, sha.hexdigest(), dict(rows))
        packed.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1, sort_keys=True))
