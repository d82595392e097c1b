"""Checking what an answer asserts and cites against the passages it was written from."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from easy_knowledge_retriever.errors import EKRError
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.alignment import Alignment, Evidence
from easy_knowledge_retriever.operations.alignment_embedding import align_by_embedding
from easy_knowledge_retriever.operations.citation_markers import Cited, Marker, markers_in, take_out
from easy_knowledge_retriever.operations.claims import Assertion, Segment, assertions_in, without_source_list
from easy_knowledge_retriever.operations.editing import Edit, Edited
from easy_knowledge_retriever.operations.judging import JUDGE_FAILED, CitationJudge, Pair, Verdict
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.types import Chunk, Citation, Claim, Passage, Reference

__all__ = ["ALIGNMENT_FAILED", "CheckedAnswer", "check_citations", "check_words", "quote_of", "references_of"]

logger = logging.getLogger("easy_knowledge_retriever")

ALIGNMENT_FAILED = "alignment_failed"
"""Named in ``degraded`` when the embedding model failed while claims were compared, and words alone decided."""

_FAILURES = (EKRError, OSError, ValueError, TypeError, LookupError, RuntimeError, ArithmeticError)
"""What a judge of the user's may raise without taking the answer with it."""


@dataclass(frozen=True, slots=True)
class Checking:
    """What is asked where words do not settle whether a passage carries a claim."""

    embedding: EmbeddingService | None = None
    """Compares claims with sentences of other words or of another language."""
    judge: CitationJudge | Literal["llm"] | None = None
    """Has the last word; ``"llm"`` stands for the model that answers until :func:`asking_with` puts it there."""


WORDS_ONLY = Checking()


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer whose citations all point at passages that exist, on the pages where they stand."""

    text: str
    citations: tuple[Citation, ...] = ()
    claims: tuple[Claim, ...] = ()
    unknown: int = 0
    """Citations taken away because no passage has their number."""
    wrong_pages: int = 0
    """Pages that were replaced, or taken away where none is known."""
    degraded: tuple[str, ...] = ()

    @property
    def unsupported(self) -> int:
        """Claims that nothing they cite carries, or that cite nothing; they stay, marked."""
        return sum(not claim.supported for claim in self.claims)

    @property
    def uncited(self) -> int:
        """Claims that cite nothing."""
        return sum(not claim.citations for claim in self.claims)

    @property
    def counts(self) -> dict[str, int]:
        """All of it as numbers."""
        return {
            "claims": len(self.claims),
            "unsupported_claims": self.unsupported,
            "uncited_claims": self.uncited,
            "removed_citations": self.unknown,
            "wrong_pages": self.wrong_pages,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know, one sentence each."""
        rows = (
            (self.unknown, "citations of passages that were not given were removed"),
            (self.wrong_pages, "pages were wrong and were replaced"),
            (self.unsupported - self.uncited, "claims are not supported by what they cite"),
            (self.uncited if self.citations else 0, "claims cite nothing"),
        )
        return tuple(f"{number} {what}" for number, what in rows if number)


@dataclass(frozen=True, slots=True)
class _Part:
    """A segment of an assertion while it is checked."""

    assertion: int
    segment: Segment
    numbers: tuple[int, ...]
    """Passages it cites that exist."""
    alignment: Alignment


def check_words(text: str, passages: Sequence[Passage], harmless: Collection[str] = ()) -> CheckedAnswer:
    """The check by words alone: a pure function.

    - Numbers of passages that were not given are taken away. A page that is not where the claim's sentence stands is
      replaced by the one that is, from the stored spans.
    - Each sentence that asserts something is a claim. It is supported if the sentences of the passages it cites hold at
      least :data:`~easy_knowledge_retriever.operations.alignment.SUPPORT` of its terms, all its quantities with their
      units and all its names, and neither negate it nor exchange who does what. One that cites nothing is not.

    Args:
        text: The answer as the model wrote it.
        passages: What it was given.
        harmless: Sentences that assert nothing, such as the refusal.
    """
    check = _Check.of(text, passages, harmless)
    return check.result(check.parts())


