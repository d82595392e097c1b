"""Tying a claim to the sentences of the passages that carry it: by its words, then by the likeness of embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from easy_knowledge_retriever.operations.claim_facts import (
    Quantity,
    contradicts,
    list_numbers,
    misplaces_numbers,
    missing_names,
    missing_quantities,
    opposes,
    quantities,
    swaps_roles,
)
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Passage

__all__ = [
    "STRETCH",
    "SUPPORT",
    "WEAKEST",
    "Alignment",
    "Evidence",
    "Sentence",
    "coverage",
    "idf_of",
    "share",
    "weakest_stretch",
    "weights_of",
]

SUPPORT = 0.6
"""Share of a claim's terms, by idf, that the sentences which carry it must hold."""
STRETCH = 6
"""Neighbouring terms of a claim that are looked at together: an addition to a true sentence stands in one place."""
WEAKEST = 0.35
"""Share of every such stretch that the sentences must hold."""
_COMPLETE = 0.9
"""Share of terms from which nothing further is looked for."""
_GAIN = 0.15
"""Share of terms a further sentence must add."""
_MOST_SENTENCES = 3
_PARTLY = 0.3
"""Share of terms from which the rest of a claim is looked at by itself."""
_WORD = re.compile(r"[^\W_]+")
_BEGINNINGS = 4
"""Sentences tried as the first one."""
_NEARLY = 0.15
"""How much less of the terms than the first such a sentence may hold."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage."""

    passage: Passage
    start: int
    end: int
    """Span in the passage's text."""
    terms: frozenset[str]

    @property
    def text(self) -> str:
        """The sentence."""
        return self.passage.chunk.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Alignment:
    """What a part of a claim rests on."""

    text: str
    sentences: tuple[Sentence, ...] = ()
    """Those that carry it, or the nearest one; the best first."""
    supported: bool = False
    judged_by: Literal["", "lexical", "embedding", "judge"] = ""
    reason: str = ""
    coverage: float = 0.0
    settled: bool = False
    """True if nothing further could change the verdict."""
    gap: str = ""
    """The stretch that the sentences hold least of, where they hold a part of the rest."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a claim, read."""

    text: str
    terms: tuple[str, ...]
    quantities: frozenset[Quantity]
    language: str
    numbers: tuple[int, ...]
    """The passages it cites."""


