"""What an answer asserts: its sentences, each with the citations that stand at it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.operations.citation_markers import Marker, code_spans
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.folding import fold
from easy_knowledge_retriever.text.sentences import sentences

__all__ = ["Assertion", "Segment", "assertions_in", "without_source_list"]

_LEAST_TERMS = 2
"""Terms a part of a sentence needs to be compared by itself; a shorter one is read with its neighbour."""
_LONGEST_HEADING = 14
"""Words; what is longer and looks like a heading asserts something."""

_WORD = re.compile(r"[^\W_]+")
_DECORATION = re.compile(r"^[\s>*+•·–—-]*(?:\(?(?:\d{1,3}|[a-zA-Z])[.)]\s+)?[\s*_]*|[\s*_]+$")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")
_ENDS_LIKE_A_SENTENCE = re.compile(r"[.!。！][\"'”’»)*_\s]*$")
_CONNECTIVES = frozenset(
    """
    yes no sure certainly overall summary sum short brief briefly answer answers following follows below above passage passages
    document documents context text texts information provided given based according conclusion conclude finally first second
    third additionally moreover furthermore note detail details point points key main here
    oui non certainement bref résumé résume conclusion réponse réponses suivant suivante suivants suivantes ci dessous dessus
    passage passages document documents contexte texte information informations fourni fournis fournies selon voici enfin
    premièrement deuxièmement outre point points détail détails principal principaux
    ja nein kurz zusammenfassung antwort folgende folgendes laut dokumente dokument passagen si resumen respuesta siguiente
    siguientes según documentos
    """.split()
)
_FOLDED_CONNECTIVES = frozenset(map(fold, _CONNECTIVES))
_SAYING = (
    r"(?:say|state|mention|specif|cover|address|answer|indicat|describ|discuss|explain|tell|disclos|reveal|give|provid|contain)"
)
_DISANT = r"(?:disent|dit|précis|mentionn|indiqu|traite|contien|couvr|répond|donn|fourni|parl)"
_GIVEN = r"(?:passages?|documents?|sources?|context|excerpts?|text)"
_FOURNIS = r"(?:passages?|documents?|sources?|contexte|extraits?|textes?)"
_GAP = re.compile(
    rf"""
    \b{_GIVEN}\b[^.]{{0,30}}?\b(?:do|does|did)(?:\ not|n['’]t)\ (?:\w+\ )?{_SAYING}
    | \b{_GIVEN}\b[^.]{{0,30}}?\b(?:(?:is|are)\ silent|{_SAYING}\w*\ (?:no|nothing)\b)
    | \b(?:not|nothing|no)\b[^.]{{0,40}}?\b(?:{_SAYING}\w*|information|found|details?)\b[^.]{{0,40}}?
      \b(?:in|by)\ (?:the|these|any)\ (?:\w+\ )?{_GIVEN}\b
    | \b{_FOURNIS}\b[^.]{{0,20}}?\b(?:ne|n['’])\s?(?:\w+\ )?{_DISANT}
    | \b(?:aucune?|rien|pas)\b[^.]{{0,60}}?\bdans\ (?:les|ces|le|ce)\ {_FOURNIS}\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A sentence that says what the passages leave open. There is nothing in them to compare it with."""
_SOURCES = re.compile(
    r"(?:\A|\n)[ \t]*[#*_ ]*(?:sources?|references?|citations?|références?|quellen|fuentes|fonti|bibliograph\w*)[*_ ]*:?[*_ ]*\n"
    r"(?:[ \t]*(?:\n|(?:[-*•][ \t]*)?[\[(【]?\^?\d{1,4}[^\n]*(?:\n|\Z)))+\Z",
    re.IGNORECASE,
)
_DEFINITION = re.compile(r"^[ ]{0,3}\[\^?\d{1,4}\]:[^\n]*(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a sentence with the markers that stand at its end."""

    text: str
    markers: tuple[int, ...]
    """Positions in the sequence of markers."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A sentence that asserts something, cut at its markers."""

    start: int
    end: int
    """Span in the text, markers included."""
    text: str
    """Without markers."""
    segments: tuple[Segment, ...]


def without_source_list(text: str) -> str:
    """The text without a list of sources at its end and without link definitions under a number.

    Sources are data of ours; a model's own list could name any page, and a definition turns a citation into a link.
    """
    return _SOURCES.sub("", _DEFINITION.sub("", text)).rstrip() if "\n" in text or text.lstrip().startswith("[") else text


def assertions_in(text: str, markers: Sequence[Marker], harmless: Collection[str] = ()) -> list[Assertion]:
    """The sentences that assert something, in order; every marker that cites belongs to exactly one.

    A marker belongs to the sentence it stands in, or else to the one before it; at the start of a line to the one after it.
    Not assertions, unless they are cited: headings and lead-ins, questions, mere connectives, what is in ``harmless``, and
    sentences that say what the passages leave open. A block of code is one assertion.

    Args:
        text: The answer.
        markers: Those of the text.
        harmless: Sentences that assert nothing, such as the refusal.
    """
    bare = _blanked(text, markers)
    spans = _sentence_spans(bare)
    owned = _owners(text, spans, markers)
    ignored = {" ".join(sentence.split()) for sentence in harmless}
    found = []
    for position, (start, end) in enumerate(spans):
        own = owned.get(position, [])
        wording = " ".join(bare[start:end].split())
        if not own and (wording in ignored or not _asserts(bare[start:end])):
            continue
        first = min([start, *(markers[one].start for one in own)])
        last = max([end, *(markers[one].end for one in own)])
        found.append(Assertion(first, last, wording, _segments(bare, markers, own, first, last)))
    return found


def _blanked(text: str, markers: Sequence[Marker]) -> str:
    pieces, position = [], 0
    for marker in markers:
        pieces += [text[position : marker.start], " " * (marker.end - marker.start)]
        position = marker.end
    return "".join([*pieces, text[position:]])


def _sentence_spans(bare: str) -> list[tuple[int, int]]:
    """Spans of the sentences; a block of code is one."""
    blocks = [span for span in code_spans(bare) if "\n" in bare[slice(*span)]]
    spans: list[tuple[int, int]] = []
    position = 0
    for start, end in (*blocks, (len(bare), len(bare))):
        spans += [(position + first, position + last) for first, last in sentences(bare[position:start])]
        if end > start:
            spans.append((start, end))
        position = end
    return [(start, end) for start, end in spans if _WORD.search(bare, start, end)]


def _owners(text: str, spans: Sequence[tuple[int, int]], markers: Sequence[Marker]) -> dict[int, list[int]]:
    """Position of a sentence to the positions of its markers that cite."""
    owned: dict[int, list[int]] = {}
    for position, marker in enumerate(markers):
        if marker.cited and spans:
            owned.setdefault(_owner(text, spans, marker), []).append(position)
    return owned


def _owner(text: str, spans: Sequence[tuple[int, int]], marker: Marker) -> int:
    after = bisect_left(spans, marker.start, key=lambda span: span[0])
    line = text.rfind("\n", 0, marker.start) + 1
    if after < len(spans) and not text[line : marker.start].strip(" \t-*•>"):
        end_of_line = text.find("\n", marker.end)
        if end_of_line < 0 or spans[after][0] < end_of_line:
            return after
    return max(after - 1, 0)


def _segments(bare: str, markers: Sequence[Marker], own: Sequence[int], start: int, end: int) -> tuple[Segment, ...]:
    """The sentence cut after each group of markers; what is too short to say anything goes with its neighbour."""
    pieces: list[tuple[str, list[int]]] = []
    position = start
    for one in own:
        marker = markers[one]
        between = bare[position : marker.start]
        if pieces and not _WORD.search(between):
            pieces[-1][1].append(one)
        else:
            pieces.append((between, [one]))
        position = marker.end
    pieces.append((bare[position:end], []))
    return _joined(pieces)


def _joined(pieces: Sequence[tuple[str, list[int]]]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    waiting: list[int] = []
    pending = ""  # a short beginning such as "According to [1]," is read with what it introduces
    for piece, markers in pieces:
        text, own = f"{pending} {piece}", [*waiting, *markers]
        if len(analyze(text)) < _LEAST_TERMS and not any(map(str.isdigit, text)):
            pending, waiting = text, own
            continue
        segments.append(Segment(" ".join(text.split()), tuple(own)))
        pending, waiting = "", []
    if waiting or (pending.strip() and segments):
        last = segments.pop() if segments else Segment("", ())
        segments.append(Segment(" ".join(f"{last.text} {pending}".split()), (*last.markers, *waiting)))
    elif pending.strip():
        segments.append(Segment(" ".join(pending.split()), ()))
    if len(segments) > 1 and not segments[-1].markers:
        # What follows the last marker of a sentence rests on all that the sentence cites.
        cited = tuple(one for segment in segments for one in segment.markers)
        segments[-1] = Segment(segments[-1].text, cited)
    return tuple(segments)


def _asserts(sentence: str) -> bool:
    plain = _DECORATION.sub("", sentence)
    if not _WORD.search(plain) or plain.rstrip("\"'”’»)*_ ").endswith(("?", "？", "؟")):
        return False
    words = _WORD.findall(plain)
    is_short = len(words) <= _LONGEST_HEADING
    if is_short and _HEADING.match(sentence) and not _ENDS_LIKE_A_SENTENCE.search(plain):
        return False
    if is_short and plain.rstrip("*_ ").endswith((":", "：")):
        return False
    if _GAP.search(plain):
        return False
    terms = [word for word in map(fold, words) if word not in _FOLDED_CONNECTIVES]
    return bool(terms) and bool(analyze(" ".join(terms)))
