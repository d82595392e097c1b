"""Where to cut a document: at the borders of its sections, paragraphs and sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from easy_knowledge_retriever.operations.atoms import Atom, Atoms
from easy_knowledge_retriever.text.markup import plain_heading
from easy_knowledge_retriever.text.measure import TokenRuler, trimmed
from easy_knowledge_retriever.types import Document

__all__ = ["Cutting", "HeadingPaths", "Part"]

_SMALL: Final = 8
"""A top section below 1/8 of the chunk size is joined with its neighbour."""
_JOINED: Final = 2
"""Top sections that are joined reach 1/2 of the chunk size at most."""
_BARE: Final = 12
"""Tokens below which a section is taken for a heading; it belongs to what follows."""
_SLACK: Final = 4
"""Tokens kept free: a slice encoded alone may have a few more than inside its text."""
_GOOD_FILL: Final = 0.7
"""From this share of the wanted length on, a chunk ends at a paragraph rather than run on."""

_DEEPEST: Final = 9

_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A slice to become a chunk, without blanks at its ends."""

    start: int
    end: int
    tokens: int
    """As encoded alone."""
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading with the text up to the next heading."""

    start: int
    end: int
    level: int
    """Depth of its heading; 0 for what stands before the first."""
    path: tuple[str, ...]
    bare: bool
    """Whether it is a heading without text."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Neighbouring sections that stay together, or one section, however long."""

    start: int
    end: int
    tokens: int
    path: tuple[str, ...]
    bare: bool
    """Whether it has headings only, which belong to what follows."""


