"""Mails of Outlook, whose container another package reads: a double of it holds their properties."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

import olefile
import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import PARSERS, Source
from easy_knowledge_retriever.types import Document

OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ATTACHED, INNER = "__attach_version1.0_#0000000", "__substg1.0_3701000D"


class Container:
    """Streams by path, as olefile gives them."""

    def __init__(self, streams: Mapping[tuple[str, ...], bytes]) -> None:
        self._streams = streams

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def listdir(self) -> list[list[str]]:
        return [list(path) for path in self._streams]

    def get_type(self, path: list[str]) -> int | bool:
        if tuple(path) in self._streams:
            return 2
        return 1 if any(tuple(path) == there[: len(path)] for there in self._streams) else False

    def get_size(self, path: list[str]) -> int:
        return len(self._streams[tuple(path)])

    def openstream(self, path: list[str]) -> io.BytesIO:
        return io.BytesIO(self._streams[tuple(path)])


def _properties(*above: str, **said: str | bytes) -> dict[tuple[str, ...], bytes]:
    """Streams of properties below a path: text as UTF-16, bytes as they are."""
    kept = {}
    for tag, value in said.items():
        kind, content = ("001F", value.encode("utf-16-le")) if isinstance(value, str) else ("0102", value)
        kept[(*above, f"__substg1.0_{tag.removeprefix('p')}{kind}")] = content
    return kept


def _parsed(monkeypatch: pytest.MonkeyPatch, streams: Mapping[tuple[str, ...], bytes]) -> Document:
    monkeypatch.setattr(olefile, "OleFileIO", lambda file: Container(streams))
    return PARSERS[".msg"].parse(Source("a.msg", OLD))


def _blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


HEAD: dict[str, Any] = {"p0037": "The Kell", "p0C1A": "Ida", "p5D01": "ida@example.com", "p0E04": "Mira"}


def test_head_text_quotes_and_attachments(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {
        **_properties(**HEAD, p1000="It flows.\r\n\r\n> Does it?"),
        **_properties(f"{ATTACHED}1", p3707="towns.md", p3701=b"# Towns\n\nVerdel"),
        **_properties(f"{ATTACHED}0", p3704="x.bin", p3701=b"\x00"),
        **_properties(f"{ATTACHED}2", INNER, p0037="Inner", p1000="Inside."),
        ("__nameid_version1.0", "__substg1.0_00020102"): b"",
    }
    document = _parsed(monkeypatch, streams)
    assert document.title == "The Kell"
    assert _blocks(document) == [
        ("text", "From: Ida <ida@example.com>\nTo: Mira\nSubject: The Kell"),
        ("text", "It flows."),
        ("quote", "> Does it?"),
        ("heading", "towns.md"),
        ("heading", "# Towns"),
        ("text", "Verdel"),
        ("heading", "attached mail"),
        ("text", "Subject: Inner"),
        ("text", "Inside."),
    ]
    assert document.warnings == ("'x.bin' was left out: there is no parser for '.bin'",)


def test_when_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = int((datetime(2026, 1, 2, 3, 4, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
    rows = struct.pack("<IIQ", 0x00170003, 6, 1) + struct.pack("<IIQ", 0x00390040, 6, ticks)
    streams = {**_properties(p1000="It flows."), ("__properties_version1.0",): bytes(32) + rows}
    assert _parsed(monkeypatch, streams).text == "Date: 2026-01-02 03:04:00+00:00\n\nIt flows."


def test_html_where_there_is_no_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _blocks(_parsed(monkeypatch, _properties(p1013=b"<h1>Kell</h1><p>It flows."))) == [
        ("heading", "Kell"),
        ("text", "It flows."),
    ]


def test_rich_text_alone_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    document = _parsed(monkeypatch, _properties(**HEAD, p1009=b"{rtf"))
    assert len(document.blocks) == 1
    assert "rich text" in document.warnings[0]


def test_narrow_text_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _parsed(monkeypatch, {("__substg1.0_1000001E",): "können".encode("cp1252")}).text == "können"


def test_mails_in_mails_end(monkeypatch: pytest.MonkeyPatch) -> None:
    streams, above = dict[tuple[str, ...], bytes](), ()
    for depth in range(8):
        streams |= _properties(*above, p1000=str(depth))
        above = (*above, f"{ATTACHED}0", INNER)  # type: ignore[assignment]
    document = _parsed(monkeypatch, streams)
    assert [text for _, text in _blocks(document) if text.isdigit()] == ["0", "1", "2", "3"]
    assert "a mail in a mail" in document.warnings[0]


@pytest.mark.parametrize("content", [OLD, OLD + bytes(504), OLD + b"\xff" * 3000])
def test_what_is_no_mail_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        PARSERS[".msg"].parse(Source("a.msg", content))
    assert caught.value.reason in {"corrupt", "empty"}
