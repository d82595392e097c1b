from __future__ import annotations

import io
import struct
import zipfile

import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import archives


def _zip(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_members_are_read_one_by_one() -> None:
    with archives.opened(_zip(a=b"one", b=b"two"), "x.zip") as archive:
        assert [archive.read(member) for member in archive.infolist()] == [b"one", b"two"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nothing of the kind", _zip(a=b"one" * 99)[:-30]])
def test_what_is_no_archive_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        archives.opened(content, "x.docx")
    assert caught.value.reason == "corrupt"


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(ParseError, match="unpacks to 1 members of 64 MiB") as caught:
        archives.opened(_zip(a=bytes(64 << 20)), "x.docx")
    assert caught.value.reason == "too_large"


def test_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_MOST_MEMBERS", 2)
    with pytest.raises(ParseError) as caught:
        archives.opened(_zip(a=b"", b=b"", c=b""), "x.zip")
    assert caught.value.reason == "too_large"


def test_an_encrypted_member_is_said_to_need_a_password() -> None:
    content = bytearray(_zip(a=b"one"))
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    with pytest.raises(ParseError) as caught:
        archives.opened(bytes(content), "x.zip")
    assert caught.value.reason == "encrypted"


def test_members_that_overlap_are_refused() -> None:
    content = bytearray(_zip(a=b"one", b=b"two"))
    for place in (content.index(b"PK\x01\x02"), content.rindex(b"PK\x01\x02")):
        content[place + 20 : place + 24] = struct.pack("<I", len(content))
    with pytest.raises(ParseError, match="overlap"):
        archives.opened(bytes(content), "x.zip")