@dataclass(slots=True)
class Evidence:
    """The sentences of the passages, read when first asked for."""

    passages: Mapping[int, Passage]
    language: str = ""
    """That of the answer; empty if unknown."""
    _idf: dict[str, float] = field(default_factory=dict)
    _read: dict[int, tuple[Sentence, ...]] = field(default_factory=dict)
    _languages: dict[int, str] = field(default_factory=dict)
    _heads: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def idf(self) -> Mapping[str, float]:
        """Of the terms, over the passages."""
        if not self._idf:
            self._idf = idf_of(analyze(p.chunk.text, self.language_of(number) or None) for number, p in self.passages.items())
        return self._idf

    def language_of(self, number: int) -> str:
        """Language of a passage; empty if unknown."""
        if number not in self._languages:
            self._languages[number] = guess_language(self.passages[number].chunk.indexed_text)
        return self._languages[number]

    def same_language(self, numbers: Iterable[int]) -> bool:
        """Whether answer and passages may be compared word by word."""
        return not self.language or any(self.language_of(number) in {"", self.language} for number in numbers)

    def sentences_of(self, number: int) -> tuple[Sentence, ...]:
        """The sentences of a passage."""
        if number not in self._read:
            passage, language = self.passages[number], self.language_of(number)
            text = passage.chunk.text
            spans = sentences(text) or ((0, len(text)),)
            self._read[number] = tuple(
                Sentence(passage, start, end, frozenset(analyze(text[start:end], language or None))) for start, end in spans
            )
        return self._read[number]

    def heading_of(self, number: int) -> frozenset[str]:
        """Terms of the headings a passage stands under."""
        if number not in self._heads:
            self._heads[number] = frozenset(analyze(self.passages[number].chunk.heading, self.language_of(number) or None))
        return self._heads[number]

    def align(self, text: str, numbers: Sequence[int]) -> Alignment:
        """What a part of a claim rests on among the passages of these numbers, by its words.

        The sentence that holds most of its terms and quantities is taken, with up to two more that add to it. The claim is
        supported if they and their headings hold :data:`SUPPORT` of its terms and :data:`WEAKEST` of every stretch of them,
        all its quantities and names, and do not contradict it; if they do not, the next best sentences are tried.
        """
        language = self.language or next((code for n in numbers if (code := self.language_of(n))), "")
        part = _Part(text, analyze(text, language or None), quantities(text), language, tuple(numbers))
        weights = weights_of(part.terms, self.idf)
        pool = [sentence for number in numbers for sentence in self.sentences_of(number)]
        shares = [share(weights, sentence.terms) for sentence in pool]
        order = sorted(range(len(pool)), key=lambda i: -shares[i])
        nearest = self._aligned(part, weights, self._completed(part, weights, pool[order[0]], pool))
        if nearest.supported:
            return nearest
        # Another sentence may carry it all the same, but only if it says as much: who changes a number or adds a "not"
        # to a sentence must not be covered by the others around it.
        for i in order[1:_BEGINNINGS]:
            if shares[i] < shares[order[0]] - _NEARLY:
                break
            others = [s for s, held in zip(pool, shares, strict=True) if held <= shares[i] and s is not pool[order[0]]]
            found = self._aligned(part, weights, self._completed(part, weights, pool[i], others))
            if found.supported:
                return found
        return nearest

    def _aligned(self, part: _Part, weights: Mapping[str, float], chosen: tuple[Sentence, ...]) -> Alignment:
        covered = share(weights, self._held(chosen))
        reason = self._fault(part, chosen)
        if reason:
            return Alignment(part.text, chosen, reason=reason, coverage=covered, settled=reason == "numbers", judged_by="lexical")
        enough = next((k for k in range(1, len(chosen) + 1) if self._carry(part, weights, chosen[:k])), None)
        if enough is None:
            gap = _gap(part, weights, self._held(chosen)) if covered >= _PARTLY else ""
            return Alignment(part.text, chosen, reason="words", coverage=covered, judged_by="lexical", gap=gap)
        return Alignment(part.text, chosen[:enough], supported=True, judged_by="lexical", coverage=covered, settled=True)

    def _held(self, chosen: Sequence[Sentence]) -> frozenset[str]:
        return frozenset().union(*(self.heading_of(s.passage.number) | s.terms for s in chosen))

    def _carry(self, part: _Part, weights: Mapping[str, float], chosen: Sequence[Sentence]) -> bool:
        held = self._held(chosen)
        if share(weights, held) < SUPPORT or weakest_stretch(part.terms, weights, held) < WEAKEST:
            return False
        return not missing_quantities(part.quantities, self._quantities_of(chosen))

    def nearest(self, text: str, number: int) -> Sentence:
        """The sentence of one passage that has most of a text's terms."""
        weights = weights_of(analyze(text, self.language or self.language_of(number) or None), self.idf)
        return max(self.sentences_of(number), key=lambda s: (share(weights, s.terms), -s.start))

    def alone(self, text: str, number: int) -> bool:
        """Whether one passage supports a text by itself."""
        return self.align(text, (number,)).supported

    def candidates(self, text: str, numbers: Sequence[int], limit: int) -> list[Sentence]:
        """So many sentences that may say the same, those with most common terms first."""
        weights = weights_of(analyze(text, self.language or None), self.idf)
        pool = [sentence for number in numbers for sentence in self.sentences_of(number) if len(sentence.text.split()) >= 3]
        return sorted(pool, key=lambda s: -share(weights, s.terms))[:limit]

    def _completed(
        self, part: _Part, weights: Mapping[str, float], first: Sentence, pool: Sequence[Sentence]
    ) -> tuple[Sentence, ...]:
        """A sentence with those that add to it."""
        chosen, held = [first], set(first.terms)
        best = share(weights, held)
        while best < _COMPLETE and len(chosen) < _MOST_SENTENCES:
            # A sentence that adds nothing but a number is about something else that has this number.
            gains = [share(weights, held | s.terms) if _adds_words(s.terms & weights.keys(), held) else 0.0 for s in pool]
            gain = max(gains)
            if gain < best + _GAIN:
                break
            best = gain
            chosen.append(pool[gains.index(gain)])
            held |= chosen[-1].terms
        missing = missing_quantities(part.quantities, self._quantities_of(chosen))
        if missing:
            chosen += [s for s in pool if _adds_words(weights.keys() & s.terms, first.terms) and _holds_all(s, missing)][:1]
        return tuple(chosen)

    def _quantities_of(self, chosen: Sequence[Sentence]) -> frozenset[Quantity]:
        """Those of the sentences, of their headings and of the numbers of the list items in their passages."""
        chunks = {sentence.passage.number: sentence.passage.chunk for sentence in chosen}.values()
        texts = (*(sentence.text for sentence in chosen), *(f"{chunk.heading} . {chunk.document_name}" for chunk in chunks))
        listed = frozenset(quantity for chunk in chunks for quantity in list_numbers(chunk.text))
        return listed.union(*(quantities(text, every_word=True) for text in texts))

    def _fault(self, part: _Part, chosen: Sequence[Sentence]) -> str:
        """What a claim says that must be so in its source and is not."""
        text, language, same = part.text, part.language, self.same_language(part.numbers)
        if self._numbers_differ(part, chosen, same=same):
            return "numbers"
        main, whole = chosen[0].text, " ".join(sentence.text for sentence in chosen)
        if contradicts(text, main, language, same_language=same) and contradicts(text, whole, language, same_language=same):
            return "negation"
        if not same:
            return ""
        chunks = [self.passages[number].chunk for number in part.numbers]
        if missing_names(text, " ".join(f"{chunk.indexed_text} {chunk.document_name}" for chunk in chunks), language):
            return "names"
        if opposes(text, main):
            return "negation"
        return "roles" if swaps_roles(text, main, language) else ""

    def _numbers_differ(self, part: _Part, chosen: Sequence[Sentence], *, same: bool) -> bool:
        if missing_quantities(part.quantities, self._quantities_of(chosen)):
            return True
        source = f"{chosen[0].passage.chunk.heading} . {chosen[0].text}"
        return same and len(chosen) == 1 and misplaces_numbers(part.text, source)


