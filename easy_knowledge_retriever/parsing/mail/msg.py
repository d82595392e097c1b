"""Mails that Outlook keeps, as [MS-OXMSG] describes them."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from easy_knowledge_retriever.errors import MissingExtraError, ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.mail.parts import Reader, attached_pieces, said_pieces
from easy_knowledge_retriever.parsing.pieces import Piece, assembled
from easy_knowledge_retriever.parsing.web.charset import decoded
from easy_knowledge_retriever.parsing.web.html import html_pieces
from easy_knowledge_retriever.text.cleaning import clean

__all__ = ["MsgParser"]

_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP, _TO, _CC = "0C1A", "0C1F", "5D01", "0E04", "0E03"
_SENT: Final = 0x00390040
"""When it was sent, with its type."""
_DATA, _LONG_NAME, _SHORT_NAME = "3701", "3707", "3704"
_ATTACHED: Final = "__attach_version1.0_"
_INNER: Final = "__substg1.0_3701000D"
"""A mail that is attached to a mail."""
_HEAD, _INNER_HEAD = 32, 24
"""Bytes before the properties of a fixed length: of the mail itself, and of one that is attached."""
_FIRST_DAY: Final = datetime(1601, 1, 1, tzinfo=UTC)
_LAST_TICK: Final = 1 << 61
"""Of a tenth of a microsecond each, well within what a date can be."""
_DEEPEST: Final = 3
_MOST_ATTACHMENTS: Final = 100
_MOST_BYTES: Final = 256 << 20
"""Of one property."""


class MsgParser(DocumentParser):
    """A mail and everything attached to it as one document, as for ``.eml``. A body that is only rich text is not read.

    Args:
        reader: Finds the parsers of attachments.
    """

    name = "msg"
    version = "1"
    suffixes = (".msg",)
    needs = MappingProxyType({"olefile": "olefile"})

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def parsed(self, source: Source) -> Parsed:
        import olefile  # noqa: PLC0415  # an optional package

        warnings: list[str] = []

        with olefile.OleFileIO(io.BytesIO(source.content)) as mail:
            pieces = list(self._mail(_Properties(mail, ()), warnings, 0))
            title = _Properties(mail, ()).text(_SUBJECT)
        return assembled(pieces, title=" ".join(title.split()), warnings=warnings)

    def _mail(self, mail: _Properties, warnings: list[str], depth: int) -> Iterator[Piece]:
        address = mail.text(_SENDER_SMTP) or mail.text(_SENDER_ADDRESS)
        sender = f"{mail.text(_SENDER)} <{address}>" if address else mail.text(_SENDER)
        shown = {
            "From": sender,
            "To": mail.text(_TO),
            "Cc": mail.text(_CC),
            "Date": mail.time(_SENT),
            "Subject": mail.text(_SUBJECT),
        }
        head = [f"{name}: {' '.join(said.split())}" for name, said in shown.items() if said.strip()]
        if head:
            yield Piece("text", "\n".join(head))
        body, html = mail.text(_BODY), mail.raw(_HTML)
        if body.strip():
            yield from said_pieces(body)
        elif html:
            page = decoded(html, "the mail")
            warnings += page.warnings
            yield from html_pieces(page.text)
        elif mail.raw(_RTF):
            warnings.append("the text of the mail is only there as rich text, which is not read: save it as .eml")
        attached = mail.attached()
        for part in attached[:_MOST_ATTACHMENTS]:
            yield from self._attachment(part, warnings, depth)
        if len(attached) > _MOST_ATTACHMENTS:
            warnings.append(f"only the first {_MOST_ATTACHMENTS} of {len(attached)} attachments were read")

    def _attachment(self, part: _Properties, warnings: list[str], depth: int) -> Iterator[Piece]:
        inner = part.below(_INNER)
        name = " ".join((part.text(_LONG_NAME) or part.text(_SHORT_NAME)).split()) or "attached mail"
        if inner is not None and depth >= _DEEPEST:
            warnings.append(f"{name!r} was left out: it is a mail in a mail in a mail")
            return
        try:
            pieces = list(
                attached_pieces(self._reader, name, part.raw(_DATA), warnings)
                if inner is None
                else self._mail(inner, warnings, depth + 1)
            )
        except (ParseError, MissingExtraError) as error:
            warnings.append(f"{name!r} was left out: {error.message}")
            return
        if pieces:
            yield Piece("heading", name, level=1)
            yield from pieces


class _Properties:
    """The properties of a mail or of an attachment.

    Args:
        file: The whole file.
        path: Where they are kept in it.
    """

    def __init__(self, file: Any, path: tuple[str, ...]) -> None:
        self._file = file
        self._path = path

    def text(self, tag: str) -> str:
        """A property that is text; empty if there is none."""
        wide = self._stream(f"{tag}001F")
        return clean(wide.decode("utf-16-le", "replace")).text if wide else decoded(self._stream(f"{tag}001E"), "the mail").text

    def raw(self, tag: str) -> bytes:
        """A property that is bytes; empty if there is none."""
        return self._stream(f"{tag}0102")

    def time(self, tag: int) -> str:
        """A property that is a time, as ISO 8601 in UTC; empty if there is none."""
        rows = self._read("__properties_version1.0")
        for at in range(_INNER_HEAD if self._path else _HEAD, len(rows) - 15, 16):
            found, _, ticks = struct.unpack_from("<IIQ", rows, at)
            if found == tag and ticks < _LAST_TICK:
                return (_FIRST_DAY + timedelta(microseconds=ticks // 10)).isoformat(" ", "seconds")
        return ""

    def attached(self) -> list[_Properties]:
        """The attachments, in the order of their numbers."""
        depth = len(self._path)
        found = {tuple(entry[: depth + 1]) for entry in self._file.listdir() if tuple(entry[:depth]) == self._path}
        return [_Properties(self._file, path) for path in sorted(found) if path[-1].startswith(_ATTACHED)]

    def below(self, storage: str) -> _Properties | None:
        """What a storage holds, if it is there."""
        path = (*self._path, storage)
        return _Properties(self._file, path) if self._file.get_type(list(path)) == 1 else None

    def _stream(self, tag: str) -> bytes:
        return self._read(f"__substg1.0_{tag}")

    def _read(self, name: str) -> bytes:
        path = [*self._path, name]
        if self._file.get_type(path) != 2 or self._file.get_size(path) > _MOST_BYTES:
            return b""
        with self._file.openstream(path) as stream:
            return bytes(stream.read())
