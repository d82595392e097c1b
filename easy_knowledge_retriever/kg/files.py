"""Files that are never torn and never taken for what they are not, and the storages that keep one namespace in one of them."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import hashlib
import json
import logging
import os
import secrets
import shutil
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import aiofiles

from easy_knowledge_retriever.errors import StorageError, StorageNotOpenError, StoreCorruptError, StoreVersionError
from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.settings import Settings, check_slug

__all__ = ["FileStorage", "off_loop", "read_sealed", "write_atomically"]

logger = logging.getLogger("easy_knowledge_retriever")
T = TypeVar("T")

FORMAT = 1
SEAL = b',"digest":"%s"}\n'
"""Last member of a file: digest of all that stands before it, so that a file that was cut or changed is noticed."""
SEAL_LENGTH = len(SEAL) - len(b"%s") + 64
DEFAULT_DIR = Settings().working_dir
Json = Any


async def off_loop(function: Callable[[], T]) -> T:
    """Result of ``function``, run in a thread. A cancellation waits until the thread has ended, then goes on."""
    running = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled() and (failure := running.exception()):
            logger.warning("a cancelled file operation failed as well: %s", failure)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that a reader, or a start after a crash, finds the old bytes or the new ones.

    The bytes go to a temporary file in the same folder, which is synced and renamed; then the folder is synced.

    Raises:
        StorageError: The system refused; the old file is untouched.
    """
    temporary = path.with_name(f"{path.name}.tmp-{secrets.token_hex(8)}")
    try:
        _make_folder(path.parent)
        try:
            _write_synced(temporary, data, like=path)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as failure:
        raise StorageError(f"{str(path)!r} was not written: {failure}", hint=_room(path)) from failure


def remove_leftovers(path: Path) -> None:
    """Removes temporary files that a crash left beside a file."""
    with contextlib.suppress(OSError):
        for leftover in path.parent.glob(f"{path.name}.tmp-*"):
            leftover.unlink()


def seal(text: str) -> bytes:
    """A JSON object as the bytes of a file, with the digest of the object as its last member."""
    body = text[:-1].encode("ascii")
    return body + SEAL % hashlib.blake2b(body, digest_size=32).hexdigest().encode("ascii")


