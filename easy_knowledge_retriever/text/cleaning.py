"""Bytes to text and text to clean text: total, linear, and open about what was assumed or left out."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

from easy_knowledge_retriever.errors import ParseError

__all__ = ["CleanText", "clean", "decode", "one_line"]


@dataclass(frozen=True, slots=True)
class CleanText:
    """Text that any store and any model takes, and what was done to it."""

    text: str
    warnings: tuple[str, ...] = ()


_SUSPICIOUS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202d\u202e\ufdd0-\ufdef\ufeff\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REMOVED: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202d\u202e\ufdd0-\ufdef\ufffe\uffff]")
_INVISIBLE: Final = re.compile("[\ufeff\U000e0000-\U000e007f]")


def clean(text: str) -> CleanText:
    """The text with line feeds only, without control characters, direction overrides, tags and halves of surrogate pairs.

    Everything else is kept as it is, blanks included. What was removed or replaced is counted in a warning; line ends, byte order
    marks and invisible tag characters are not worth one.
    """
    if not _SUSPICIOUS.search(text):
        return CleanText(text)
    text = _INVISIBLE.sub("", _LINE_END.sub("\n", text))
    text, removed = _REMOVED.subn("", text)
    text, replaced = _SURROGATE.subn("\ufffd", text)
    warnings = []
    if removed:
        warnings.append(f"{removed} control character{'s' * (removed != 1)} removed")
    if replaced:
        warnings.append(f"{replaced} half surrogate pair{'s' * (replaced != 1)} replaced")
    return CleanText(text, tuple(warnings))


def one_line(text: str) -> str:
    """The clean text with every run of blanks and line ends as one blank, none at its ends."""
    return " ".join(clean(text).text.split())


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, the longer before the shorter that they begin with."""
_SAMPLE: Final = 1 << 16
_BINARY_SHARE: Final = 0.02
"""A text has fewer control characters than this."""


def decode(content: bytes, name: str = "") -> CleanText:
    """The text of a file in an unknown encoding, cleaned.

    A byte order mark decides. Without one UTF-16 and UTF-32 are known by their zero bytes, UTF-8 by its strictness and Shift-JIS
    by the runs of its characters; what is left is read as Windows-1252. An assumption is a warning.

    Args:
        content: The bytes.
        name: Name of the file, for messages.

    Raises:
        ParseError: ``encoding``: these bytes are no text.
    """
    text, warnings = _decoded(content)
    sample = text[:_SAMPLE]
    if len(_REMOVED.findall(sample)) > _BINARY_SHARE * len(sample):
        raise ParseError(
            f"{name or 'the content'!r} is not text in any encoding known here",
            code="encoding",
            hint="if it is text, save it as UTF-8; if it is another format, give it the suffix of that format",
        )
    cleaned = clean(text)
    return CleanText(cleaned.text, (*warnings, *cleaned.warnings))


def _decoded(content: bytes) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _with_replacements(content[len(mark) :], encoding)
    wide = _wide_encoding(content[:_SAMPLE])
    if wide:
        text, warnings = _with_replacements(content, wide)
        return text, (f"read as {wide.upper()}, which it does not say", *warnings)
    try:
        return content.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        if _mostly_utf8(content, error):
            return _with_replacements(content, "utf-8")
    encoding = "cp932" if _looks_like_shift_jis(content[:_SAMPLE]) else "cp1252"
    shown = {"cp932": "Shift-JIS", "cp1252": "Windows-1252"}[encoding]
    text, warnings = _with_replacements(content, encoding)
    return text, (f"not UTF-8; read as {shown}", *warnings)


def _with_replacements(content: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    """Decoded, each broken place replaced by U+FFFD."""
    try:
        return content.decode(encoding), ()
    except UnicodeDecodeError:
        text = content.decode(encoding, "replace")
    return text, (f"{text.count(chr(0xFFFD))} places are broken {encoding.upper()} and were replaced",)


def _wide_encoding(sample: bytes) -> str:
    """UTF-16 or UTF-32 without a mark: the zero bytes of blanks, digits and Latin letters stand at regular places."""
    zeros = [sample[offset::4].count(0) for offset in range(4)]
    quarter = max(len(sample) // 4, 1)
    if len(sample) < 2 or sum(zeros) == 0:
        return _wide_without_zeros(sample)
    if min(zeros[1:]) > 0.5 * quarter and zeros[0] < 0.1 * quarter:
        return "utf-32-le"
    if min(zeros[:3]) > 0.5 * quarter and zeros[3] < 0.1 * quarter:
        return "utf-32-be"
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    if max(even, odd) < 0.02 * 2 * quarter or min(even, odd) > 0.1 * max(even, odd):
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


_EAST_ASIAN: Final = re.compile("[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff5e]")


def _wide_without_zeros(sample: bytes) -> str:
    """Chinese, Japanese or Korean that has not even a line end."""
    if not _REMOVED.search(sample.decode("cp1252", "replace")):
        return ""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = sample.decode(encoding, "replace")
        if len(_EAST_ASIAN.findall(text)) > 0.9 * len(text):
            return encoding
    return ""


def _mostly_utf8(content: bytes, error: UnicodeDecodeError) -> bool:
    """Whether the broken places are few beside the characters of several bytes that are whole."""
    if error.start >= len(content) - 3 and not content[: error.start].isascii():
        return True
    text = content[:_SAMPLE].decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return 20 * broken <= sum(1 for c in text if c > "\x7f")


_JAPANESE: Final = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5e]")


def _looks_like_shift_jis(sample: bytes) -> bool:
    """Kana and kanji come in runs; what Windows-1252 text gives when it is misread stands alone between Latin letters."""
    text = sample.decode("cp932", "replace")
    foreign = [i for i, c in enumerate(text) if c > "\x7f"]
    japanese = sum(1 for i in foreign if _JAPANESE.match(text[i]))
    in_runs = sum(1 for i in foreign if text[i - 1 : i] > "\x7f" or text[i + 1 : i + 2] > "\x7f")
    return bool(foreign) and japanese >= 0.9 * len(foreign) and in_runs >= 0.8 * len(foreign)
