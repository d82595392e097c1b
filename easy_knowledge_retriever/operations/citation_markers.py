"""Finding citations in the text of an answer, in every form models write them, and nothing that only looks like one."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.operations.editing import Edit

__all__ = [
    "CLOSING",
    "LONGEST",
    "OPENING",
    "Cited",
    "Marker",
    "code_spans",
    "markers_in",
    "open_code",
    "open_fence",
    "take_out",
]


LONGEST = 200
"""Characters a citation may have between its brackets."""
OPENING = "[［【〔〖〘〚⟦❲⁅"
CLOSING = "]］】〕〗〙〛⟧❳⁆"
"""What a citation may stand between."""
_ANY = re.escape(OPENING + CLOSING)
_BRACKET = re.compile(rf"[{re.escape(OPENING)}]([^{_ANY}\n]{{1,{LONGEST}}})[{re.escape(CLOSING)}]")
_OPEN_BEFORE = re.compile(rf"[{re.escape(OPENING)}][^{_ANY}\n]{{0,{LONGEST}}}\Z")
_INVISIBLE = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")
_DASH = r"[-–—‑]"
_PAGES = (
    rf"(?P<page>(?P<many>pp|pages)|p|pgs?|page|seiten?|s|pág(?:ina)?s?|pag(?:in[ae])?)\.?\s*"
    rf"(?P<from>\d{{1,6}})(?:\s*{_DASH}\s*(?P<to>\d{{1,6}}))?"
)
_WORD = r"(?:(?:passages?|sources?|documents?|docs?|quellen?|fuentes?|fonti|fonte|ids?|refs?|no|n°|nº|#|\^)\s*[:=.#]?\s*)?"
_ITEM = re.compile(
    rf"{_WORD}\"?(?P<first>\d{{1,6}})\"?(?:\s*{_DASH}\s*(?P<last>\d{{1,6}}))?(?:[\s:(]+{_PAGES}\)?)?(?:†.*)?", re.IGNORECASE
)
_PAGE_ITEM = re.compile(_PAGES, re.IGNORECASE)
_BARE = re.compile(r"\d{1,6}")
_SEPARATOR = re.compile(r"\s*(?:[,;&、，；]|\b(?:and|et|und|y|e|en)\b)\s*", re.IGNORECASE)

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(?:.*?^[ \t]*\1[ \t]*$|.*\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_QUOTES = re.compile("`+")
_LONGEST_QUOTES = 2
_FENCES = ("```", "~~~")
_CODE_AFTER = re.compile(r"\s*(?:=|\+|\*|\()|\.[a-z_]|\[[a-zA-Z_'\"]")
_SCALE_BEFORE = re.compile(r"\b(?:interval|range|scale|between|intervalle|échelle|plage|intervall|skala)\s*\Z", re.IGNORECASE)
_FIRST_YEAR, _LAST_YEAR = 1000, 2999
_WIDEST = 100
_FOOTNOTE_CONTEXT = 16
"""Characters before a bracket that must stand before it in a passage too, for it to be a footnote of the passage."""


@dataclass(frozen=True, slots=True)
class Cited:
    """One passage that a marker names, and the pages it names with it."""

    number: int
    """0 where a page is named without a passage."""
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Marker:
    """A citation in an answer: where it stands and what it names."""

    start: int
    end: int
    cited: tuple[Cited, ...]
    """Empty for the footnote of a passage that was copied with its sentence."""


def markers_in(text: str, passages: Sequence[str] = ()) -> tuple[Marker, ...]:
    """The citations of a text, in order.

    Read are ``[2]``, ``[2, p. 14]``, ``[2, pp. 14-15]``, ``[1, 2]``, ``[1-3]``, ``[Passage 2]``, ``[^2]``, ``[2: page 14; 3]``
    and the same in full-width brackets. Left alone are links, images, code and array indices, years, scales such as
    ``[0, 1]``, and every bracket that holds anything else.

    Args:
        text: What the model wrote.
        passages: What it was given: a bracket that stands so in a passage, after the same words, is the passage's own
            footnote and cites nothing.
    """
    code = code_spans(text)
    sources = [_collapsed(passage) for passage in passages if "[" in passage]
    found = []
    for match in _BRACKET.finditer(text):
        cited = _cited(_read(match[1]))
        if cited and _may_cite(text, match, cited) and not _inside(code, match.start()):
            own = _is_footnote(text, match, sources)
            found.append(Marker(match.start(), match.end(), () if own else cited))
    return tuple(found)


def code_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Where code stands: fenced blocks and text between backquotes, in order, without overlap."""
    fences = [match.span() for match in _FENCE.finditer(text)] if "```" in text or "~~~" in text else []
    inline = [match.span() for match in _INLINE.finditer(text)] if "`" in text else []
    return tuple(sorted([*fences, *(span for span in inline if not _inside(fences, span[0]))]))


