"""Mails: who wrote to whom, what was said, what was quoted, and what is attached."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final

from easy_knowledge_retriever.errors import MissingExtraError, ParseError
from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.mail.parts import Reader, attached_pieces, said_pieces
from easy_knowledge_retriever.parsing.pieces import Piece, assembled
from easy_knowledge_retriever.parsing.web.charset import decoded
from easy_knowledge_retriever.parsing.web.html import html_pieces
from easy_knowledge_retriever.text.cleaning import one_line

__all__ = ["EmlParser"]

_SHOWN: Final = ("From", "To", "Cc", "Date", "Subject")
_DEEPEST: Final = 3
"""Mails attached to mails."""
_DEEPEST_PARTS: Final = 20
"""Parts that hold parts."""
_MOST_ATTACHMENTS: Final = 100


class EmlParser(DocumentParser):
    """A mail and everything attached to it as one document, each attachment under its name.

    The plain text is preferred to the HTML. The pages of an attachment are not pages of the mail, so they are not kept. What
    cannot be read of it is a warning.

    Args:
        reader: Finds the parsers of attachments.
    """

    name = "eml"
    version = "1"
    suffixes = (".eml",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def parsed(self, source: Source) -> Parsed:
        warnings: list[str] = []
        mail = message_from_bytes(source.content, policy=policy.default)
        pieces = list(self._mail(mail, warnings, 0))
        return assembled(pieces, title=_header(mail, "Subject"), warnings=warnings)

    def _mail(self, mail: EmailMessage, warnings: list[str], depth: int) -> Iterator[Piece]:
        head = [f"{name}: {said}" for name in _SHOWN if (said := _header(mail, name))]
        if head:
            yield Piece("text", "\n".join(head))
        bodies = [body for kind in ("plain", "html") if isinstance(body := mail.get_body((kind,)), EmailMessage)]
        yield from next((pieces for body in bodies if (pieces := list(_body(body, warnings)))), [])
        # a mail may be nothing but one attachment
        attached = [mail] if not bodies and not mail.is_multipart() else list(_attachments(mail, 0))
        for part in attached[:_MOST_ATTACHMENTS]:
            yield from self._attachment(part, warnings, depth)
        if len(attached) > _MOST_ATTACHMENTS:
            warnings.append(f"only the first {_MOST_ATTACHMENTS} of {len(attached)} attachments were read")

    def _attachment(self, part: EmailMessage, warnings: list[str], depth: int) -> Iterator[Piece]:
        name = one_line(part.get_filename() or "") or f"attached {part.get_content_type()}"
        try:
            pieces = list(self._attached(part, name, warnings, depth))
        except (ParseError, MissingExtraError) as error:
            warnings.append(f"{name!r} was left out: {error.message}")
            return
        if pieces:
            yield Piece("heading", name, level=1)
            yield from pieces

    def _attached(self, part: EmailMessage, name: str, warnings: list[str], depth: int) -> Iterator[Piece]:
        if part.get_content_type() == "message/rfc822":
            if depth >= _DEEPEST:
                raise ParseError(f"{name!r} is a mail in a mail in a mail", code="too_large")
            for mail in part.iter_parts():
                if isinstance(mail, EmailMessage):
                    yield from self._mail(mail, warnings, depth + 1)
            return
        content = part.get_payload(decode=True)
        yield from attached_pieces(self._reader, name, content if isinstance(content, bytes) else b"", warnings)


def _attachments(mail: EmailMessage, depth: int) -> Iterator[EmailMessage]:
    """All of them, also those in parts that only hold others."""
    for part in mail.iter_attachments() if depth < _DEEPEST_PARTS else ():
        if isinstance(part, EmailMessage) and part.get_content_maintype() == "multipart":
            yield from _attachments(part, depth + 1)
        elif isinstance(part, EmailMessage):
            yield part


def _body(body: EmailMessage, warnings: list[str]) -> Iterator[Piece]:
    content = body.get_payload(decode=True)
    read = decoded(content if isinstance(content, bytes) else b"", "the mail", body.get_content_charset() or "")
    warnings += read.warnings
    yield from html_pieces(read.text) if body.get_content_subtype() == "html" else said_pieces(read.text)


def _header(mail: EmailMessage, name: str) -> str:
    """A line of the head, on one line. One that the standard library stumbles over is taken as it stands."""
    try:
        said = str(mail.get(name, ""))
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):
        said = next((str(value) for key, value in mail.raw_items() if key.lower() == name.lower()), "")
    return one_line(said)