def _holds_all(sentence: Sentence, wanted: Iterable[Quantity]) -> bool:
    return not missing_quantities(wanted, quantities(sentence.text, every_word=True))


def _gap(part: _Part, weights: Mapping[str, float], held: Container[str]) -> str:
    words = [(m.start(), m.end(), terms) for m in _WORD.finditer(part.text) if (terms := analyze(m[0], part.language or None))]
    if len(words) <= STRETCH:
        return ""

    def share_of(at: int) -> float:
        return share({term: weights.get(term, 1.0) for *_, terms in words[at : at + STRETCH] for term in terms}, held)

    at = min(range(len(words) - STRETCH + 1), key=share_of)
    return part.text[words[at][0] : words[at + STRETCH - 1][1]]


def _adds_words(terms: AbstractSet[str], held: AbstractSet[str]) -> bool:
    return any(term.isalpha() for term in terms - held)


def idf_of(texts: Iterable[Sequence[str]]) -> dict[str, float]:
    """Inverse document frequency of each term over some texts, ``ln(1 + N / n)``."""
    sets = [set(terms) for terms in texts]
    counts = Counter(term for terms in sets for term in terms)
    return {term: math.log1p(len(sets) / count) for term, count in counts.items()}


def weights_of(terms: Iterable[str], idf: Mapping[str, float]) -> dict[str, float]:
    """What each term counts; a term no text holds weighs as much as the rarest."""
    rarest = max(idf.values(), default=1.0)
    return {term: idf.get(term, rarest) for term in terms}


def share(weights: Mapping[str, float], held: Container[str]) -> float:
    """Share of the weight of the terms that are held."""
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in held) / total if total else 0.0


def weakest_stretch(terms: Sequence[str], weights: Mapping[str, float], held: Container[str]) -> float:
    """The least share of :data:`STRETCH` neighbouring terms that is held; of all terms if there are fewer."""
    stretches = (terms[at : at + STRETCH] for at in range(max(1, len(terms) - STRETCH + 1)))
    return min(share({term: weights[term] for term in stretch}, held) for stretch in stretches)


def coverage(wanted: Iterable[str], held: Iterable[str], idf: Mapping[str, float]) -> float:
    """Share of the wanted terms that are held, weighted by idf."""
    return share(weights_of(wanted, idf), frozenset(held))
