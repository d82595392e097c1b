"""Checking the citations of an answer against the passages they point at."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Citation, Passage, Reference

__all__ = ["SUPPORT", "CheckedAnswer", "check_citations", "idf_of", "quote_of", "references_of"]

SUPPORT = 0.5
"""Share of a claim's terms, by idf, that the cited passage must hold."""

_MARKER = re.compile(r"[ \t]*\[(\d+(?:\s*[,;–-]\s*\d+)*)\]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer whose citations all point at passages that exist."""

    text: str
    citations: tuple[Citation, ...] = ()
    unknown: int = 0
    """Citations taken away because no passage has their number."""
    unsupported: int = 0
    """Citations whose passage does not say what is claimed; they stay, marked."""


def check_citations(text: str, passages: Sequence[Passage]) -> CheckedAnswer:
    """Parses ``[1]``, ``[1, 2]`` and ``[1-3]``; takes unknown numbers away; ties each claim to the sentence it rests on.

    A claim is the sentence that a marker ends. It counts as supported if the passage holds at least :data:`SUPPORT` of
    its terms, weighted by idf over the passages, and every number in it.

    Args:
        text: The answer as the model wrote it.
        passages: What it was given.
    """
    known = {passage.number: passage for passage in passages}
    cleaned, markers, unknown = _cleaned(text, known)
    idf = idf_of(analyze(passage.chunk.text) for passage in passages)
    citations: list[Citation] = []
    for claim, numbers in _claims(cleaned, markers):
        for number in numbers:
            citation = _citation(claim, known[number], idf)
            if citation not in citations:
                citations.append(citation)
    return CheckedAnswer(cleaned, tuple(citations), unknown, sum(not c.supported for c in citations))


def _numbers(marker: str) -> list[int]:
    numbers: list[int] = []
    for part in re.split(r"\s*[,;]\s*", marker):
        ends = [int(end) for end in re.split(r"\s*[–-]\s*", part)]
        first, last = ends[0], ends[-1]
        numbers += range(first, last + 1) if first <= last < first + 100 else ends
    return list(dict.fromkeys(numbers))


def _cleaned(text: str, known: Mapping[int, Passage]) -> tuple[str, list[tuple[int, int, list[int]]], int]:
    """The text with unknown numbers taken out, the markers left (start, end, numbers), and how many were taken out."""
    pieces: list[str] = []
    markers: list[tuple[int, int, list[int]]] = []
    position = length = unknown = 0
    for match in _MARKER.finditer(text):
        before = text[position : match.start()]
        cited = _numbers(match.group(1))
        good = [number for number in cited if number in known]
        unknown += len(cited) - len(good)
        if len(good) == len(cited):
            marker = match.group()
        elif good:
            marker = match.group()[: match.group().index("[")] + "".join(f"[{number}]" for number in good)
        else:
            marker = ""
        pieces += [before, marker]
        length += len(before)
        if good:
            markers.append((length, length + len(marker), good))
        length += len(marker)
        position = match.end()
    pieces.append(text[position:])
    return "".join(pieces), markers, unknown


def _claims(text: str, markers: Sequence[tuple[int, int, list[int]]]) -> list[tuple[str, list[int]]]:
    """Each marker with the sentence it stands in or follows."""
    bare = _blank(text, markers)
    spans = sentences(bare)
    claims = []
    for start, _, numbers in markers:
        before = [(s, e) for s, e in spans if s < start]
        if before:
            claims.append((bare[before[-1][0] : before[-1][1]], numbers))
        elif spans:
            claims.append((bare[spans[0][0] : spans[0][1]], numbers))
    return claims


def _blank(text: str, markers: Sequence[tuple[int, int, list[int]]]) -> str:
    pieces, position = [], 0
    for start, end, _ in markers:
        pieces += [text[position:start], " " * (end - start)]
        position = end
    return "".join([*pieces, text[position:]])


def idf_of(texts: Iterable[Sequence[str]]) -> dict[str, float]:
    """Inverse document frequency of each term over some texts, ``ln(1 + N / n)``."""
    sets = [set(terms) for terms in texts]
    counts = Counter(term for terms in sets for term in terms)
    return {term: math.log1p(len(sets) / count) for term, count in counts.items()}


def coverage(wanted: Iterable[str], held: Iterable[str], idf: Mapping[str, float]) -> float:
    """Share of the wanted terms that are held, weighted by idf; a term no text holds weighs as much as the rarest."""
    rarest = max(idf.values(), default=1.0)
    weights = {term: idf.get(term, rarest) for term in wanted}
    there = set(held)
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in there) / total if total else 0.0


def _citation(claim: str, passage: Passage, idf: Mapping[str, float]) -> Citation:
    text = passage.chunk.text
    terms = analyze(claim)
    spans = sentences(text)
    scored = [(coverage(terms, analyze(text[start:end]), idf), -position) for position, (start, end) in enumerate(spans)]
    best = -max(scored)[1] if scored else 0
    numbers = {number for number in _NUMBER.findall(claim)}
    supported = coverage(terms, analyze(passage.chunk.indexed_text), idf) >= SUPPORT
    supported = supported and numbers <= set(_NUMBER.findall(passage.chunk.indexed_text))
    return quote_of(passage, *(spans[best] if spans else (0, len(text))), supported=supported)


def quote_of(passage: Passage, start: int, end: int, *, supported: bool = True) -> Citation:
    """A citation of a span of a passage's text, on the page where the span begins."""
    chunk = passage.chunk
    quote = chunk.text[start:end]
    start += len(quote) - len(quote.lstrip())
    quote = quote.strip()
    offset = chunk.start + start
    return Citation(
        passage=passage.number,
        chunk_id=chunk.id,
        file_path=chunk.document_name,
        page=chunk.page_at(offset),
        quote=quote,
        supported=supported,
        start=offset,
        end=offset + len(quote),
    )


def references_of(citations: Sequence[Citation]) -> tuple[Reference, ...]:
    """The cited passages, each once, in order of first citation, with the pages and the first sentence cited."""
    grouped: dict[int, list[Citation]] = {}
    for citation in citations:
        grouped.setdefault(citation.passage, []).append(citation)
    return tuple(
        Reference(
            reference_id=str(number),
            file_path=group[0].file_path,
            pages=tuple(sorted({citation.page for citation in group if citation.page is not None})),
            passages=(number,),
            quote=next((c.quote for c in group if c.supported), group[0].quote),
        )
        for number, group in grouped.items()
    )
