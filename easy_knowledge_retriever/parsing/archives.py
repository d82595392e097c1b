"""What is asked of a ZIP archive before anything of it is read: office files and books are archives too."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from easy_knowledge_retriever.errors import ParseError

__all__ = ["opened"]

_MOST_MEMBERS: Final = 10_000
_MOST_BYTES: Final = 512 << 20
"""Of all members, unpacked."""
_RATIO: Final = 100
"""Unpacked bytes a packed one may stand for, once there are more than :data:`_SMALL`."""
_SMALL: Final = 16 << 20


def opened(content: bytes, name: str) -> zipfile.ZipFile:
    """An archive whose members may be read one by one. No member is ever written under the name it has in the archive.

    The sizes are those the archive states; a member that holds more than it states ends there.

    Args:
        content: The archive.
        name: Name of the file, for messages.

    Raises:
        ParseError: ``corrupt``: it is no archive or its members overlap; ``encrypted``; ``too_large``: unpacked it would be a
            flood.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise ParseError(f"{name!r} is damaged or cut: {error}", code="corrupt", hint="fetch or export it again") from error
    if any(member.flag_bits & 1 for member in members):
        raise ParseError(
            f"{name!r} is encrypted: a password is needed",
            code="encrypted",
            hint="save a copy without a password and ingest that",
        )
    packed, unpacked = sum(member.compress_size for member in members), sum(member.file_size for member in members)
    if packed > len(content):
        raise ParseError(f"members of {name!r} overlap", code="corrupt", hint="this is how bombs are made; do not open it")
    if len(members) > _MOST_MEMBERS or unpacked > _MOST_BYTES or unpacked > max(_SMALL, _RATIO * packed):
        raise ParseError(
            f"{name!r} unpacks to {len(members)} members of {unpacked >> 20} MiB, which is more than is read",
            code="too_large",
            hint=f"at most {_MOST_MEMBERS} members, {_MOST_BYTES >> 20} MiB and {_RATIO} times the packed size",
        )
    return archive
