"""Tying a claim to the sentences of the passages that carry it: by its words, then by the likeness of embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
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
    "share",
    "weakest_stretch",
]

SUPPORT = 0.6
"""Share of a claim's terms that the sentences which carry it must hold."""
STRETCH = 6
"""Neighbouring terms of a claim that are looked at together: an addition to a true sentence stands in one place."""
WEAKEST = 0.35
"""Share of every such stretch that the sentences must hold."""
_COMPLETE = 0.9
"""Share of terms from which nothing further is looked for."""
_BEGUN = 0.4
"""Share of terms from which others are looked for: three sentences with a third each say nothing together."""
_GAIN = 0.15
"""Share of terms a further sentence must add."""
_MOST_SENTENCES = 3
_PARTLY = 0.3
"""Share of terms from which the rest of a claim is looked at by itself."""
_WORD = re.compile(r"[^\W_]+")
_EDGES = re.compile(r"^(?:[\W_]*(?:\d{1,3}|[a-z])[.)] )?[\W_]+|^(?:\d{1,3}|[a-z])[.)] |[\W_]+$")
_WIDTH = 3
"""Terms of a long sentence that count, for each term of the claim."""
_NARROWEST = 20
_LEAD = 10
"""Terms at the beginning of a long sentence that count too: what all items of a list are about."""
_SAMPLE = 1200
"""Characters of a passage that tell its language."""
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
    sequence: tuple[str, ...] = ()
    """The terms in order."""

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
    _measured: dict[tuple[int, int], frozenset[Quantity]] = field(default_factory=dict)
    _beside: dict[int, frozenset[Quantity]] = field(default_factory=dict)
    _read: dict[int, tuple[Sentence, ...]] = field(default_factory=dict)
    _languages: dict[int, str] = field(default_factory=dict)
    _heads: dict[int, frozenset[str]] = field(default_factory=dict)

    def language_of(self, number: int) -> str:
        """Language of a passage; empty if unknown."""
        if number not in self._languages:
            self._languages[number] = guess_language(self.passages[number].chunk.indexed_text[:_SAMPLE])
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
            read = ((start, end, analyze(text[start:end], language or None)) for start, end in spans)
            self._read[number] = tuple(Sentence(passage, start, end, frozenset(terms), terms) for start, end, terms in read)
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
        terms = frozenset(part.terms)
        pool = [sentence for number in numbers for sentence in self.sentences_of(number)]
        wording = _wording(text)
        copied = next((sentence for sentence in pool if sentence.terms and _wording(sentence.text) == wording), None)
        if copied is not None:
            return Alignment(text, (copied,), supported=True, judged_by="lexical", coverage=1.0, settled=True)
        pool = [_locally(sentence, terms) for sentence in pool]
        shares = [share(terms, sentence.terms) for sentence in pool]
        order = sorted(range(len(pool)), key=lambda i: -shares[i])
        nearest = self._aligned(part, self._completed(part, pool[order[0]], pool))
        if nearest.supported:
            return nearest
        # Another sentence may carry it all the same, but only if it says as much: who changes a number or adds a "not"
        # to a sentence must not be covered by the others around it.
        for i in order[1:_BEGINNINGS]:
            if shares[i] < shares[order[0]] - _NEARLY:
                break
            others = [s for s, held in zip(pool, shares, strict=True) if held <= shares[i] and s is not pool[order[0]]]
            found = self._aligned(part, self._completed(part, pool[i], others))
            if found.supported:
                return found
        return nearest

    def _aligned(self, part: _Part, chosen: tuple[Sentence, ...]) -> Alignment:
        covered = share(frozenset(part.terms), self._held(chosen))
        reason = self._fault(part, chosen)
        if reason:
            return Alignment(part.text, chosen, reason=reason, coverage=covered, settled=reason == "numbers", judged_by="lexical")
        enough = next((k for k in range(1, len(chosen) + 1) if self._carry(part, chosen[:k])), None)
        if enough is None:
            literal = covered >= _PARTLY and self.same_language(part.numbers)  # two languages have words in common too
            gap = _gap(part, self._held(chosen)) if literal else ""
            return Alignment(part.text, chosen, reason="words", coverage=covered, judged_by="lexical", gap=gap)
        return Alignment(part.text, chosen[:enough], supported=True, judged_by="lexical", coverage=covered, settled=True)

    def _held(self, chosen: Sequence[Sentence]) -> frozenset[str]:
        return frozenset().union(*(self.heading_of(s.passage.number) | s.terms for s in chosen))

    def _carry(self, part: _Part, chosen: Sequence[Sentence]) -> bool:
        held = self._held(chosen)
        if share(frozenset(part.terms), held) < SUPPORT or weakest_stretch(part.terms, held) < WEAKEST:
            return False
        return not missing_quantities(part.quantities, self._quantities_of(chosen))

    def nearest(self, text: str, number: int) -> Sentence:
        """The sentence of one passage that has most of a text's terms."""
        terms = frozenset(analyze(text, self.language or self.language_of(number) or None))
        return max(self.sentences_of(number), key=lambda s: (share(terms, s.terms), -s.start))

    def alone(self, text: str, number: int) -> bool:
        """Whether one passage supports a text by itself."""
        return self.align(text, (number,)).supported

    def candidates(self, text: str, numbers: Sequence[int], limit: int) -> list[Sentence]:
        """So many sentences that may say the same, those with most common terms first."""
        terms = frozenset(analyze(text, self.language or None))
        pool = [sentence for number in numbers for sentence in self.sentences_of(number) if len(sentence.text.split()) >= 3]
        return sorted(pool, key=lambda s: -share(terms, s.terms))[:limit]

    def _completed(self, part: _Part, first: Sentence, pool: Sequence[Sentence]) -> tuple[Sentence, ...]:
        """A sentence with those that add to it."""
        terms = frozenset(part.terms)
        chosen, held = [first], set(first.terms)
        best = share(terms, held)
        while _BEGUN <= best < _COMPLETE and len(chosen) < _MOST_SENTENCES:
            # A sentence that adds nothing but a number is about something else that has this number.
            gains = [share(terms, held | s.terms) if _adds_words(s.terms & terms, held) else 0.0 for s in pool]
            gain = max(gains)
            if gain < best + _GAIN:
                break
            best = gain
            chosen.append(pool[gains.index(gain)])
            held |= chosen[-1].terms
        missing = missing_quantities(part.quantities, self._quantities_of(chosen))
        if missing:
            adding = (sentence for sentence in pool if _adds_words(terms & sentence.terms, first.terms))
            chosen += [s for s in adding if not missing_quantities(missing, self._quantities_in(s))][:1]
        return tuple(chosen)

    def _quantities_of(self, chosen: Sequence[Sentence]) -> frozenset[Quantity]:
        """Those of the sentences, of their headings and of the numbers of the list items in their passages."""
        beside = (self._beside_sentences(sentence.passage) for sentence in chosen)
        return frozenset().union(*beside, *map(self._quantities_in, chosen))

    def _quantities_in(self, sentence: Sentence) -> frozenset[Quantity]:
        key = (sentence.passage.number, sentence.start)
        if key not in self._measured:
            self._measured[key] = quantities(sentence.text, every_word=True)
        return self._measured[key]

    def _beside_sentences(self, passage: Passage) -> frozenset[Quantity]:
        if passage.number not in self._beside:
            chunk = passage.chunk
            named = quantities(f"{chunk.heading} . {chunk.document_name}", every_word=True)
            self._beside[passage.number] = named | list_numbers(chunk.text)
        return self._beside[passage.number]

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


