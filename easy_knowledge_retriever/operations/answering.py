"""Answers without a model: the sentences of the passages that answer, each cited, or a refusal."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from easy_knowledge_retriever.llm.base import EmbeddingService, Message
from easy_knowledge_retriever.operations.base import Answer, Answerer, AnswerRequest
from easy_knowledge_retriever.operations.citation_check import CheckedAnswer, quote_of
from easy_knowledge_retriever.operations.coverage import coverage, idf_of
from easy_knowledge_retriever.operations.likeness import PROBES
from easy_knowledge_retriever.text.analyzer import analyze, analyze_question
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS
from easy_knowledge_retriever.types import Citation, Claim, FloatVector, FloatVectors, Passage

__all__ = ["REFUSALS", "REFUSAL_THRESHOLD", "ExtractiveAnswerer", "SentenceScore", "refusal"]

REFUSAL_THRESHOLD = 0.44
"""Least score of the best sentence that is an answer. Calibrated by ``evaluation/calibration.py``."""
SIMILARITY_SHARE = 0.7
"""What the cosine counts in a score; the overlap of terms counts the rest."""
WITHOUT_NUMBER = 0.8
"""Factor of a sentence without a number where the question asks for one."""
EMBEDDED_SENTENCES = 24
"""Sentences embedded for one question, chosen by term overlap and the rank of their passage: this bounds the time."""
LONGEST_ANSWER = 4
"""Sentences in an answer."""
NEAR_BEST = 0.85
"""Share of the best score that a further sentence needs."""
SAME = 0.9
"""Cosine (or share of common terms) from which two sentences say the same."""

_ASKS_NUMBER = re.compile(
    r"\b(?:how (?:many|much|long|old|far|high|often)|percentage|(?:what|which) (?:year|date|number|amount|age)|deadline|fees?|"
    r"fines?|price|cost|combien|pourcentage|quel(?:le)? (?:date|année|montant|nombre|âge|délai)|délai|amende|tarif|"
    r"wie ?viele?|cuánt[oa]s?|quant[io]|hoeveel)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|hundred|thousand|million|"
    r"deux|trois|quatre|cinq|six|sept|huit|neuf|dix|douze|cent|mille)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"^(```|~~~)[^\n]*\n.*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
"""A fenced block: code is no sentence."""
_LIST_NUMBER = re.compile(r"^\W*\d+[.)]\s")

_REFUSALS = {
    "en": "The documents do not cover this question.",
    "fr": "Les documents ne traitent pas de cette question.",
    "de": "Die Dokumente behandeln diese Frage nicht.",
    "es": "Los documentos no tratan esta pregunta.",
    "it": "I documenti non trattano questa domanda.",
    "pt": "Os documentos não abordam esta pergunta.",
    "nl": "De documenten behandelen deze vraag niet.",
}
REFUSALS = frozenset(_REFUSALS.values())
"""Every sentence that :func:`refusal` may give."""
_UNGROUNDED = {
    "en": "There is no language model to answer without documents. Set an LLM service, or choose another mode.",
    "fr": "Aucun modèle de langue ne permet de répondre sans documents. Configurez un service LLM ou choisissez un autre mode.",
}


def refusal(question: str) -> str:
    """The sentence that says the documents do not cover a question, in the language of the question."""
    return _REFUSALS.get(_language(question), _REFUSALS["en"])


def _language(question: str) -> str:
    """Language of a question; where too little tells it, the one most of its words are function words of."""
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", question)]
    counts = {code: sum(word in FUNCTION_WORDS[code] for word in words) for code in _REFUSALS}
    return guess_language(question) or max(counts, key=lambda code: counts[code])


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """How well a sentence answers: a share of the question's terms and a cosine, both between 0 and 1, and a factor."""

    passage: Passage
    start: int
    end: int
    """Span in the passage's text."""
    overlap: float
    similarity: float = 0.0
    factor: float = 1.0
    """Less than 1 where the sentence lacks what kind of thing is asked for."""

    @property
    def text(self) -> str:
        """The sentence."""
        return self.passage.chunk.text[self.start : self.end]

    @property
    def score(self) -> float:
        """Both, weighted, times the factor."""
        return self.factor * (SIMILARITY_SHARE * self.similarity + (1 - SIMILARITY_SHARE) * self.overlap)