class HeadingPaths:
    """The headings above each place of a document, its title first."""

    def __init__(self, document: Document) -> None:
        self.title = _BLANKS.sub(" ", document.title).strip()
        self.sections = _sections(document)
        self._starts = [section.start for section in self.sections]

    def of(self, start: int, end: int) -> tuple[str, ...]:
        """The headings that stand above all of ``text[start:end]``."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = max(bisect_right(self._starts, max(end - 1, start)) - 1, first)
        return self.titled(_common([section.path for section in self.sections[first : last + 1]]))

    def clipped(self, start: int, end: int) -> list[_Section]:
        """The parts of the sections that stand in ``text[start:end]``, which is not empty."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = bisect_left(self._starts, end)
        return [replace(s, start=max(s.start, start), end=min(s.end, end)) for s in self.sections[first:last]]

    def titled(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path with the title before it, unless it begins with the title."""
        if not self.title or (path and path[0].casefold() == self.title.casefold()):
            return path
        return (self.title, *path)


class Cutting:
    """Cuts a document into slices.

    Args:
        document: A parsed document.
        ruler: Measures its text.
    """

    def __init__(self, document: Document, ruler: TokenRuler) -> None:
        self._paths = HeadingPaths(document)
        self._atoms = Atoms(document, ruler)
        self._ruler = ruler

    def parts(self, size: int, overlap: int, within: tuple[int, int] | None = None) -> list[Part]:
        """The text in slices of at most ``size`` tokens that together cover it.

        Sections are kept whole where they fit. Small ones are joined with their neighbours under a common heading; sections of
        the top level only as far as both are small. A longer section is cut into slices of about equal length, at a paragraph
        or else a sentence, and each goes back over whole sentences of up to ``overlap`` tokens.

        Args:
            size: Tokens of a slice at most.
            overlap: Tokens that the slices of one section share at most; less than ``size``.
            within: Only this part of the text.
        """
        sections = self._paths.sections if within is None else self._paths.clipped(*within)
        room = max(size - _SLACK, (size + 1) // 2)
        overlap = min(overlap, room // 2)
        parts: list[Part] = []
        for unit in _packed(sections, self._ruler, room, top=True):
            headings = self._paths.titled(unit.path)
            spans = [(unit.start, unit.end)] if unit.tokens <= room else self._split(unit, room, overlap)
            for span in spans:
                parts += _fitted(self._ruler, span, size, headings, parts[-1] if parts else None)
        return parts

    def _split(self, unit: _Unit, room: int, overlap: int) -> list[tuple[int, int]]:
        """A long section in slices of about equal length."""
        atoms = self._atoms.between(unit.start, unit.end, room)
        lengths = [self._ruler.between(atom.start, atom.end) for atom in atoms]
        remaining = sum(lengths)
        spans: list[tuple[int, int]] = []
        first = back = 0
        while first < len(atoms):
            shared = min(overlap, room - lengths[first])
            back = _overlap_start(lengths, first, back + 1, shared) if spans else first
            free = room - sum(lengths[back:first])
            slices = -(-remaining // (room - overlap))
            stop = _stop(atoms, lengths, first, free, wanted=min(-(-remaining // max(slices, 1)), free))
            spans.append((atoms[back].start, atoms[stop - 1].end))
            remaining -= sum(lengths[first:stop])
            first = stop
        return spans


def _fitted(ruler: TokenRuler, span: tuple[int, int], size: int, headings: tuple[str, ...], last: Part | None) -> Iterator[Part]:
    """The span as one part, or as several if it is longer alone than within the text. Each goes on from the one before."""
    start, end = trimmed(ruler.text, *span)
    reached = last.end if last else 0
    if last and start <= last.start:
        start = trimmed(ruler.text, reached, end)[0]
    while start < end:
        stop, tokens = ruler.fitting(start, end, size)
        if stop > reached:
            yield Part(start, stop, tokens, headings)
        start = trimmed(ruler.text, max(stop, reached), end)[0]


def _sections(document: Document) -> list[_Section]:
    headings = sorted((block for block in document.blocks if block.kind == "heading"), key=lambda block: block.start)
    borders = [*(block.start for block in headings), len(document.text)]
    sections = [_Section(0, borders[0], 0, (), bare=False)] if borders[0] > 0 or not headings else []
    above: list[tuple[int, str]] = []
    for block, end in zip(headings, borders[1:], strict=True):
        level = min(max(block.level or 1, 1), _DEEPEST)
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, plain_heading(document.text[block.start : block.end])))
        bare = not document.text[block.end : end].strip()
        sections.append(_Section(block.start, end, level, tuple(text for _, text in above if text), bare))
    return sections


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shortest, longest = min(paths), max(paths)
    depth = 0
    while depth < min(len(shortest), len(longest)) and shortest[depth] == longest[depth]:
        depth += 1
    return shortest[:depth]


def _packed(sections: Sequence[_Section], ruler: TokenRuler, room: int, *, top: bool) -> list[_Unit]:
    """Whole branches where they fit, smaller ones joined with the next."""
    start, end = sections[0].start, sections[-1].end
    paths = [section.path for section in sections if not section.bare]
    common = _common(paths or [section.path for section in sections])
    whole = _Unit(start, end, ruler.between(start, end), common, bare=not paths)
    if len(sections) == 1 or (whole.tokens <= room and not top):
        return [whole]
    highest = min(section.level for section in sections[1:])
    below = top and sum(section.level == highest for section in sections) == 1
    units = [unit for branch in _branches(sections, highest) for unit in _packed(branch, ruler, room, top=below)]
    return _joined(units, room, top=top)


def _branches(sections: Sequence[_Section], highest: int) -> Iterator[Sequence[_Section]]:
    """What stands before the first heading of the highest level, then each such heading with all below it."""
    starts = [0, *(i for i in range(1, len(sections)) if sections[i].level == highest)]
    return (sections[first:last] for first, last in zip(starts, [*starts[1:], len(sections)], strict=True))


def _joined(units: Sequence[_Unit], room: int, *, top: bool) -> list[_Unit]:
    joined: list[_Unit] = []
    for unit in units:
        last = joined[-1] if joined else None
        if last is not None and _belong_together(last, unit, room, top=top):
            joined[-1] = _Unit(
                last.start, unit.end, last.tokens + unit.tokens, _path_of_both(last, unit), bare=last.bare and unit.bare
            )
        else:
            joined.append(unit)
    return joined


def _belong_together(first: _Unit, second: _Unit, room: int, *, top: bool) -> bool:
    if first.bare or first.tokens <= _BARE:
        return True
    together = first.tokens + second.tokens
    if not top or second.tokens <= _BARE:
        return together <= room
    return min(first.tokens, second.tokens) < room // _SMALL and together <= room // _JOINED


def _path_of_both(first: _Unit, second: _Unit) -> tuple[str, ...]:
    if first.bare:
        return second.path
    common = _common([first.path, second.path])
    return second.path if first.tokens <= _BARE and common == first.path else common


def _overlap_start(lengths: Sequence[int], first: int, earliest: int, overlap: int) -> int:
    while first > earliest and lengths[first - 1] <= overlap:
        first -= 1
        overlap -= lengths[first]
    return first


def _stop(atoms: Sequence[Atom], lengths: Sequence[int], first: int, free: int, wanted: int) -> int:
    """Index after the last atom of a slice: at the last paragraph between a good and the wanted length, else at a sentence."""
    total, stop, paragraph = lengths[first], first + 1, 0
    while stop < len(atoms) and total < wanted and total + lengths[stop] <= free:
        if atoms[stop].opens and total >= _GOOD_FILL * wanted:
            paragraph = stop
        total += lengths[stop]
        stop += 1
    return stop if stop == len(atoms) or atoms[stop].opens or not paragraph else paragraph
