"""Claims: locks with a name that every process sees and that die with their holder.

A claim locks one byte, at a place that is a digest of its name, of one small file of the folder. The system frees it when the
process ends, however it ends, and a forked child does not have it. Where nobody locks, the same file says who holds what,
for the message to those who wait.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from easy_knowledge_retriever.errors import StorageError, WorkingDirLockedError
from easy_knowledge_retriever.kg.turns import turns_for

__all__ = ["FILE_NAME", "Holder", "folder_claim", "holder_of", "process_claim"]

logger = logging.getLogger("easy_knowledge_retriever")

FILE_NAME: Final = "claims"
"""In the folder whose claims it holds. May be deleted while no process has the folder open."""
_LOCKS_FROM: Final = 1 << 40
"""Locked bytes lie behind everything that is written."""
_RECORD: Final = 256
_RECORDS: Final = 4096
_BEAT: Final = 0.25
"""Seconds between two signs of life of a holder."""
_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.02

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

    def _unlock(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a claim."""

    process: int
    host: str
    command: str
    since: str
    """ISO 8601, UTC."""

    def __str__(self) -> str:
        return f"process {self.process} ({self.command!r}) on {self.host}, since {self.since}"


@dataclass(slots=True, eq=False)
class _File:
    """The file of a folder, open while this process holds a claim there or tries to.

    It is opened once a process: to close it a second time would let go of every lock of the process.
    """

    path: Path
    number: int
    node: tuple[int, int]
    users: int = 0


_files: Final[dict[tuple[int, Path], _File]] = {}
_opening: Final = threading.Lock()


@asynccontextmanager
async def process_claim(key: Hashable, name: str, *, wait: float | None = None) -> AsyncIterator[bool]:
    """A claim that the tasks and threads of this process see; yields whether it was got.

    Args:
        key: Of the store.
        name: What is claimed.
        wait: Seconds; as long as it takes if not given, 0 tries once.
    """
    async with turns_for((key, name)).turn(wait) as got:
        yield got


@asynccontextmanager
async def folder_claim(folder: Path, name: str, *, wait: float | None = None, patience: float = 10.0) -> AsyncIterator[bool]:
    """A claim that every process on this machine sees; yields whether it was got.

    Args:
        folder: Where the storages keep their files. It exists.
        name: What is claimed.
        wait: Seconds; as long as its holder shows signs of life if not given, 0 tries once.
        patience: Seconds that a holder may be without a sign of life.

    Raises:
        WorkingDirLockedError: The holder, in another process, is stuck.
        StorageError: The file system cannot lock.
    """
    ends = None if wait is None else time.monotonic() + wait
    claim = _Claim(folder / FILE_NAME, name)
    async with turns_for((claim.path, name)).turn(wait) as ours:
        if not ours:
            yield False
            return
        claim.enter()
        try:
            if not await _got(claim, ends, max(patience, 4 * _BEAT)):
                yield False
                return
            beat = _Beat(claim)
            try:
                yield True
            finally:
                beat.stop()
        finally:
            claim.leave()


def holder_of(folder: Path, name: str) -> Holder | None:
    """Who said last that it holds a claim; ask only while somebody has it.

    Args:
        folder: Where the storages keep their files.
        name: What is claimed.
    """
    claim = _Claim(folder / FILE_NAME, name)
    try:
        claim.enter()
    except StorageError:
        return None
    try:
        return claim.holder()
    finally:
        claim.leave()


async def _got(claim: _Claim, ends: float | None, patience: float) -> bool:
    began = time.monotonic()
    pause, sign, seen, told = _PAUSE, b"", began, False
    while not claim.take():
        now = time.monotonic()
        if ends is not None and now >= ends:
            return False
        if sign != (there := claim.sign()):
            sign, seen = there, now
        elif ends is None and now - seen > patience:
            raise _stuck(claim, now - seen)
        if ends is None and not told and now - began > patience:
            logger.warning("waiting for %r of %s: %s has it", claim.name, claim.path.parent, claim.holder() or "another process")
            told = True
        await asyncio.sleep(pause if ends is None else max(0.0, min(pause, ends - now)))
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


