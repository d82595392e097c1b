"""Backups of bases in use, and archives that are none."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
import sqlite3
import stat
import zipfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import aio
from easy_knowledge_retriever.errors import ConfigError, NotFound, StorageError, StoreCorruptError, StoreVersionError
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.operating.archives import read_archive
from easy_knowledge_retriever.operating.backing_up import backup
from easy_knowledge_retriever.operating.restoring import restore
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import document, empty_base, ingestion
from tests.unit.operating.moving_base import fill_with_documents, on, opened

NAMES = ("Ida Brandt", "Mount Kell", "the Verdel", "Jon Lind", "Marlow")


@pytest.mark.parametrize("backend", ["sqlite", "files"])
async def test_a_restored_base_is_the_one_that_was_backed_up(tmp_path: Path, backend: str) -> None:
    async with opened(on(backend, tmp_path / "old")) as base:
        await fill_with_documents(base)
        report = await backup(base, tmp_path / "base.zip")
        expected = await canonical_dump(base)
    assert report.kind == ("sqlite" if backend == "sqlite" else "rows")
    assert report.bytes == (tmp_path / "base.zip").stat().st_size
    assert report.rows["status"] == 5
    (tmp_path / "new").mkdir()
    manifest = await restore(on(backend, tmp_path / "new"), tmp_path / "base.zip")
    assert manifest.rows == report.rows
    async with opened(on(backend, tmp_path / "new")) as new:
        assert await canonical_dump(new) == expected
        assert (await verify(new, deep=True)).findings == ()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["base.zip", "new", "old"]


async def test_a_backup_of_rows_is_restored_on_any_storages_and_one_of_sqlite_there_only(tmp_path: Path) -> None:
    base = await empty_base()
    await fill_with_documents(base)
    await backup(base, tmp_path / "rows.zip")
    async with opened(on("sqlite", tmp_path / "one")) as one:
        await one.close()
        await restore(one, tmp_path / "rows.zip")
        await one.open()
        assert await canonical_dump(one) == await canonical_dump(base)
        await backup(one, tmp_path / "sqlite.zip")
    with pytest.raises(ConfigError, match="is the backup of a base in SQLite"):
        await restore(on("files", tmp_path / "two"), tmp_path / "sqlite.zip")


async def test_nothing_is_restored_over_something(tmp_path: Path) -> None:
    async with opened(on("sqlite", tmp_path / "old")) as base:
        await fill_with_documents(base)
        await backup(base, tmp_path / "base.zip")
    before = (tmp_path / "old" / "knowledge.db").read_bytes()
    with pytest.raises(ConfigError, match="not an empty folder"):
        await restore(on("sqlite", tmp_path / "old"), tmp_path / "base.zip")
    assert (tmp_path / "old" / "knowledge.db").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="not an empty folder"):
        await restore(on("sqlite", tmp_path / "file"), tmp_path / "base.zip")


async def _back_up_while_ingesting(folder: Path, seed: int) -> int:
    """One run: documents come, are replaced and go while backups are taken; gives the findings in all of them."""
    pick, findings = random.Random(seed), 0
    async with opened(on("sqlite", folder / "base")) as base:
        flow = ingestion(base)

        async def change() -> None:
            for turn in range(12):
                made = document(f"d{turn % 5}", f"{pick.choice(NAMES)} met {pick.choice(NAMES)} in {pick.choice(NAMES)} {turn}.")
                if pick.random() < 0.2:
                    await flow.delete_document(made.id)
                else:
                    await flow.ingest_document(made)

        async def copy() -> None:
            for turn in range(3):
                await asyncio.sleep(pick.random() / 20)
                await backup(base, folder / f"{turn}.zip")

        async with aio.task_group() as tasks:
            tasks.create_task(change())
            tasks.create_task(copy())
    for turn in range(3):
        new = on("sqlite", folder / f"{turn}")
        await restore(new, folder / f"{turn}.zip")
        async with opened(new):
            await recover(new)  # as opening by a retriever does: what was on its way in then is on its way no more
            findings += len((await verify(new, deep=True)).findings)
    return findings


@pytest.mark.parametrize("seed", range(3))
async def test_a_backup_during_an_ingest_is_consistent(tmp_path: Path, seed: int) -> None:
    assert await _back_up_while_ingesting(tmp_path, seed) == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
async def test_twenty_backups_during_an_ingest_are_consistent(tmp_path: Path, seed: int) -> None:
    assert await _back_up_while_ingesting(tmp_path, 100 + seed) == 0


async def test_a_backup_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    async with opened(on("sqlite", tmp_path / "base")) as base:
        await backup(base, tmp_path / "base.zip")
        before = (tmp_path / "base.zip").read_bytes()
        (tmp_path / "base" / "knowledge.db").write_bytes(b"no database any more" * 1000)
        with pytest.raises(StorageError):
            await backup(base, tmp_path / "base.zip")
        assert (tmp_path / "base.zip").read_bytes() == before
        with pytest.raises(StorageError):
            await backup(base, tmp_path / "nowhere" / "base.zip")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["base", "base.zip"]


@pytest.fixture
async def archive(tmp_path: Path) -> dict[str, bytes]:
    """The members of a good backup."""
    async with opened(on("sqlite", tmp_path / "base")) as base:
        await fill_with_documents(base)
        await backup(base, tmp_path / "base.zip")
    with zipfile.ZipFile(tmp_path / "base.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def _packed(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return target.getvalue()


def _saying(members: Mapping[str, bytes], **changes: Any) -> bytes:
    manifest = json.loads(members["manifest.json"]) | changes
    return _packed({**members, "manifest.json": json.dumps(manifest).encode()})


async def _refuse(tmp_path: Path, content: bytes, match: str | None = None, error: type[Exception] = StoreCorruptError) -> None:
    (tmp_path / "hostile.zip").write_bytes(content)
    with pytest.raises(error, match=match):
        await restore(on("sqlite", tmp_path / "victim"), tmp_path / "hostile.zip")
    assert not (tmp_path / "victim").exists()
    assert not [file for file in tmp_path.iterdir() if file.name.endswith(".tmp")]


async def test_members_by_other_names_are_refused(tmp_path: Path, archive: dict[str, bytes]) -> None:
    for name in ("../knowledge.db", "/etc/passwd", "C:\\knowledge.db", "knowledge.db/", "knowledge.db-wal"):
        await _refuse(tmp_path, _packed({**archive, name: b"x"}), "its members are")
        await _refuse(tmp_path, _packed({"manifest.json": archive["manifest.json"], name: b"x"}), "its members are")
    await _refuse(tmp_path, _packed({"manifest.json": archive["manifest.json"]}), "its members are")


async def test_links_are_refused(tmp_path: Path, archive: dict[str, bytes]) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("manifest.json", archive["manifest.json"])
        link = zipfile.ZipInfo("knowledge.db")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "/etc/passwd")
    await _refuse(tmp_path, target.getvalue(), "is no file")


async def test_what_would_unpack_to_far_more_is_refused(tmp_path: Path, archive: dict[str, bytes]) -> None:
    bomb = bytes(120_000_000)
    await _refuse(tmp_path, _packed({**archive, "knowledge.db": bomb}), "would unpack to 120000000 bytes")
    await _refuse(tmp_path, _packed({**archive, "manifest.json": bytes(2_000_000)}), "manifest is too large")


async def test_archives_that_lie_or_are_damaged_are_refused(tmp_path: Path, archive: dict[str, bytes]) -> None:
    good = _packed(archive, zipfile.ZIP_STORED)
    await _refuse(tmp_path, b"")
    await _refuse(tmp_path, b"PK\x03\x04 and nothing more")
    await _refuse(tmp_path, good[:-100])
    await _refuse(tmp_path, good.replace(b"SQLite format 3", b"SQLite format 4", 1))
    await _refuse(tmp_path, _packed(archive, zipfile.ZIP_LZMA), "packed in another way")
    await _refuse(tmp_path, _saying(archive, sha256="0" * 64), "is not what was put in")
    await _refuse(tmp_path, _saying(archive, bytes=1), "of another archive")
    await _refuse(tmp_path, _saying(archive, payload="../knowledge.db"), "of another archive")
    await _refuse(tmp_path, _saying(archive, format="another"), "of another program")
    await _refuse(tmp_path, _saying(archive, version="x"))
    await _refuse(tmp_path, _packed({**archive, "manifest.json": b"[]"}), "manifest cannot be read")
    await _refuse(tmp_path, _packed({**archive, "manifest.json": b"[" * 100_000}), "manifest cannot be read")
    lacking = {key: value for key, value in json.loads(archive["manifest.json"]).items() if key != "rows"}
    await _refuse(tmp_path, _packed({**archive, "manifest.json": json.dumps(lacking).encode()}), "lacks 'rows'")
    await _refuse(tmp_path, _saying(archive, version=2), "format 2, this library knows up to 1", StoreVersionError)
    with pytest.raises(NotFound):
        await restore(on("sqlite", tmp_path / "victim"), tmp_path / "nothing.zip")
    with pytest.raises(StorageError):
        await restore(on("sqlite", tmp_path / "victim"), tmp_path)


def _database(archive: Mapping[str, bytes], folder: Path, *statements: str) -> bytes:
    """An archive whose manifest fits a database that was tampered with."""
    path = folder / "tampered.db"
    path.write_bytes(archive["knowledge.db"])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    path.unlink()
    return _resealed(archive, content)


def _resealed(archive: Mapping[str, bytes], content: bytes) -> bytes:
    return _saying({**archive, "knowledge.db": content}, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


async def test_databases_that_are_not_ours_are_refused(tmp_path: Path, archive: dict[str, bytes]) -> None:
    harm = "CREATE TRIGGER harm AFTER INSERT ON kv BEGIN DELETE FROM vector; END"
    await _refuse(tmp_path, _database(archive, tmp_path, harm), "of somebody else")
    await _refuse(tmp_path, _database(archive, tmp_path, "CREATE VIEW harm AS SELECT 1"), "of somebody else")
    await _refuse(tmp_path, _database(archive, tmp_path, "PRAGMA application_id = 1"), "not a knowledge base")
    await _refuse(tmp_path, _database(archive, tmp_path, "PRAGMA user_version = 99"), "format 99", StoreVersionError)
    content = archive["knowledge.db"]
    torn = content[:8192] + bytes(8192) + content[16384:]
    await _refuse(tmp_path, _resealed(archive, torn))
    await _refuse(tmp_path, _resealed(archive, b""), "is empty")


def test_only_looking_writes_nothing(tmp_path: Path, archive: dict[str, bytes]) -> None:
    (tmp_path / "good.zip").write_bytes(_packed(archive))
    before = sorted(tmp_path.iterdir())
    assert read_archive(tmp_path / "good.zip", None).payload == "knowledge.db"
    assert sorted(tmp_path.iterdir()) == before
