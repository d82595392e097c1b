"""The encoding a page of the web says it has."""

from __future__ import annotations

import codecs
import re
from typing import Final

from easy_knowledge_retriever.text.cleaning import CleanText, clean, decode

__all__ = ["decoded"]

_DECLARED: Final = re.compile(
    rb"""(?i)(?:<meta\b[^>]{0,200}?charset|<\?xml\b[^>]{0,200}?encoding)\s*=\s*["']?\s*([\w.:-]{2,30})"""
)
_LOOKED_AT: Final = 4096
"""Bytes in which a declaration stands, a little more than the standard asks for."""
_AS_BROWSERS_DO: Final = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254"}
"""What is read in the place of an encoding that is declared, by the Encoding Standard."""


def decoded(content: bytes, name: str, declared: str = "") -> CleanText:
    """The text of a page, cleaned: by its byte order mark, by what is declared if that fits, and else by its looks.

    Args:
        content: The page.
        name: Name of the file, for messages.
        declared: What was said of it elsewhere, such as in the head of a mail.

    Raises:
        ParseError: ``encoding``: these bytes are no text.
    """
    found = _DECLARED.search(content[:_LOOKED_AT])
    says = declared or (found.group(1).decode("ascii") if found else "")
    marked = content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if says and not marked:
        try:
            encoding = codecs.lookup(says).name
            return clean(content.decode(_AS_BROWSERS_DO.get(encoding, encoding)))
        except (LookupError, UnicodeDecodeError, ValueError):
            guessed = decode(content, name)
            return CleanText(guessed.text, (f"it says it is {says[:30]!r} and is not", *guessed.warnings))
    return decode(content, name)
