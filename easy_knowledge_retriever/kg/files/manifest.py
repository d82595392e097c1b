"""The manifest of a folder: which snapshots and which journal make up the state. It is renamed into place last."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from easy_knowledge_retriever.errors import StoreVersionError
from easy_knowledge_retriever.kg.files.disk import TEMPORARY, corrupt, read_sealed, sealed, write_atomically

__all__ = ["FORMAT", "MANIFEST", "Manifest", "Sign", "read_manifest", "sign_of", "unneeded", "write_manifest"]

FORMAT = 2
"""1 had no journal: every namespace was one file, which is read as a snapshot."""
MANIFEST = "manifest.json"
Sign = tuple[int, int, int] | None
"""What tells that a file is another one or was written to; None if there is none."""
_SNAPSHOT = re.compile(r"((?:kv|status|vectors|bm25|graph)_[A-Za-z0-9_-]*)(\.[0-9]+)?\.json")
_JOURNAL = re.compile(r"journal-[0-9]+\.log")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a folder. Generation 0 is a folder without a manifest."""

    generation: int = 0
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """``kind_namespace`` → file."""
    after: tuple[int, int] = (-1, 0)
    """Generation and length of the journal that ended with it: who had read so far has nothing to read anew."""

    @property
    def journal(self) -> str:
        """Its file."""
        return f"journal-{self.generation}.log"


def sign_of(path: Path) -> Sign:
    """The sign of a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


async def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Where there is none, the files of format 1 count as its snapshots.

    Args:
        folder: May be absent.

    Raises:
        StoreCorruptError: It is not what was written.
        StoreVersionError: A newer library wrote it.
        StorageError: It cannot be read.
    """
    path = folder / MANIFEST
    body = await read_sealed(path)
    if body is None:
        return Manifest(0, {match[1]: name for name, match in _matching(folder, _SNAPSHOT) if not match[2]})
    try:
        members = json.loads(body)
        if members["format"] > FORMAT:
            raise StoreVersionError(
                f"{str(path)!r} has format {members['format']!r}, newer than {FORMAT}", hint="update this library"
            )
        generation, length = members["after"]
        return Manifest(members["generation"], dict(members["snapshots"]), (generation, length))
    except (AttributeError, LookupError, TypeError, ValueError) as failure:
        raise corrupt(path, f"{failure!r} while it was read") from failure


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Makes a state the one of the folder.

    Args:
        folder: Where its files are.
        manifest: The state.

    Raises:
        OSError: The system refused; the state is the old one or this one.
    """
    members = {
        "format": FORMAT,
        "generation": manifest.generation,
        "snapshots": manifest.snapshots,
        "after": manifest.after,
    }
    write_atomically(folder / MANIFEST, sealed([json.dumps(members, separators=(",", ":"))]))


def unneeded(folder: Path, manifest: Manifest) -> list[Path]:
    """Files of earlier states, and what a crash left. To be asked by who may write only.

    Args:
        folder: Where the files are.
        manifest: The state.
    """
    needed = {manifest.journal, *manifest.snapshots.values()}
    ours = [name for pattern in (_SNAPSHOT, _JOURNAL) for name, _ in _matching(folder, pattern) if name not in needed]
    return [folder / name for name in ours] + [folder / name for name in _names(folder) if TEMPORARY in name]


def _matching(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    return ((name, match) for name in _names(folder) if (match := pattern.fullmatch(name)))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 — names only
    except FileNotFoundError:
        return []
