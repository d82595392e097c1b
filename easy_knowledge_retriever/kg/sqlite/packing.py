"""Rows of JSON, deflated from a dictionary of what stands in nearly all of them."""

from __future__ import annotations

import zlib
from typing import Final

__all__ = ["PackingError", "pack", "unpack"]

PackingError = zlib.error
"""Raised for bytes that were not packed."""

_SHORT: Final = 48
"""Characters from which a row may get smaller."""
_LONG: Final = 16_384
"""Characters from which a large window pays for the time it takes to set it up."""

# Part of the format: what was packed is read with the very same bytes. The most frequent stands last.
_DICTIONARY: Final = (
    b"which were their have been this from between about after used under first other more also into than two during one "
    b"can its they when has one of the most over all such it is an for the by the at the as a was the with the on the "
    b"that the to the and the of the in the . The ISBN http://www.https:// 2021202020192018 200019 %"
    b'E | Person | Organization | Location | Event | Concept\\nR | \\nEND"}{"at":1790000000,"text":"\\n\\n'
    b'{"blocks":[["heading",0,1,1,null],["text",0,null,null,null],["table","list"],"collection":"","digest":"",'
    b'"id":"doc-","links":[],"metadata":{},"name":".md.pdf.txt","pages":[[1,0,"parser":"markdown 1","text":"","title":"",'
    b'"warnings":[]}{"collection":"","document_id":"doc-","document_name":"","end":,"extra":{},"headings":[""],'
    b'"id":"chunk-","next_id":"chunk-","order":1,"pages":[],"start":,"text":"","tokens":,"version":""}'
    b'{"chunk_id":"chunk-","document_id":"doc-","entities":[["","UNKNOWN","",null,null],["","Concept","","Event","",'
    b'"Location","","Organization","","Person","","relations":[["","","",[""],1.0,null,null],["source":"declared"}'
    b'"source":"llm"}"source":"local"}{"chunk_ids":["chunk-","chunk-"],"file_paths":["",""],"first_name":"",'
    b'"fragments":[],"fragments":[["chunk-",""],["chunk-",""]],"key":["",""],"keywords":[["",1]],"mention_count":2,'
    b'"second_name":"","sources":["llm","local"],"summary":"","weight":1.0}","mention_count":1,"names":[["",1]],'
    b'"sources":["local"],"summary":"","types":[["Concept",1],["Event",1],["Location",1],["Organization",1],["Person",1],'
    b'["UNKNOWN",1]]}'
)
# Copied for each row, which is several times cheaper than making one.
_SMALL = zlib.compressobj(6, zlib.DEFLATED, -12, 5, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
_LARGE = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)


def pack(text: str) -> str | bytes:
    """The text, or the bytes it gets smaller as."""
    if len(text) < _SHORT:
        return text
    plain = text.encode()
    deflate = (_SMALL if len(plain) < _LONG else _LARGE).copy()
    packed = deflate.compress(plain) + deflate.flush()
    return packed if len(packed) < len(plain) else text


def unpack(stored: str | bytes) -> str:
    """The text that was packed.

    Raises:
        PackingError: It is something else.
        UnicodeDecodeError: So it is.
    """
    if isinstance(stored, str):
        return stored
    inflate = zlib.decompressobj(-15, _DICTIONARY)
    text = inflate.decompress(stored) + inflate.flush()
    if not inflate.eof or inflate.unused_data:
        raise PackingError("a packed row is cut off, or goes on")
    return text.decode()
