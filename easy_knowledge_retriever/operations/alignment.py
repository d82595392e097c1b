"""Tying a claim to the sentences of the passages that carry it: by its words, then by the likeness of embeddings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.claim_facts import (
    Quantity,
    contradicts,
    misplaces_numbers,
    missing_names,
    missing_quantities,
    opposes,
    quantities,
    swaps_roles,
)
from easy_knowledge_retriever.operations.likeness import PROBES, likeness
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Passage

__all__ = [
    "ALIKE",
    "STRETCH",
    "SUPPORT",
    "WEAKEST",
    "Alignment",
    "Evidence",
    "Sentence",
    "align_by_embedding",
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
ALIKE = 0.7
"""Likeness of embeddings from which a sentence carries a claim that has other words."""
_COMPLETE = 0.9
"""Share of terms from which nothing further is looked for."""
_GAIN = 0.15
"""Share of terms a further sentence must add."""
_MOST_SENTENCES = 3
_EMBEDDED_TEXTS = 40
"""Texts embedded for one answer, probes included: this bounds the time of a local model."""
_CANDIDATES = 6
"""Sentences compared with one claim by embedding."""


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

        The sentence that covers most of its terms is taken, with up to two more that add to it. The claim is supported if
        they and their headings hold :data:`SUPPORT` of its terms and :data:`WEAKEST` of every stretch of them, all its
        quantities and names, and do not contradict it.
        """
        same = self.same_language(numbers)
        language = self.language or next((code for n in numbers if (code := self.language_of(n))), "")
        terms = analyze(text, language or None)
        weights = weights_of(terms, self.idf)
        chosen = self._chosen(text, weights, numbers, language)
        covered = share(weights, self._held(chosen))
        reason = self._fault(text, chosen, numbers, language, same=same)
        if reason:
            return Alignment(text, chosen, reason=reason, coverage=covered, settled=reason == "numbers", judged_by="lexical")
        enough = next((k for k in range(1, len(chosen) + 1) if self._carry(text, terms, weights, chosen[:k])), None)
        if enough is None:
            return Alignment(text, chosen, reason="words", coverage=covered, judged_by="lexical")
        return Alignment(text, chosen[:enough], supported=True, judged_by="lexical", coverage=covered, settled=True)

    def _held(self, chosen: Sequence[Sentence]) -> frozenset[str]:
        return frozenset().union(*(self.heading_of(s.passage.number) | s.terms for s in chosen))

    def _carry(self, text: str, terms: Sequence[str], weights: Mapping[str, float], chosen: Sequence[Sentence]) -> bool:
        held = self._held(chosen)
        if share(weights, held) < SUPPORT or weakest_stretch(terms, weights, held) < WEAKEST:
            return False
        return not missing_quantities(quantities(text), self._quantities_of(chosen))

    def nearest(self, text: str, number: int) -> Sentence:
        """The sentence of one passage that has most of a text's terms."""
        weights = weights_of(analyze(text, self.language or self.language_of(number) or None), self.idf)
        return max(self.sentences_of(number), key=lambda s: (share(weights, s.terms), -s.start))

    def alone(self, text: str, number: int) -> bool:
        """Whether one passage supports a text by itself."""
        return self.align(text, (number,)).supported

    def candidates(self, text: str, numbers: Sequence[int]) -> list[Sentence]:
        """Sentences worth comparing by embedding, those with most common terms first."""
        weights = weights_of(analyze(text, self.language or None), self.idf)
        pool = [sentence for number in numbers for sentence in self.sentences_of(number) if len(sentence.text.split()) >= 3]
        return sorted(pool, key=lambda s: -share(weights, s.terms))[:_CANDIDATES]

    def _chosen(self, text: str, weights: Mapping[str, float], numbers: Sequence[int], language: str) -> tuple[Sentence, ...]:
        pool = [sentence for number in numbers for sentence in self.sentences_of(number)]
        scores = [round(share(weights, s.terms), 6) for s in pool]
        best = max(scores)
        ties = [s for s, score in zip(pool, scores, strict=True) if score == best]
        first = next((s for s in ties[:4] if not contradicts(text, s.text, language)), ties[0])
        chosen, held = [first], set(first.terms)
        while best < _COMPLETE and len(chosen) < _MOST_SENTENCES:
            # A sentence that adds nothing but a number is about something else that has this number.
            gains = [share(weights, held | s.terms) if _adds_words(s.terms & weights.keys(), held) else 0.0 for s in pool]
            gain = max(gains)
            if gain < best + _GAIN:
                break
            best = gain
            chosen.append(pool[gains.index(gain)])
            held |= chosen[-1].terms
        return (*chosen, *self._holders(text, frozenset(weights), chosen, pool))

    def _holders(
        self, text: str, terms: frozenset[str], chosen: Sequence[Sentence], pool: Sequence[Sentence]
    ) -> tuple[Sentence, ...]:
        """A sentence for quantities that the chosen ones lack, if there is one that shares more of the claim than they."""
        missing = missing_quantities(quantities(text), self._quantities_of(chosen))
        if not missing:
            return ()
        for sentence in pool:
            held = quantities(sentence.text, every_word=True)
            if _adds_words(terms & sentence.terms, chosen[0].terms) and not missing_quantities(missing, held):
                return (sentence,)
        return ()

    def _quantities_of(self, chosen: Sequence[Sentence]) -> frozenset[Quantity]:
        headings = {sentence.passage.chunk.heading for sentence in chosen}
        names = {sentence.passage.chunk.document_name for sentence in chosen}
        texts = (*(sentence.text for sentence in chosen), *headings, *names)
        return frozenset().union(*(quantities(text, every_word=True) for text in texts))

    def _fault(self, text: str, chosen: Sequence[Sentence], numbers: Sequence[int], language: str, *, same: bool) -> str:
        """What a claim says that must be so in its source and is not."""
        if self._numbers_differ(text, chosen, same=same):
            return "numbers"
        main, whole = chosen[0].text, " ".join(sentence.text for sentence in chosen)
        if contradicts(text, main, language, same_language=same) and contradicts(text, whole, language, same_language=same):
            return "negation"
        if not same:
            return ""
        chunks = [self.passages[number].chunk for number in numbers]
        if missing_names(text, " ".join(f"{chunk.indexed_text} {chunk.document_name}" for chunk in chunks), language):
            return "names"
        if opposes(text, whole):
            return "negation"
        return "roles" if swaps_roles(text, main, language) else ""

    def _numbers_differ(self, text: str, chosen: Sequence[Sentence], *, same: bool) -> bool:
        if missing_quantities(quantities(text), self._quantities_of(chosen)):
            return True
        source = f"{chosen[0].passage.chunk.heading} . {chosen[0].text}"
        return same and len(chosen) == 1 and misplaces_numbers(text, source)