async def check_citations(
    text: str, passages: Sequence[Passage], harmless: Collection[str] = (), checking: Checking = WORDS_ONLY
) -> CheckedAnswer:
    """As :func:`check_words`; claims that words do not settle are compared by embedding, then shown to the judge.

    One embedding call and one call of the judge at most, and none where words settle all. A failure of either is logged
    and named in ``degraded``.

    Args:
        text: The answer as the model wrote it.
        passages: What it was given.
        harmless: Sentences that assert nothing, such as the refusal.
        checking: What else is asked.
    """
    embedding, judge = checking.embedding, checking.judge
    check = _Check.of(text, passages, harmless)
    parts = check.parts()
    degraded: list[str] = []
    if embedding is not None and (open_ := _open(parts)):
        try:
            aligned = await align_by_embedding([(parts[i].alignment, parts[i].numbers) for i in open_], check.evidence, embedding)
        except EKRError as failure:
            logger.warning("the embedding model failed (%s); citations are checked by words alone", failure.code)
            degraded.append(ALIGNMENT_FAILED)
        else:
            for position, alignment in zip(open_, aligned, strict=True):
                parts[position] = replace(parts[position], alignment=alignment)
    if isinstance(judge, CitationJudge) and (open_ := _disputed(parts)):
        try:
            verdicts = await _verdicts(judge, [check.pair(parts[i]) for i in open_])
        except _FAILURES as failure:
            logger.warning("the judge of citations failed (%s)", getattr(failure, "code", type(failure).__name__))
            degraded.append(JUDGE_FAILED)
        else:
            for position, verdict in zip(open_, verdicts, strict=True):
                parts[position] = _judged(parts[position], verdict)
    return replace(check.result(parts), degraded=tuple(degraded))


def _open(parts: Sequence[_Part]) -> list[int]:
    return [i for i, part in enumerate(parts) if part.alignment.reason == "words" and not part.alignment.settled]


def _disputed(parts: Sequence[_Part]) -> list[int]:
    """What words did not settle: also what embeddings found alike, which is not yet the same."""
    return [
        i
        for i, p in enumerate(parts)
        if p.alignment.sentences and (not p.alignment.settled or p.alignment.judged_by == "embedding")
    ]


async def _verdicts(judge: CitationJudge, pairs: Sequence[Pair]) -> list[Verdict | None]:
    found = tuple(await judge.judge(pairs))
    if len(found) != len(pairs):
        raise ValueError(f"{len(found)} verdicts for {len(pairs)} claims")
    return [v if v is None or isinstance(v, Verdict) else Verdict(bool(v)) for v in found]


def _judged(part: _Part, verdict: Verdict | None) -> _Part:
    if verdict is None:
        return part
    reason = "" if verdict.supported else verdict.reason or part.alignment.reason or "judge"
    return replace(
        part, alignment=replace(part.alignment, supported=verdict.supported, reason=reason, judged_by="judge", settled=True)
    )