async def read_sealed(path: Path) -> bytes | None:
    """The JSON object in a file that :func:`seal` made, without its digest; None if there is no file.

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
    body = data[:-SEAL_LENGTH]
    digest = hashlib.blake2b(body, digest_size=32).hexdigest().encode("ascii")
    if data[-SEAL_LENGTH:] != SEAL % digest:
        raise corrupt(path, "its digest is not that of its content")
    return body + b"}"


def corrupt(path: Path, reason: str) -> StoreCorruptError:
    """The error for a file that cannot be used, and is kept."""
    return StoreCorruptError(f"{str(path)!r} is corrupt: {reason}", hint="put a backup in its place; the file was left as it is")


class FileStorage(Storage):
    """One namespace in memory and in one JSON file, which is replaced as a whole by ``flush`` if something changed.

    Reads never wait for the disk. Writes, searches in threads and the flush take turns.

    Args:
        working_dir: Folder of the files; the retriever's if not given, and ``./rag_storage`` without a retriever.
        workspace: Separates bases in one folder. One given here is kept whatever ``bind`` is told.
        embedding_func: Ignored with a warning: a storage does not embed.
    """

    kind: ClassVar[str]
    """First part of the file's name."""
    _open: bool
    _turn: asyncio.Lock
    _changes: int
    _saved: int

    def __init__(
        self, working_dir: str | os.PathLike[str] | None = None, workspace: str = "", embedding_func: object = None
    ) -> None:
        if embedding_func is not None:
            _warn_once(type(self).__name__)
        self._told_dir = working_dir is not None
        self._working_dir = Path(DEFAULT_DIR if working_dir is None else working_dir)
        self._own_workspace = check_slug(workspace)
        self._workspace = workspace
        self._namespace = ""
        self._start()

    def bind(self, namespace: str, workspace: str = "") -> Self:
        bound = copy.copy(self)
        bound._namespace = check_slug(namespace)
        bound._workspace = self._own_workspace or check_slug(workspace)
        bound._start()
        return bound

    def under(self, working_dir: str) -> Self:
        if self._told_dir:
            return self
        moved = copy.copy(self)
        moved._working_dir = Path(working_dir)
        moved._start()
        return moved

    @property
    def path(self) -> Path:
        """Where the rows are kept."""
        folder = self._working_dir
        if self._workspace:
            folder = folder / "workspaces" / hashlib.blake2b(self._workspace.encode(), digest_size=8).hexdigest()
        return folder / f"{self.kind}_{self._namespace}.json"

    async def open(self) -> None:
        if self._open:
            return
        path = self.path
        remove_leftovers(path)
        body = await read_sealed(path)
        if body is not None:
            await off_loop(lambda: self._restore_checked(path, body))
        self._open = True

    async def flush(self) -> None:
        self._require_open()
        async with self._turn:
            changes = self._changes
            if changes != self._saved:
                await off_loop(lambda: write_atomically(self.path, seal(self._sealed_text())))
                self._saved = changes

    async def close(self) -> None:
        if self._open:
            await self.flush()
            self._start()

    async def drop(self) -> None:
        async with self._writing():
            self._clear()

    @abstractmethod
    def _clear(self) -> None:
        """Forgets every row."""

    @abstractmethod
    def _text(self) -> str:
        """The rows as a JSON object of at least one member, in ASCII."""

    @abstractmethod
    def _restore(self, members: Json) -> None:
        """Takes the rows from the members :meth:`_text` wrote.

        Raises:
            AttributeError, LookupError, TypeError, ValueError: They are something else.
        """

    @contextlib.asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """Nobody else writes, flushes or searches. The block checks first, then changes the rows, and waits for nothing."""
        self._require_open()
        async with self._turn:
            yield
            self._changes += 1

    async def _searched(self, search: Callable[[], T]) -> T:
        """Result of a search that is too long for the event loop."""
        self._require_open()
        async with self._turn:
            return await off_loop(search)

    def _start(self) -> None:
        """Closed and empty; what a copy must not share with its original is made here."""
        self._open = False
        self._turn = asyncio.Lock()
        self._changes = 0
        self._saved = 0
        self._clear()

    def _require_open(self) -> None:
        if not self._open:
            raise StorageNotOpenError(f"{type(self).__name__} of {str(self.path)!r} is not open", hint="call open() first")

    def _header(self) -> dict[str, object]:
        return {"format": FORMAT, "kind": self.kind, "namespace": self._namespace, "workspace": self._workspace}

    def _sealed_text(self) -> str:
        return f"{json.dumps(self._header(), separators=(',', ':'))[:-1]},{self._text()[1:]}"

    def _restore_checked(self, path: Path, body: bytes) -> None:
        try:
            members = json.loads(body)
            found = members["format"]
            if found > FORMAT:
                raise StoreVersionError(f"{str(path)!r} has format {found!r}, newer than {FORMAT}", hint="update this library")
            header = self._header()
            if {name: members[name] for name in header} != header:
                raise corrupt(path, f"it belongs to {members['kind']!r} {members['namespace']!r} of {members['workspace']!r}")
            self._restore(members)
        except (AttributeError, LookupError, TypeError, ValueError) as failure:
            self._clear()
            raise corrupt(path, f"{failure!r} while it was read") from failure


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _write_synced(path: Path, data: bytes, like: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        with contextlib.suppress(FileNotFoundError):
            path.chmod(like.stat().st_mode & 0o7777)
        file.write(data)
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


@functools.cache
def _warn_once(storage: str) -> None:
    logger.warning("%s was given an embedding_func and ignores it: storages do not embed", storage)
