"""The journal of a folder: its commits since the last snapshots, one record each, whole or not there.

A record is a mark, its length, how much of the journal was known to be on the disk when it was written, a digest, and JSON in
ASCII, in which the mark never occurs. The digest covers the generation and the place of the record too, so that a record that
was moved, repeated or left from another journal is none.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Record", "damaged", "packed", "records"]

_MARK = b"EKR\x1e"
_HEAD = struct.Struct("<4sQQ16s")


@dataclass(frozen=True, slots=True)
class Record:
    """One commit."""

    payload: bytes
    synced: int
    """So much of the journal was on the disk before it was written."""
    end: int
    """Where the next record begins."""


def packed(payload: bytes, generation: int, start: int, synced: int) -> bytes:
    """The bytes of a record.

    Args:
        payload: JSON in ASCII.
        generation: Of the journal.
        start: Where in the journal the record will stand.
        synced: How much of the journal is known to be on the disk.
    """
    return _HEAD.pack(_MARK, len(payload), synced, _digest(payload, generation, start, synced)) + payload


def records(data: bytes, generation: int, start: int) -> Iterator[Record]:
    """The records at the beginning of ``data``, up to the first bytes that are none.

    Args:
        data: The journal from ``start`` on.
        generation: Of the journal.
        start: Where in the journal it begins.
    """
    place = 0
    while record := _record(data, place, generation, start):
        yield record
        place = record.end - start


def damaged(data: bytes, generation: int, start: int) -> bool:
    """Whether ``data``, which begins with no record, was on the disk once: a later record says so.

    Otherwise it is what a crash left of a record that nobody was told of.

    Args:
        data: The journal from ``start`` on.
        generation: Of the journal.
        start: Where in the journal it begins.
    """
    place = data.find(_MARK, 1)
    while place >= 0:
        record = _record(data, place, generation, start)
        if record and record.synced > start:
            return True
        place = data.find(_MARK, place + 1)
    return False


def _record(data: bytes, place: int, generation: int, start: int) -> Record | None:
    body = place + _HEAD.size
    if len(data) < body:
        return None
    mark, length, synced, digest = _HEAD.unpack_from(data, place)
    if mark != _MARK or length > len(data) - body:
        return None
    payload = data[body : body + length]
    if _digest(payload, generation, start + place, synced) != digest:
        return None
    return Record(payload, synced, start + body + length)


def _digest(payload: bytes, generation: int, start: int, synced: int) -> bytes:
    return hashlib.blake2b(
        payload, digest_size=16, salt=struct.pack("<QQ", generation, start), person=struct.pack("<Q", synced)
    ).digest()