@dataclass(frozen=True, slots=True)
class _Check:
    """One answer, read."""

    text: str
    markers: tuple[Marker, ...]
    assertions: tuple[Assertion, ...]
    evidence: Evidence

    @classmethod
    def of(cls, text: str, passages: Sequence[Passage], harmless: Collection[str]) -> _Check:
        plain = without_source_list(text)
        markers = markers_in(plain, [passage.chunk.text for passage in passages])
        assertions = assertions_in(plain, markers, harmless)
        return cls(plain, markers, tuple(assertions), Evidence({p.number: p for p in passages}, guess_language(plain)))

    def parts(self) -> list[_Part]:
        """The segments of all assertions, each compared by words with what it cites."""
        return [self._part(at, segment) for at, assertion in enumerate(self.assertions) for segment in assertion.segments]

    def _part(self, assertion: int, segment: Segment) -> _Part:
        cited = [one.number for position in segment.markers for one in self.markers[position].cited]
        numbers = tuple(dict.fromkeys(number for number in cited if number in self.evidence.passages))
        if numbers:
            return _Part(assertion, segment, numbers, self.evidence.align(segment.text, numbers))
        reason = "unknown" if cited else "uncited"
        return _Part(assertion, segment, (), Alignment(segment.text, reason=reason, settled=True))

    def pair(self, part: _Part) -> Pair:
        """What a judge is shown: the claim and the passages it cites, with their headings."""
        chunks = [self.evidence.passages[number].chunk for number in part.numbers]
        return Pair(part.segment.text, "\n\n".join(chunk.indexed_text for chunk in chunks))

    def result(self, parts: Sequence[_Part]) -> CheckedAnswer:
        """The answer with its claims and citations, in a text with citations and pages put right."""
        cited = [self._citations(part) for part in parts]
        text = _Rewriting(self.text, self.evidence.passages)
        pages: dict[tuple[int, int], list[Citation]] = {}
        for part, citations in zip(parts, cited, strict=True):
            for position in part.segment.markers:
                for citation in citations:
                    pages.setdefault((position, citation.passage), []).append(citation)
        for position, marker in enumerate(self.markers):
            text.put(marker, {one.number: pages.get((position, one.number), []) for one in marker.cited})
        edited = text.edited()
        own: dict[int, list[tuple[_Part, tuple[Citation, ...]]]] = {}
        for pair in zip(parts, cited, strict=True):
            own.setdefault(pair[0].assertion, []).append(pair)
        claims = [self._claim(assertion, own[at], edited) for at, assertion in enumerate(self.assertions)]
        citations = tuple(dict.fromkeys(citation for claim in claims for citation in claim.citations))
        return CheckedAnswer(edited.text, citations, tuple(claims), text.unknown, text.wrong_pages)

    def _citations(self, part: _Part) -> tuple[Citation, ...]:
        found: list[Citation] = []
        for number in part.numbers:
            own = [sentence for sentence in part.alignment.sentences if sentence.passage.number == number]
            carries = part.alignment.supported and (bool(own) or self.evidence.alone(part.segment.text, number))
            nearest = own or [self.evidence.nearest(part.segment.text, number)]
            found += [quote_of(s.passage, s.start, s.end, supported=carries) for s in nearest]
        return tuple(found)

    def _claim(self, assertion: Assertion, own: Sequence[tuple[_Part, tuple[Citation, ...]]], text: Edited) -> Claim:
        failing = next((part.alignment for part, _ in own if not part.alignment.supported), None)
        deciding = failing or max((part.alignment for part, _ in own), key=lambda a: _WEIGHT[a.judged_by])
        return Claim(
            text=assertion.text,
            start=text.moved(assertion.start),
            end=text.moved(assertion.end),
            citations=tuple(dict.fromkeys(citation for _, citations in own for citation in citations)),
            supported=failing is None,
            judged_by=deciding.judged_by,
            reason=deciding.reason,
        )


_WEIGHT = {"": 0, "lexical": 1, "embedding": 2, "judge": 3}


@dataclass(slots=True)
class _Rewriting:
    """The text of an answer while its citations are put right."""

    text: str
    passages: Mapping[int, Passage]
    unknown: int = 0
    wrong_pages: int = 0
    _edits: list[Edit] = field(default_factory=list)

    def put(self, marker: Marker, citations: Mapping[int, Sequence[Citation]]) -> None:
        """Writes one marker, in order of the text: as it was if all of it is right."""
        kept = [one for one in marker.cited if one.number in self.passages]
        self.unknown += len(marker.cited) - len(kept)
        right = [self._with_pages(one, citations.get(one.number, ())) for one in kept]
        if not right:
            take_out(self.text, marker, self._edits)
        elif right != list(marker.cited):
            self._edits.append((marker.start, marker.end, "".join(map(_written, right))))

    def _with_pages(self, cited: Cited, citations: Sequence[Citation]) -> Cited:
        """The passage with the pages that are right: those given, or else those where its sentences stand."""
        if not cited.pages:
            return cited
        chunk = self.passages[cited.number].chunk
        stored = {page for citation in citations for page in _pages_of(citation, chunk)}
        supported = any(citation.supported for citation in citations)
        given = set(cited.pages)
        if given <= {span.page for span in chunk.pages} and (given & stored or not supported):
            return cited
        self.wrong_pages += 1
        return Cited(cited.number, tuple(dict.fromkeys(c.page for c in citations if c.page is not None)))

    def edited(self) -> Edited:
        """The text as it is now."""
        return Edited(self.text, self._edits)


def _pages_of(citation: Citation, chunk: Chunk) -> Sequence[int]:
    """Pages the quote stands on."""
    if citation.page is None or citation.end is None:
        return ()
    return range(citation.page, (chunk.page_at(max(citation.end - 1, chunk.start)) or citation.page) + 1)


def _written(cited: Cited) -> str:
    if not cited.pages:
        return f"[{cited.number}]"
    return f"[{cited.number}, {'p.' if len(cited.pages) == 1 else 'pp.'} {', '.join(map(str, cited.pages))}]"


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
