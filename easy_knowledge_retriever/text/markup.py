"""Markdown's inline marks, taken off."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["plain_heading"]

_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")
_HASHES: Final = re.compile(r"\A[ ]{0,3}#{1,6}[ \t]+|[ \t]+#+[ \t]*\Z")
_UNDERLINE: Final = re.compile(r"\n[ ]{0,3}(?:=+|-+)[ \t]*\Z")
_EMPHASIS: Final = re.compile(r"(?<![\\\w*])(\*{1,3}|_{1,3}|`+)(?=\S)([^\n]*?\S)\1(?![\w*])")
_TAG: Final = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,10}(?:[ \t][^<>\n]*)?/?>")
_BLANKS: Final = re.compile(r"\s+")


def plain_heading(line: str) -> str:
    """The words of a heading: without its marks, emphasis, tags and link targets, on one line."""
    words = _HASHES.sub("", _UNDERLINE.sub("", line))
    words = _TAG.sub("", _LINK.sub(r"\1", words))
    words = _EMPHASIS.sub(r"\2", words)
    return _BLANKS.sub(" ", words).strip()
