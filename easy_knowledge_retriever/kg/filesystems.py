"""Whether a folder is on a network file system, where locks and the order of writes cannot be relied on."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from easy_knowledge_retriever.errors import StorageError

__all__ = ["network_file_system", "refuse_network", "warn_of_network"]

logger = logging.getLogger("easy_knowledge_retriever")

_NETWORK: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.davfs2", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"}
)
_MOUNTS: Final = Path("/proc/self/mountinfo")


def network_file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The kind of network file system a folder is on; empty for a local one, or where the system does not tell.

    Args:
        folder: Absolute; it need not exist.
        mounts: What is mounted, in the format of Linux's ``mountinfo``.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = 0, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        place = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        if folder.is_relative_to(place) and len(place.parts) >= best:  # of two at one place the later one hides the other
            best, kind = len(place.parts), after.split()[0]
    return kind if kind in _NETWORK else ""


def warn_of_network(folder: Path) -> str:
    """The kind of network file system a folder is on, with a warning if it is on one.

    Args:
        folder: Absolute; it need not exist.
    """
    kind = network_file_system(folder)
    if kind:
        logger.warning("%s is on a network file system (%s): two processes may break what is there", folder, kind)
    return kind


def refuse_network(folder: Path, kind: str) -> None:
    """Refuses to write where nobody said that it may be done.

    Raises:
        StorageError: The folder is on a network file system.
    """
    if kind:
        raise StorageError(
            f"{str(folder)!r} is on a network file system ({kind}), where locks cannot be relied on",
            hint="move it to a local disk, or set allow_network_fs (--allow-network-fs) if one process at a time uses it",
        )
