"""Sentences as spans of the text they stand in."""

from __future__ import annotations

import re
from typing import Final

from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["sentences"]

_CANDIDATE: Final = re.compile(
    r"""
    (?P<stop>[.!?…]+)["'”’»)\]*_]*(?=\s)        # Latin punctuation, with what closes after it
    | [。！？｡]+[」』）】”’]*                     # CJK punctuation needs no blank
    | [؟।॥۔]+(?=\s)                              # Arabic, Indic
    | \n                                          # lines
    """,
    re.VERBOSE,
)
_OPENS: Final = re.compile(
    r"[ \t]*(?:\n|\Z|[-*+•·‣–—▪◦][ \t]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxlIVXL]{2,5})[.)][ \t]|#{1,6}[ \t]|\||>|```|~~~)"
)
"""Starts of a line that begins something new: a blank line, a list item, a heading, a table row, a quote, a fence."""
_LAST_WORD: Final = re.compile(r"[\w.°'’&-]*\Z")
_APOSTROPHE: Final = re.compile("['’]")
_DOTTED: Final = re.compile(r"(?:\w\.)+\w")
_NEXT: Final = re.compile(r"\s*[\"'“‘«(\[*_¿¡]*([^\W\d_]+|\d+)?")
_WORD_WINDOW: Final = 24
_SHORT_LINE: Final = 45
"""A line that ends this early was broken on purpose, not by a margin."""

_NEVER_LAST: Final = frozenset(
    """
    mr mrs ms dr prof st mme mmes mlle mm me sr sra srta dott sig herr hr fr dhr mevr
    gen col maj capt cpt lt sgt cmdr adm gov sen rep rev hon
    pres art arts artt no nr nos num núm n° fig figs eq eqs sec sect ch chap cap kap par abs al
    p pp pg pag pág s vol vols ed eds éd
    e.g i.e cf vs v ca c approx resp viz esp incl z.b d.h u.a o.ä vgl bzw evtl ggf sog usw.u p.ej p.ex bijv o.a d.w.z rn lit
    jan feb febr mar apr avr jun jul juil aug sep sept okt oct nov dec dez déc janv févr
    mt ft bros dept univ ass assn no.s reg dir ann annex tab ref refs op cit ibid
    """.split()
)
"""Abbreviations that lean on the word after them: no sentence ends there."""
_MAYBE_LAST: Final = frozenset(
    """
    etc inc ltd co corp jr sr.jr plc llc cie gmbh u.s u.k u.n e.u u.s.a a.m p.m b.c a.d d.c ph.d m.d b.a m.a est usw ecc al et.al
    o.j j.o st.d min max
    """.split()
)
"""Abbreviations that may also end a sentence: one does where a function word in upper case follows."""
_MONTHS: Final = frozenset(
    """
    januar februar märz april mai juni juli august september oktober november dezember january february march may june july
    october december januari februari maart mei augustus janvier février mars avril juin juillet août septembre octobre
    novembre décembre
    """.split()
)
_STARTERS: Final = frozenset().union(*FUNCTION_WORDS.values())


def sentences(text: str) -> tuple[tuple[int, int], ...]:
    """Spans ``(start, end)`` of the sentences of a text, in order, without overlap and without blanks at their ends.

    Every character that is not blank belongs to one. Abbreviations, initials, ordinals and list numbers do not end a sentence.
    A line break does where the line before or after it is a heading, list item or table row, where a line is blank, and after a
    line too short to have been wrapped. Linear in the length of the text.
    """
    spans: list[tuple[int, int]] = []
    start = _skip_blank(text, 0)
    for match in _CANDIDATE.finditer(text):
        end = match.end()
        if end <= start or not _ends_sentence(text, start, match):
            continue
        stop = match.start() if match.group() == "\n" else end
        _append(spans, text, start, stop)
        start = _skip_blank(text, end)
    _append(spans, text, start, len(text))
    return tuple(spans)


def _append(spans: list[tuple[int, int]], text: str, start: int, stop: int) -> None:
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if stop > start:
        spans.append((start, stop))


_BLANK: Final = re.compile(r"\s*")


def _skip_blank(text: str, start: int) -> int:
    match = _BLANK.match(text, start)
    return match.end() if match else start


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    if match.group() == "\n":
        return _line_ends_sentence(text, start, match.start())
    stop = match.group("stop")
    return stop is None or _stop_ends_sentence(text, start, match, stop)


def _line_ends_sentence(text: str, start: int, newline: int) -> bool:
    line_start = text.rfind("\n", max(start - 1, 0), newline) + 1 or start
    line_start = max(line_start, start)
    if text[line_start] in "#|" or _OPENS.match(text, newline + 1):
        return True
    if newline - line_start >= _SHORT_LINE or text[newline - 1] in ",;-–(":
        return False
    following = _NEXT.match(text, newline + 1)
    word = following.group(1) if following else None
    return word is not None and (word[0].isupper() or word[0].isdigit())


def _stop_ends_sentence(text: str, start: int, match: re.Match[str], stop: str) -> bool:
    following = _NEXT.match(text, match.end())
    word = (following.group(1) if following else None) or ""
    if word[:1].islower():
        return False
    return stop != "." or _period_ends_sentence(text, start, match.start(), word)


def _period_ends_sentence(text: str, start: int, period: int, following: str) -> bool:
    window = max(start, period - _WORD_WINDOW)
    found = _LAST_WORD.search(text, window, period)
    written = _APOSTROPHE.split(found.group())[-1].lstrip("-&.") if found else ""
    last = written.lower()
    if not last:
        return True
    initial = len(last) == 1 and written.isupper()
    if last in _NEVER_LAST and not initial:
        return False
    if initial or last in _MAYBE_LAST or _DOTTED.fullmatch(last):
        return following.lower() in _STARTERS
    if last.isdigit() and len(last) <= 3:
        opens_line = period - len(last) == start
        return not opens_line and following.lower() not in _MONTHS
    return True
