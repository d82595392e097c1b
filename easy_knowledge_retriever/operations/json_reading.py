"""Reads the JSON that a model wrote, or nearly wrote. Total: any text in, values and what was mended out.

One pass without recursion and without going back, so the time grows with the length of the text only. Nothing in it is
evaluated.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["DEEPEST", "MOST_SIGNS", "Json", "ReadJson", "read_json"]

Json = Any
"""What JSON can say: dict, list, str, int, float, bool, None."""

DEEPEST: Final = 200
"""Containers inside each other; what is deeper is left out."""

MOST_SIGNS: Final = 100_000
"""Strings, numbers, brackets and commas read one by one, where JSON is broken; the text is taken for cut after that."""

_BLANKS: Final = re.compile(r"[\s\ufeff]+")
_BEGINS: Final = re.compile(r"\{[\s\ufeff]*(?:[\"'“‘}{]|//|/\*|\w+\s*:)|\[[\s\ufeff]*(?:[\[{\]]|//|/\*)")
"""Where a value begins among prose: an object with a key, a list of containers."""
_CLOSES: Final = {'"': '"', "'": "'", "“": "”", "‘": "’"}
"""Opening quotation mark → closing one."""
_AFTER_STRING: Final = re.compile(
    r"[\s\ufeff]*(?:[:}\]]|//|/\*|\Z|,[\s\ufeff]*(?:[\"'“‘{\[\]}\d.+-]|//|/\*|\Z|\w+\s*[:,}\]]))|[ \t\r]*\n"
)
"""What follows a quotation mark that closes; any other one stands inside the string."""
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?=[\s\ufeff,:}\]/]|\Z)")
_BARE: Final = re.compile(r"[^,:{}\[\]\n\"]+")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LITERALS: Final[Mapping[str, Json]] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
    "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf,
}  # fmt: skip
_LONGEST_NUMBER: Final = 400
_NOTHING: Final = object()
"""Stands for a value that is not there."""


@dataclass(frozen=True, slots=True)
class ReadJson:
    """What could be read."""

    values: tuple[Json, ...] = ()
    """The values at the top level, in order: mostly one."""
    mended: Mapping[str, int] = field(default_factory=dict)
    """What was not as JSON wants it → how often."""
    cut: bool = False
    """Whether the text ended inside the last value: it holds what was complete of it."""


def read_json(text: str) -> ReadJson:
    """The objects and lists in a text, whatever stands around them. Never raises; linear in the length of the text.

    Where the text ends inside a value, an element of a list counts only as a whole. Of two equal keys the later counts.

    Args:
        text: What a model wrote.
    """
    return _Reader(text).read()


class _Open:
    """A container that is being read."""

    __slots__ = ("colon", "comma", "key", "value")

    def __init__(self, value: dict[str, Json] | list[Json]) -> None:
        self.value = value
        self.key: str | None = None
        """The key that waits for its value."""
        self.colon = False
        self.comma = False
        """Whether a comma was the last thing in it."""


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._signs = 0
        self._mended: Counter[str] = Counter()
        self._strict = json.JSONDecoder(object_pairs_hook=self._object)

    def read(self) -> ReadJson:
        values: list[Json] = []
        cut = False
        while not cut and self._signs < MOST_SIGNS and (match := _BEGINS.search(self._text, self._at)):
            self._signs += 1
            self._note_prose(match.start())
            self._at = match.start()
            mended = self._mended.copy()
            try:
                value, self._at = self._strict.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                self._mended = mended
                value, cut = self._value()
            values.append(value)
        if not cut:
            self._note_prose(len(self._text))
        return ReadJson(tuple(values), {kind: count for kind, count in self._mended.items() if count}, cut)

    def _note_prose(self, end: int) -> None:
        if self._text[self._at : end].strip(" \t\r\n,"):
            self._mended["text around it"] += 1

    def _object(self, pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
        made = dict(pairs)
        self._mended["key given twice"] += len(pairs) - len(made)
        return made

    def _value(self) -> tuple[Json, bool]:
        """The container that begins here, and whether the text ended inside it."""
        stack = [_Open({} if self._text[self._at] == "{" else [])]
        self._at += 1
        too_deep = 0
        while True:
            self._skip()
            self._signs += 1
            if self._at >= len(self._text) or self._signs > MOST_SIGNS:
                return self._cut(stack), True
            sign, top = self._text[self._at], stack[-1]
            if too_deep:
                too_deep += self._pass_over(sign)
            elif sign in "{[":
                self._at += 1
                if len(stack) < DEEPEST:
                    stack.append(_Open({} if sign == "{" else []))
                else:
                    self._mended["too deep"] += 1
                    too_deep = 1
            elif sign in "}]":
                value = self._close(stack, sign)
                if not stack:
                    return value, False
            elif sign in ",:":
                self._at += 1
                self._punctuate(stack, sign)
            elif (scalar := self._scalar(sign)) is not _NOTHING:
                self._put(top, scalar)

    def _pass_over(self, sign: str) -> int:
        """Goes over one thing inside a container that is too deep; gives what it adds to the depth."""
        if sign in "{[}],:":
            self._at += 1
            return {"{": 1, "[": 1, "}": -1, "]": -1}.get(sign, 0)
        self._scalar(sign)
        return 0

    def _put(self, top: _Open, value: Json) -> None:
        """A value in its place: a key, the value of a key, or an element."""
        top.comma = False
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key, top.colon = value if isinstance(value, str) else str(value)[:_LONGEST_NUMBER], False
        else:
            self._mended["missing colon"] += not top.colon
            self._mended["key given twice"] += top.key in top.value
            top.value[top.key] = value
            top.key = None

    def _punctuate(self, stack: list[_Open], sign: str) -> None:
        top = stack[-1]
        if sign == ":":
            if isinstance(top.value, list) and len(stack) > 1 and top.value and isinstance(top.value[-1], str):
                key = top.value.pop()  # what looked like an element is a key: the list was left open before it
                self._close(stack, "}")
                top = stack[-1]
                self._put(top, key)
            self._mended["stray colon"] += top.key is None or top.colon
            top.colon = True
            return
        self._mended["stray comma"] += top.comma or not top.value
        self._mended["key without a value"] += top.key is not None
        top.key, top.comma = None, True

    def _close(self, stack: list[_Open], sign: str) -> Json:
        """Closes the innermost container, or those that were left open inside the one that this sign closes."""
        wanted = dict if sign == "}" else list
        if isinstance(stack[-1].value, wanted):
            self._at += 1
        elif any(isinstance(one.value, wanted) for one in stack):
            self._mended["missing bracket"] += 1
        else:
            self._at += 1
            self._mended["stray bracket"] += 1
            return _NOTHING
        closed = stack.pop()
        self._mended["trailing comma"] += closed.comma
        self._mended["key without a value"] += closed.key is not None
        if stack:
            self._put(stack[-1], closed.value)
        return closed.value

    def _cut(self, stack: list[_Open]) -> Json:
        """The outermost container, where the text ends. What is unfinished stays out of a list; a key keeps what it has."""
        self._mended["cut off"] += 1
        while len(stack) > 1:
            unfinished, around = stack.pop(), stack[-1]
            if isinstance(around.value, dict) and around.key is not None:
                around.value[around.key] = unfinished.value
        return stack[0].value

    def _skip(self) -> None:
        """Goes over blanks and comments."""
        text = self._text
        while True:
            if match := _BLANKS.match(text, self._at):
                self._at = match.end()
            ends = {"//": "\n", "/*": "*/"}.get(text[self._at : self._at + 2])
            if ends is None:
                return
            self._mended["comment"] += 1
            end = text.find(ends, self._at + 2)
            self._at = len(text) if end < 0 else end + len(ends)

    def _scalar(self, sign: str) -> Json:
        """The string, number or word that begins here; nothing if the text ends in it."""
        if sign in _CLOSES:
            self._mended["other quotation marks"] += sign != '"'
            return self._string(_CLOSES[sign])
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return _NOTHING if self._at == len(self._text) else _number(number.group())
        word = _BARE.match(self._text, self._at)
        if word is None:
            self._at += 1
            return _NOTHING
        self._at = word.end()
        if self._at == len(self._text):
            return _NOTHING
        plain = word.group().strip()
        self._mended["word without quotation marks"] += plain not in {"true", "false", "null"}
        return _LITERALS.get(plain, plain)

    def _string(self, close: str) -> Json:
        text, start = self._text, self._at + 1
        end = start
        while True:
            end = text.find(close, end)
            self._signs += 1
            if end < 0 or self._signs > MOST_SIGNS:
                self._at = len(text)
                return _NOTHING
            if not _is_escaped(text, start, end):
                if _AFTER_STRING.match(text, end + 1):
                    break
                self._mended["quotation mark in a string"] += 1
            end += 1
        self._at = end + 1
        return _unescaped(text[start:end])


def _is_escaped(text: str, start: int, at: int) -> bool:
    """Whether an odd number of backslashes stands before a character."""
    first = at
    while first > start and text[first - 1] == "\\":
        first -= 1
    return (at - first) % 2 == 1


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    plain = _ESCAPE.sub(lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _ESCAPES.get(match[1], match[1]), raw)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves make one character


def _number(token: str) -> Json:
    if len(token) > _LONGEST_NUMBER:
        return token[:_LONGEST_NUMBER]
    return int(token) if token.lstrip("+-").isdigit() else float(token)