class ExtractiveAnswerer(Answerer):
    """Answers with sentences of the passages, verbatim and cited, most relevant first.

    Args:
        embedding: Embeds the question and the sentences, in one call.
        threshold: Least score of the best sentence; below it the question is refused.
    """

    def __init__(self, embedding: EmbeddingService, threshold: float = REFUSAL_THRESHOLD) -> None:
        self._embedding = embedding
        self._threshold = threshold
        self._probes: FloatVectors | None = None

    async def answer(self, request: AnswerRequest) -> Answer:
        """The sentences that answer, or a refusal.

        Raises:
            UpstreamError: The embedding model failed.
        """
        if not request.grounded:
            text = _UNGROUNDED.get(_language(request.question), _UNGROUNDED["en"])
            return Answer(text, refused=True)
        scored, vectors = await self._scored(request.standalone or request.question, request.context.passages)
        if not scored or scored[0].score < self._threshold:
            return Answer(refusal(request.question), refused=True)
        chosen = _choose(scored, vectors)
        return _quoted([quote_of(sentence.passage, sentence.start, sentence.end) for sentence in chosen])

    async def best_scores(self, question: str, passages: Sequence[Passage]) -> list[SentenceScore]:
        """The sentences of the passages by how well they answer, best first: what the threshold is compared with."""
        return (await self._scored(question, passages))[0]

    async def stream(self, request: AnswerRequest) -> AsyncGenerator[str | Answer]:
        """The answer sentence by sentence."""
        answer = await self.answer(request)
        for piece in re.split(r"(?<=\] )", answer.text):
            yield piece
        yield answer

    def prompt(self, request: AnswerRequest) -> tuple[Message, ...]:
        """The context as one message: there is no model."""
        return (Message("user", f"{request.context.text}\n\n{request.question}".strip()),)

    async def _scored(
        self, question: str, passages: Sequence[Passage]
    ) -> tuple[list[SentenceScore], dict[tuple[int, int], FloatVector]]:
        candidates = _candidates(question, passages)
        if not candidates:
            return [], {}
        probes = PROBES if self._probes is None else ()
        texts = [question, *(_with_heading(candidate) for candidate in candidates), *probes]
        vectors = await self._embedding.embed(texts, "document")
        if self._probes is None:
            self._probes = vectors[-len(PROBES) :]
        rows = vectors[1 : 1 + len(candidates)]
        floor = float((self._probes @ vectors[0]).mean())
        similar = (rows @ vectors[0] - floor) / max(1 - floor, 1e-6)
        scored = [replace(c, similarity=float(np.clip(value, 0, 1))) for c, value in zip(candidates, similar, strict=True)]
        by_place = {(c.passage.number, c.start): row for c, row in zip(candidates, rows, strict=True)}
        order = sorted(scored, key=lambda s: (-round(s.score, 6), s.passage.number, s.start))
        return order, by_place


def _quoted(citations: Sequence[Citation]) -> Answer:
    """The answer that these sentences make, one after the other: each is a claim that its own citation carries."""
    text = ""
    claims: list[Claim] = []
    for citation in citations:
        words = " ".join(citation.quote.split())
        start = len(text) + (1 if text else 0)
        text = f"{text} {words} [{citation.passage}]".lstrip()
        claims.append(Claim(words, start, len(text), (citation,), supported=True, judged_by="lexical"))
    return Answer(text, tuple(citations), claims=tuple(claims), counts=CheckedAnswer(text, claims=tuple(claims)).counts)


def _candidates(question: str, passages: Sequence[Passage]) -> list[SentenceScore]:
    """The sentences worth embedding: those that share terms with the question, and the first ones of the first passages."""
    terms = analyze_question(question)
    idf = idf_of(analyze(passage.chunk.indexed_text) for passage in passages)
    asks_number = _ASKS_NUMBER.search(question) is not None
    found: list[SentenceScore] = []
    for passage in passages:
        heading = analyze(passage.chunk.heading)
        code = [block.span() for block in _CODE.finditer(passage.chunk.text)]
        for start, end in sentences(passage.chunk.text):
            text = passage.chunk.text[start:end]
            if len(text.split()) >= 3 and text.strip("#* ") not in passage.chunk.headings and not _meets(code, start, end):
                overlap = coverage(terms, (*analyze(text), *heading), idf)
                lacking = asks_number and not _NUMBER.search(_LIST_NUMBER.sub("", text))
                found.append(SentenceScore(passage, start, end, overlap, factor=WITHOUT_NUMBER if lacking else 1.0))
    ranked = sorted(found, key=lambda s: (-s.overlap / (1 + 0.05 * s.passage.number), s.passage.number, s.start))
    return ranked[:EMBEDDED_SENTENCES]


def _meets(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in spans)


def _with_heading(sentence: SentenceScore) -> str:
    headings = sentence.passage.chunk.headings
    return f"{headings[-1]}: {sentence.text}" if headings else sentence.text


def _choose(scored: Sequence[SentenceScore], vectors: Mapping[tuple[int, int], FloatVector]) -> list[SentenceScore]:
    """The best sentence and those nearly as good that say something else."""
    chosen: list[SentenceScore] = []
    rows: list[FloatVector] = []
    for sentence in scored:
        if len(chosen) == LONGEST_ANSWER or sentence.score < NEAR_BEST * scored[0].score:
            break
        row = vectors[sentence.passage.number, sentence.start]
        if all(float(row @ other) < SAME for other in rows):
            chosen.append(sentence)
            rows.append(row)
    return chosen
