"""Reads an archive of a backup, which somebody else may have made: two members by name, of the sizes and digests it says.

No name in it becomes a path, nothing in it is followed, and no more is unpacked than it says and there is room for.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Final

from easy_knowledge_retriever.errors import NotFound, StorageError, StoreCorruptError, StoreVersionError

__all__ = ["FORMAT", "MANIFEST", "PAYLOADS", "VERSION", "Manifest", "read_archive"]

FORMAT: Final = "easy-knowledge-retriever backup"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PAYLOADS: Final = ("knowledge.db", "base.jsonl")
_BLOCK: Final = 1 << 20
_LARGEST_MANIFEST: Final = 1 << 20
_RATIO, _SMALL = 200, 100_000_000
"""A member may unpack to so many times its size; one that stays below so many bytes, to any."""
_ENCRYPTED: Final = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself."""

    format: str
    version: int
    library: str
    """Version of the library that made it."""
    created_at: str
    payload: str
    bytes: int
    sha256: str
    rows: Mapping[str, int]


def read_archive(path: Path, target: Path | None) -> Manifest:
    """Reads all of an archive and compares it with what it says.

    Args:
        path: The archive.
        target: A new file that is given what it holds; None only checks. It is to be thrown away if this raises.

    Raises:
        NotFound: There is no such file.
        StoreCorruptError: It is no backup, is damaged, or would do harm.
        StoreVersionError: A newer version of this library made it.
        StorageError: It cannot be read, or there is no room for what it holds.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, path)
            manifest = _manifest(archive, path, members)
            _unpack(archive, path, members, manifest, target)
            return manifest
    except FileNotFoundError as failure:
        raise NotFound(f"there is no file {str(path)!r}") from failure
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as failure:
        raise _refused(path, str(failure)) from failure
    except OSError as failure:
        raise StorageError(f"{str(path)!r} cannot be restored: {failure}") from failure


def _refused(path: Path, why: str) -> StoreCorruptError:
    return StoreCorruptError(f"{str(path)!r} is no backup that can be restored: {why}", hint="nothing was restored")


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    found = archive.infolist()
    names = sorted(info.filename for info in found)
    if names not in [sorted((MANIFEST, payload)) for payload in PAYLOADS]:
        raise _refused(path, f"its members are {names[:5]}")
    for info in found:
        if info.flag_bits & _ENCRYPTED or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _refused(path, f"{info.filename!r} is encrypted or packed in another way")
        if stat.S_IFMT(info.external_attr >> 16) not in {0, stat.S_IFREG}:
            raise _refused(path, f"{info.filename!r} is no file")
        if info.file_size > max(_SMALL, _RATIO * info.compress_size):
            raise _refused(path, f"{info.filename!r} would unpack to {info.file_size} bytes")
    return {info.filename: info for info in found}


def _manifest(archive: zipfile.ZipFile, path: Path, members: Mapping[str, zipfile.ZipInfo]) -> Manifest:
    if members[MANIFEST].file_size > _LARGEST_MANIFEST:
        raise _refused(path, "its manifest is too large")
    with archive.open(MANIFEST) as file:
        text = file.read(_LARGEST_MANIFEST)
    try:
        said: dict[str, Any] = json.loads(text)
        ours, version = said["format"] == FORMAT, int(said["version"])
    except (KeyError, TypeError, RecursionError) as failure:
        raise _refused(path, f"its manifest cannot be read: {failure!r}") from failure
    if not ours:
        raise _refused(path, "it is of another program")
    if version > VERSION:
        raise StoreVersionError(
            f"{str(path)!r} has format {version}, this library knows up to {VERSION}",
            hint="upgrade easy-knowledge-retriever; nothing was restored",
        )
    try:
        manifest = Manifest(**{spec.name: said[spec.name] for spec in fields(Manifest)})
    except KeyError as failure:
        raise _refused(path, f"its manifest lacks {failure}") from failure
    if manifest.payload not in members or manifest.bytes != members[manifest.payload].file_size:
        raise _refused(path, "its manifest is of another archive")
    return manifest


def _unpack(
    archive: zipfile.ZipFile, path: Path, members: Mapping[str, zipfile.ZipInfo], manifest: Manifest, target: Path | None
) -> None:
    if target is not None and shutil.disk_usage(target.parent).free < manifest.bytes:
        raise StorageError(f"there is no room for the {manifest.bytes} bytes of {str(path)!r}", hint="nothing was restored")
    with archive.open(members[manifest.payload]) as source:
        if target is None:
            read, digest = _copied(source, None, manifest.bytes)
        else:
            with target.open("xb") as file:
                read, digest = _copied(source, file, manifest.bytes)
    if (read, digest) != (manifest.bytes, manifest.sha256):
        raise _refused(path, f"{manifest.payload!r} is not what was put in")


def _copied(source: IO[bytes], target: IO[bytes] | None, most: int) -> tuple[int, str]:
    """Bytes read and their digest; stops where there are more than there should be."""
    read, sha = 0, hashlib.sha256()
    while read <= most and (block := source.read(_BLOCK)):
        read += len(block)
        sha.update(block)
        if target is not None:
            target.write(block)
    return read, sha.hexdigest()
