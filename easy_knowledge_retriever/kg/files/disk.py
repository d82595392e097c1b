"""Files that are never torn and never taken for what they are not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import aiofiles

from easy_knowledge_retriever.errors import StorageError, StoreCorruptError

__all__ = [
    "TEMPORARY",
    "append",
    "corrupt",
    "cut",
    "make_folder",
    "off_loop",
    "read_from",
    "read_sealed",
    "refused",
    "sealed",
    "sync",
    "write_atomically",
]

logger = logging.getLogger("easy_knowledge_retriever")
T = TypeVar("T")

TEMPORARY = ".tmp-"
"""In the name of a file that is being written."""
SEAL = b',"digest":"%s"}\n'
"""Last member of a file: digest of all that stands before it, so that a file that was cut or changed is noticed."""
SEAL_LENGTH = len(SEAL) - len(b"%s") + 64
_BINARY = getattr(os, "O_BINARY", 0)


async def off_loop(function: Callable[[], T]) -> T:
    """Result of ``function``, run in a thread. A cancellation waits until the thread has ended, then goes on."""
    running = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):  # the first one is raised when this is over
                await asyncio.wait([running])
        if not running.cancelled() and (failure := running.exception()):
            logger.warning("a cancelled file operation failed as well: %s", failure)
        raise


def write_atomically(path: Path, pieces: Iterable[bytes]) -> None:
    """Replaces a file so that a reader, or a start after a crash, finds the old bytes or the new ones.

    The bytes go to a temporary file in the same folder, which is synced and renamed; then the folder is synced.

    Args:
        path: The file.
        pieces: Its bytes, in order.

    Raises:
        OSError: The system refused; the old file is untouched.
    """
    temporary = path.with_name(f"{path.name}{TEMPORARY}{secrets.token_hex(8)}")
    make_folder(path.parent)
    try:
        _write_synced(temporary, pieces, like=path)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def append(path: Path, data: bytes, *, durable: bool, before_sync: Callable[[], None]) -> None:
    """Adds bytes to the end of a file that exists; if that fails, takes them away again where the system lets it.

    Args:
        path: The file.
        data: The bytes.
        durable: Whether they are on the disk when this returns.
        before_sync: Called between writing and syncing.

    Raises:
        OSError: The system refused.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY)
    try:
        length = os.fstat(descriptor).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            before_sync()
            if durable:
                os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, length)
            raise
    finally:
        os.close(descriptor)


def cut(path: Path, length: int) -> None:
    """Takes away what a file has after ``length`` bytes.

    Raises:
        OSError: The system refused.
    """
    descriptor = os.open(path, os.O_WRONLY | _BINARY)
    try:
        os.ftruncate(descriptor, length)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Makes what was added to a file durable.

    Raises:
        OSError: The system refused.
    """
    descriptor = os.open(path, os.O_WRONLY | _BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_from(path: Path, start: int) -> bytes | None:
    """What a file has from ``start`` on; None if there is no file.

    Raises:
        StorageError: The system refused to read it.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise StorageError(f"{str(path)!r} cannot be read: {failure}") from failure


def sealed(pieces: Iterable[str]) -> Iterator[bytes]:
    """A JSON object, in pieces of ASCII, as the bytes of a file with the digest of the object as its last member."""
    digest = hashlib.blake2b(digest_size=32)
    held = b""
    for piece in pieces:
        digest.update(held)
        yield held
        held = piece.encode("ascii")
    held = held[:-1]  # the closing brace comes after the seal
    digest.update(held)
    yield held
    yield SEAL % digest.hexdigest().encode("ascii")


async def read_sealed(path: Path) -> bytes | None:
    """The JSON object in a file of :func:`sealed` bytes, without its digest; None if there is no file.

    Raises:
        StoreCorruptError: The file is not what was written. It stays as it is.
        StorageError: The system refused to read it.
    """
    try:
        async with aiofiles.open(path, "rb") as file:
            data = await file.read()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise StorageError(f"{str(path)!r} cannot be read: {failure}") from failure
    return await off_loop(lambda: _unsealed(path, data))


def corrupt(path: Path, reason: str) -> StoreCorruptError:
    """The error for a file that cannot be used, and is kept."""
    return StoreCorruptError(f"{str(path)!r} is corrupt: {reason}", hint="put a backup in its place; the file was left as it is")


def refused(path: Path, failure: OSError) -> StorageError:
    """The error for a file that the system did not let be written."""
    return StorageError(f"{str(path)!r} was not written: {failure}", hint=_room(path))


def make_folder(folder: Path) -> None:
    """Creates a folder and those above it, for good.

    Raises:
        OSError: The system refused.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _unsealed(path: Path, data: bytes) -> bytes:
    end = max(len(data) - SEAL_LENGTH, 0)
    digest = hashlib.blake2b(memoryview(data)[:end], digest_size=32).hexdigest().encode("ascii")
    if data[end:] != SEAL % digest:
        raise corrupt(path, "its digest is not that of its content")
    return data[:end] + b"}"


def _write_synced(path: Path, pieces: Iterable[bytes], like: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        with contextlib.suppress(FileNotFoundError):
            path.chmod(like.stat().st_mode & 0o7777)
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be synced there; the rename is in the journal of the file system
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _room(path: Path) -> str:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    return f"{shutil.disk_usage(folder).free} bytes are free in {str(folder)!r}; what was written before is untouched"