def _inside(spans: Sequence[tuple[int, int]], position: int) -> bool:
    at = bisect_right(spans, position, key=lambda span: span[0]) - 1
    return at >= 0 and position < spans[at][1]


def open_fence(text: str) -> str:
    """What opened the block of code that goes on where the text ends; nothing outside of one.

    Args:
        text: Whole lines.
    """
    spans = code_spans(text)
    return text[spans[-1][0] :].lstrip(" \t")[:3] if spans and spans[-1][1] == len(text) else ""


def open_code(text: str) -> int:
    """Where on the last line text begins that is code or not by what follows; the length of the text if nowhere."""
    start = text.rfind("\n") + 1
    line = text[start:]
    if open_fence(text[:start]):
        return len(text)
    if line.lstrip(" \t").startswith(_FENCES):
        return start
    opening = None
    for run in _QUOTES.finditer(line):
        if opening is not None and run.end() < len(line) and len(run[0]) == len(opening[0]):
            opening = None
        elif run.end() < len(line):
            opening = run if len(run[0]) <= _LONGEST_QUOTES else None
    return len(text) if opening is None else start + opening.start()


def take_out(text: str, marker: Marker, edits: list[Edit]) -> None:
    """Adds the edit that takes a citation out of a text, after those of the citations before it.

    The blanks before it go with it, unless they part two words. Within brackets a ``?`` stays, so that what stands around it
    does not become a citation.
    """
    start = marker.start
    if _within_brackets(text, start):
        edits.append((start, marker.end, "?"))
        return
    follows = text[marker.end : marker.end + 1]
    if not (follows.isalnum() or follows in (*OPENING, "(")):
        while edits and edits[-1][1:] == (start, ""):  # those taken out right before left it their blanks
            start = edits.pop()[0]
        start = len(text[:start].rstrip(" \t"))
    edits.append((start, marker.end, ""))


def _within_brackets(text: str, position: int) -> bool:
    """Whether a bracket is open at a position, so that taking something out there could make another citation."""
    return _OPEN_BEFORE.search(text, max(0, position - LONGEST - 1), position) is not None


def _read(inner: str) -> str:
    """What a bracket holds as a reader sees it: no invisible characters, and digits of every form."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", inner)).strip()


def _cited(inner: str) -> tuple[Cited, ...]:
    """What a bracket names; nothing if a part of it is no citation."""
    if not any(character.isdigit() for character in inner):
        return ()
    cited: list[Cited] = []
    many = False
    for part in _SEPARATOR.split(inner):
        page, item = _PAGE_ITEM.fullmatch(part), _ITEM.fullmatch(part)
        if page is None and many and _BARE.fullmatch(part):
            cited[-1] = Cited(cited[-1].number, (*cited[-1].pages, int(part)))
        elif page is not None:
            last = cited.pop() if cited else Cited(0)
            cited.append(Cited(last.number, (*last.pages, *_pages(page))))
            many = page["many"] is not None
        elif item is not None:
            pages = tuple(_pages(item)) if item["page"] else ()
            cited += [Cited(number, pages) for number in _range(item["first"], item["last"])]
            many = item["many"] is not None
        else:
            return ()
    return tuple(cited)


def _pages(match: re.Match[str]) -> Iterator[int]:
    yield from _range(match["from"], match["to"])


def _range(first: str, last: str | None) -> Sequence[int]:
    start, end = int(first), int(last or first)
    return range(start, end + 1) if start <= end < start + _WIDEST else (start, end)


def _may_cite(text: str, match: re.Match[str], cited: Sequence[Cited]) -> bool:
    start, end = match.span()
    before, after = text[max(start - 24, 0) : start], text[end : end + 12]
    numbers = [one.number for one in cited]
    if after.startswith("(") or before.endswith(("!", "](")) or (after.startswith(":") and _opens_line(text, start)):
        return False
    glued = before[-1:].isalnum() or before[-1:] in {"_", ")"}
    if glued and (numbers == [0] or _CODE_AFTER.match(after)):
        return False
    if not any(one.pages for one in cited):
        if len(numbers) == 1 and _FIRST_YEAR <= numbers[0] <= _LAST_YEAR and not _named(match[1]):
            return False
        if len(numbers) > 1 and (0 in numbers or _SCALE_BEFORE.search(before)):
            return False
    return True


def _named(inner: str) -> bool:
    return any(character.isalpha() or character in "^#" for character in inner)


def _opens_line(text: str, start: int) -> bool:
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()


def _is_footnote(text: str, match: re.Match[str], sources: Sequence[str]) -> bool:
    if not sources:
        return False
    copied = _collapsed(text[max(match.start() - 2 * _FOOTNOTE_CONTEXT, 0) : match.end()])[-_FOOTNOTE_CONTEXT - len(match[0]) :]
    return len(copied) > len(match[0]) + 3 and any(copied in source for source in sources)


def _collapsed(text: str) -> str:
    return " ".join(text.split())