def _adds_words(terms: AbstractSet[str], held: AbstractSet[str]) -> bool:
    return any(term.isalpha() for term in terms - held)


async def align_by_embedding(
    pending: Sequence[tuple[Alignment, Sequence[int]]], evidence: Evidence, embedding: EmbeddingService
) -> list[Alignment]:
    """The alignments again, decided by embeddings where words did not decide, with one call for all.

    Each claim is compared with the sentences of its passages that have most of its words; a claim beyond the number of
    texts that may be embedded stays as it is.

    Args:
        pending: What words did not settle, with the numbers of the passages it cites.
        evidence: The passages.
        embedding: Embeds claims and sentences.

    Raises:
        UpstreamError: The embedding model failed.
    """
    texts: dict[str, int] = {probe: row for row, probe in enumerate(PROBES)}
    wanted: dict[int, list[Sentence]] = {}
    for position, (alignment, numbers) in enumerate(pending):
        candidates = evidence.candidates(alignment.text, numbers)
        added = {alignment.text, *(c.text for c in candidates)} - texts.keys()
        if candidates and len(texts) + len(added) <= _EMBEDDED_TEXTS:
            wanted[position] = candidates
            for text in (alignment.text, *(c.text for c in candidates)):
                texts.setdefault(text, len(texts))
    if not wanted:
        return [alignment for alignment, _ in pending]
    vectors = await embedding.embed(list(texts), "document")
    found = [alignment for alignment, _ in pending]
    for position, candidates in wanted.items():
        rows = vectors[[texts[candidate.text] for candidate in candidates]]
        row = texts[found[position].text]
        scores = likeness(vectors[row : row + 1], rows, vectors[: len(PROBES)])[0]
        best = int(scores.argmax())
        found[position] = _by_likeness(found[position], candidates[best], float(scores[best]), evidence)
    return found


def _by_likeness(alignment: Alignment, nearest: Sentence, score: float, evidence: Evidence) -> Alignment:
    """Supported if it is near enough, unless quantities or negations differ."""
    number = nearest.passage.number
    same = evidence.same_language((number,))
    language = evidence.language or evidence.language_of(number)
    chosen = (nearest, *(s for s in alignment.sentences if s is not nearest)) if same else (nearest,)
    if contradicts(alignment.text, nearest.text, language, same_language=same):
        return replace(alignment, sentences=chosen[:1], reason="negation", judged_by="embedding")
    supported = score >= ALIKE and alignment.reason == "words"
    if not supported:
        return replace(alignment, sentences=chosen[:1], judged_by="embedding")
    return replace(alignment, sentences=chosen[:1], supported=True, reason="", judged_by="embedding", settled=True)


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