def _stuck(claim: _Claim, waited: float) -> WorkingDirLockedError:
    holder = claim.holder() or "another process"
    return WorkingDirLockedError(
        f"{holder}, holds {claim.name!r} of {str(claim.path.parent)!r} and has shown no sign of life for {waited:.1f} s",
        hint="wait for it to go on or end it; a lock ends with its process",
    )


class _Claim:
    """One claim of one task."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:7], "big") >> 1
        self._place = _LOCKS_FROM + number
        self._record = number % _RECORDS * _RECORD
        self._file: _File | None = None
        self._since = ""

    def enter(self) -> None:
        """Opens the file if nobody in this process has it open."""
        try:
            with _opening:
                self._file = _opened(self.path)
                self._file.users += 1
        except OSError as error:
            raise StorageError(f"cannot open {str(self.path)!r}: {error}", hint="may the folder be written to?") from error

    def leave(self) -> None:
        """Lets go of the claim, and closes the file if nobody else in this process has it open."""
        file, self._file = self._file, None
        if file is None:
            return
        with _opening:
            if self._since:
                _unlock(file.number, self._place)
            file.users -= 1
            if not file.users:
                os.close(file.number)
                if _files.get((os.getpid(), self.path)) is file:
                    del _files[os.getpid(), self.path]

    def take(self) -> bool:
        """Whether it could be got now."""
        if self._file is None or not _still_there(self._file):  # deleted: others would lock another file
            self.leave()
            self.enter()
        try:
            with _opening:
                _lock(self._number, self._place)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
                return False
            raise StorageError(
                f"{str(self.path)!r} cannot be locked: {error}", hint="keep the working_dir on a file system with locks"
            ) from error
        self._since = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.beat()
        return True

    def beat(self) -> None:
        """Says who holds it, and that it is alive."""
        line = json.dumps([self.name[:32], os.getpid(), socket.gethostname()[:32], self._since, time.monotonic_ns(), _command()])
        with _opening, suppress(OSError):  # a full disk must not keep anyone from working
            os.lseek(self._number, self._record, os.SEEK_SET)
            os.write(self._number, line.encode().ljust(_RECORD)[:_RECORD])

    def sign(self) -> bytes:
        """What the holder said last: other bytes whenever it is alive."""
        with _opening, suppress(OSError):
            os.lseek(self._number, self._record, os.SEEK_SET)
            return os.read(self._number, _RECORD)
        return b""

    def holder(self) -> Holder | None:
        """Who holds it, if it could say so."""
        try:
            name, process, host, since, _, command = json.loads(self.sign())
        except ValueError:
            return None
        return Holder(process, host, command, since) if name == self.name[:32] else None

    @property
    def _number(self) -> int:
        if self._file is None:
            raise StorageError(f"{str(self.path)!r} is not open")
        return self._file.number


def _opened(path: Path) -> _File:
    """The file, which is created if it is missing. A second opening, once closed, would let go of all locks of the process."""
    key = (os.getpid(), path)
    file = _files.get(key)
    if file is None or not _still_there(file):
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        number = os.open(path, flags, 0o666)
        file = _files[key] = _File(path, number, _node(os.fstat(number)))
    return file


def _still_there(file: _File) -> bool:
    try:
        return _node(file.path.stat()) == file.node
    except OSError:
        return False


def _node(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


@functools.cache
def _command() -> str:
    return " ".join(sys.orig_argv)[:80]


class _Beat:
    """Signs of life of a holder, for as long as its event loop runs."""

    def __init__(self, claim: _Claim) -> None:
        self._claim = claim
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(_BEAT, self._again)

    def _again(self) -> None:
        self._claim.beat()
        self._next = self._loop.call_later(_BEAT, self._again)

    def stop(self) -> None:
        """No more."""
        self._next.cancel()