def _locally(sentence: Sentence, terms: frozenset[str]) -> Sentence:
    """A sentence much longer than a claim with the terms of one place only: that which has most of the claim.

    A list of many items is one sentence, and somewhere in it stands nearly every word. Its beginning always counts.
    """
    width = max(_NARROWEST, _WIDTH * len(terms))
    sequence = sentence.sequence
    if len(sequence) <= width + _LEAD:
        return sentence
    starts = range(0, len(sequence) - width + 1, max(1, width // 8))
    best = max(starts, key=lambda at: len(terms.intersection(sequence[at : at + width])))
    return replace(sentence, terms=frozenset((*sequence[:_LEAD], *sequence[best : best + width])))


def _wording(text: str) -> str:
    """A sentence without the marks at its ends and the number of a list item."""
    return _EDGES.sub("", " ".join(text.split()))


def _gap(part: _Part, held: AbstractSet[str]) -> str:
    """The stretch of a claim that is held least, as it is written."""
    words = [(m.start(), m.end(), terms) for m in _WORD.finditer(part.text) if (terms := analyze(m[0], part.language or None))]
    if len(words) <= STRETCH:
        return ""
    stretches = [words[at : at + STRETCH] for at in range(len(words) - STRETCH + 1)]
    least = min(stretches, key=lambda stretch: share(frozenset(term for *_, terms in stretch for term in terms), held))
    return part.text[least[0][0] : least[-1][1]]


def _adds_words(terms: AbstractSet[str], held: AbstractSet[str]) -> bool:
    return any(term.isalpha() for term in terms - held)


def share(terms: AbstractSet[str], held: AbstractSet[str]) -> float:
    """Share of the terms that are held."""
    return len(terms & held) / len(terms) if terms else 0.0


def weakest_stretch(terms: Sequence[str], held: AbstractSet[str]) -> float:
    """The least share of :data:`STRETCH` neighbouring terms that is held; of all terms if there are fewer."""
    return min(share(frozenset(terms[at : at + STRETCH]), held) for at in range(max(1, len(terms) - STRETCH + 1)))
