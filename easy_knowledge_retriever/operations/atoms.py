"""What is not cut: sentences, rows of a table, lines of code, and blocks that belong together."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from easy_knowledge_retriever.text.measure import TokenRuler
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Block, Document

__all__ = ["Atom", "Atoms"]

_BY_LINE: Final = frozenset({"table", "code"})
"""Kinds whose lines are rows: a full stop does not end one."""
_CAPTIONED: Final = frozenset({"table", "image", "equation", "code"})
_LINE: Final = re.compile(r"[^\n]*\S[^\n]*")
_WORD: Final = re.compile(r"\S")
_FINISHED: Final = re.compile(r"[.!?…:;。！？][\"'”’»)\]*_]*\s*\Z")


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of the text that reaches up to the next one."""

    start: int
    end: int
    opens: bool
    """Whether a block or paragraph begins with it."""


class Atoms:
    """The atoms of a document.

    Args:
        document: A parsed document.
        ruler: Measures its text.
    """

    def __init__(self, document: Document, ruler: TokenRuler) -> None:
        self._ruler = ruler
        self._borders = frozenset(block.start for block in document.blocks)
        self._held = frozenset(_held(document))
        self._lined = sorted((block.start, block.end) for block in document.blocks if block.kind in _BY_LINE)

    def between(self, start: int, end: int, longest: int) -> list[Atom]:
        """Those of ``text[start:end]``, in order and without a gap; what is longer than ``longest`` tokens is cut at words."""
        return [part for atom in self._whole(start, end, longest) for part in self._cut(atom, longest)]

    def _whole(self, start: int, end: int, longest: int) -> list[Atom]:
        text, found, before = self._ruler.text, list[Atom](), start
        for (place, stop), (following, _) in pairwise([*self._spans(start, end), (end, end)]):
            opens = place in self._borders or text.count("\n", before, place) > 1
            if found and place in self._held and self._ruler.between(found[-1].start, following) <= longest:
                found[-1] = Atom(found[-1].start, following, found[-1].opens)
            else:
                found.append(Atom(place, following, opens and place not in self._held))
            before = stop
        return found

    def _spans(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Sentences, and lines where rows stand, without blanks at their ends."""
        text, place = self._ruler.text, start
        at = bisect_left(self._lined, start, key=lambda span: span[1])
        for block_start, block_end in self._lined[at:]:
            if block_start >= end:
                break
            first, last = max(block_start, place), min(block_end, end)
            yield from _sentences(text, place, first)
            yield from ((m.start() + _indent(m.group()), m.end()) for m in _LINE.finditer(text, first, last))
            place = last
        yield from _sentences(text, place, end)

    def _cut(self, atom: Atom, longest: int) -> Iterator[Atom]:
        start, opens = atom.start, atom.opens
        while self._ruler.between(start, atom.end) > longest:
            middle = self._next_word(start, longest, atom.end)
            if middle >= atom.end:
                break
            yield Atom(start, middle, opens)
            start, opens = middle, False
        yield Atom(start, atom.end, opens)

    def _next_word(self, start: int, tokens: int, limit: int) -> int:
        word = _WORD.search(self._ruler.text, self._ruler.after(start, tokens, limit), limit)
        return word.start() if word else limit


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    return ((start + first, start + last) for first, last in sentences(text[start:end]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _held(document: Document) -> Iterator[int]:
    """Starts of the blocks that stay with the one before.

    A caption stays with what it is the caption of: with what follows it, or else with what stands before. Footnotes that stand
    inside a sentence stay there, and so does the rest of it.
    """
    blocks = sorted(document.blocks, key=lambda block: block.start)
    of_next = {block.start for block, after in pairwise(blocks) if block.kind == "caption" and after.kind in _CAPTIONED}
    for before, block in pairwise(blocks):
        if before.start in of_next or (before.kind in _CAPTIONED and block.kind == "caption" and block.start not in of_next):
            yield block.start
    yield from _interrupted(document.text, blocks)


def _interrupted(text: str, blocks: Sequence[Block]) -> Iterator[int]:
    """Starts of footnotes inside a sentence and of the rest of the sentence."""
    open_since: list[int] = []
    last: Block | None = None
    for block in blocks:
        if block.kind == "footnote":
            open_since.append(block.start)
            continue
        if (
            open_since
            and last is not None
            and last.kind == block.kind == "text"
            and not _FINISHED.search(text, last.start, last.end)
        ):
            yield from (*open_since, block.start)
        open_since, last = [], block
