"""What documents would cost: read and cut as an ingest would, nothing sent, nothing written.

The prompts of the first round are counted; how much the model will answer is not known. Where the ledger of the base has seen
enough answers of this model, their mean is taken, from half to twice; before that the defaults below, by the tokens of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from easy_knowledge_retriever.errors import LimitExceeded, ParseError
from easy_knowledge_retriever.ingestion.origins import Origin, identity_of, without_broken_characters
from easy_knowledge_retriever.ingestion.replies import StagedReplies
from easy_knowledge_retriever.ingestion.sharing import Twin, twin_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.usage_ledger import usage_rows
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.llm.terms import Terms, has_reply, terms_of
from easy_knowledge_retriever.operations.budget import CountTokens
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor, Outlook
from easy_knowledge_retriever.operations.summarization import Summarizer
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.account import Account, Amount, charging
from easy_knowledge_retriever.spending.estimate import NOTHING, DocumentEstimate, Estimate, Range, total_range
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.spending.prices import Price
from easy_knowledge_retriever.types import Chunk, Document, Usage

__all__ = ["EMBEDDING_LATENCY", "OTHER_TOKENIZER", "Estimating", "priced"]

_ENOUGH: Final = 10
"""Calls in the ledger from which on it is trusted."""
_SEEN: Final = (0.5, 2.0)
"""From what share to what multiple of a mean that was seen."""
OTHER_TOKENIZER: Final = (0.8, 1.25)
"""How far the tokens of the model's own tokenizer may be from ours."""
_MESSAGE: Final = 4
_ANSWER_TOKENS: Final = Range(10, 60, 300)
"""An answer about a chunk has so many tokens …"""
_ANSWER_SHARE: Final = Range(0.0, 0.6, 3.0)
"""… and so many for each token of the chunk."""
_FURTHER: Final = Range(0.0, 0.5, 1.0)
"""An answer of a further round, in answers of the first."""
_ROUNDS: Final = Range(0.0, 1.0, 1.0)
"""Share of the further rounds that happen, where they are always asked for."""
_ROUNDS_WHERE_MISSING: Final = Range(0.0, 0.3, 1.0)
_GRAPH_TEXT: Final = Range(0.0, 1.0, 3.0)
"""Tokens of the texts of entities and relations, in tokens of what the model answered …"""
_LOCAL_TEXT: Final = Range(0.0, 0.3, 2.0)
"""… or of the chunks where no model reads them."""
_TEXT: Final = 20
"""Tokens such a text may have: how many are embedded in one request depends on it."""
_SUMMARIES: Final = Range(0.0, 0.05, 2.0)
"""Summaries a chunk before any were seen: those of a name that many chunks speak of are made again and again …"""
_SUMMARIES_A_DOCUMENT: Final = Range(0, 0, 3)
"""… and more, of names that the base speaks of often."""
_SUMMARY_PROMPT: Final = Range(200, 600, 3000)
_LATENCY: Final = Range(0.5, 4.0, 30.0)
"""Seconds a call of a language model takes before one was seen."""
EMBEDDING_LATENCY: Final = Range(0.05, 0.5, 5.0)
_WHOLE: Final = 256
"""Texts of a request to an embedding model that names no size of its own."""
_ROUNDED_UP: Final = 3
"""Requests that are not full: those of entities, of relations, of summaries."""
_NOTHING_SPENT: Final = Amount()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the ledger knows of one purpose and model."""

    calls: int = 0
    amount: Amount = _NOTHING_SPENT

    @property
    def enough(self) -> bool:
        return self.calls >= _ENOUGH

    def mean(self, whole: float) -> Range:
        return Range.around(whole / self.calls, *_SEEN)


class Estimating:
    """Estimates documents of one base.

    Args:
        kb: The base.
        embedding: Makes the vectors.
        extractor: Reads chunks with a language model; None if none does.
        summarizer: Summarises; None if nothing does.
        count: Counts tokens.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        embedding: EmbeddingService,
        extractor: LLMExtractor | None,
        summarizer: Summarizer | None,
        count: CountTokens,
    ) -> None:
        self._kb = kb
        self._extractor = extractor
        self._summarizer = summarizer
        self._count = count
        self._vectors = terms_of(embedding)
        self._reading = None if extractor is None else terms_of(extractor.model)
        self._summing = None if summarizer is None else terms_of(summarizer.model)
        self._extracted = self._summed = self._embedded = _Seen()

    async def all(
        self, origins: Sequence[Origin], cut: Callable[[Document], Awaitable[tuple[Chunk, ...]]], settings: Settings
    ) -> Estimate:
        """What all of them would take.

        Args:
            origins: The documents.
            cut: Makes their chunks.
            settings: Those of the retriever.
        """
        await self._learn()
        documents = [await self._origin(origin, cut) for origin in origins]
        seen = self._extracted.calls if self._extracted.enough else 0
        return Estimate.of(documents, seen, settings.max_parallel_insert)

    async def _origin(self, origin: Origin, cut: Callable[[Document], Awaitable[tuple[Chunk, ...]]]) -> DocumentEstimate:
        record = origin.record()
        try:
            version = await origin.version()
            standing = (await self._kb.status.get([record.id])).get(record.id)
            if standing is not None and (version, record.name, record.collection) == identity_of(standing):
                return DocumentEstimate(record.name, True, pages=standing.page_count, chunks=standing.chunk_count)
            document = without_broken_characters(await origin.document(self._kb, keep=False))
            chunks = await cut(document)
        except (ParseError, LimitExceeded) as failure:
            return DocumentEstimate(record.name, error=str(failure))
        return await self._document(document, chunks, await twin_of(self._kb, document, chunks))

    async def _learn(self) -> None:
        sums: dict[tuple[str, str], Amount] = {}
        for row in await usage_rows(self._kb):
            if row.day:
                key = (row.line.purpose, row.line.model)
                sums[key] = sums.get(key, Amount()) + row.amount
        self._extracted, self._summed = _seen(sums, self._reading), _seen(sums, self._summing)
        self._embedded = _seen(sums, self._vectors)

    async def _document(self, document: Document, chunks: Sequence[Chunk], twin: Twin | None) -> DocumentEstimate:
        outlooks = await self._outlooks(document, chunks, twin)
        calls, prompt, completion = self._extraction(outlooks)
        rounds = calls * (1 / len(outlooks)) if outlooks else Range.exactly(1)
        summaries, summary_prompt, summary_answer = self._summaries(len(chunks), rounds)
        texts, tokens = self._embedding(chunks, twin, completion)
        return DocumentEstimate(
            document.name,
            pages=len(document.pages),
            chunks=len(chunks),
            to_read=len(outlooks),
            llm_calls=calls + summaries,
            prompt_tokens=prompt + summary_prompt,
            completion_tokens=completion + summary_answer,
            embedding_calls=texts,
            embedding_tokens=tokens,
            cost=self._cost((prompt, completion), (summary_prompt, summary_answer), tokens),
            seconds=self._seconds(calls, summaries, texts, outlooks),
        )

    async def _outlooks(self, document: Document, chunks: Sequence[Chunk], twin: Twin | None) -> list[Outlook]:
        """What would be asked about the chunks whose replies are not there."""
        if self._extractor is None:
            return []
        replies = await StagedReplies.open(self._kb, document, chunks)
        shared = {} if twin is None else await twin.paid(self._kb, chunks)
        asked = [chunk for chunk in chunks if chunk.id not in shared or not replies.of(chunk).is_empty]
        outlooks = [self._extractor.outlook(chunk, replies.of(chunk)) for chunk in asked]
        account = Account()
        account.replies = KeptReplies(document.id)
        with charging(account):  # the cache knows replies by their document
            return [outlook for outlook in outlooks if outlook is not None and not await self._is_free(outlook)]

    async def _is_free(self, outlook: Outlook) -> bool:
        extractor = self._extractor
        return extractor is not None and await has_reply(extractor.model, outlook.messages, extractor.schema)

    def _extraction(self, outlooks: Sequence[Outlook]) -> tuple[Range, Range, Range]:
        """Calls, prompt tokens and tokens of answers."""
        calls, prompt, completion = NOTHING, NOTHING, NOTHING
        always = self._extractor is not None and self._extractor.gleans_always
        for outlook in outlooks:
            sent = sum(self._count(message.content) + _MESSAGE for message in outlook.messages)
            first = self._answer(outlook.chunk)
            rounds = (_ROUNDS if always else _ROUNDS_WHERE_MISSING) * outlook.further
            again = (first + Range.exactly(sent)) * Range.around(1, *OTHER_TOKENIZER)
            calls += Range.exactly(1) + rounds
            prompt += Range.around(sent, *OTHER_TOKENIZER) + again * rounds
            completion += first + first * _FURTHER * rounds
        return calls, prompt, completion

    def _answer(self, chunk: Chunk) -> Range:
        if self._extracted.enough:
            return self._extracted.mean(self._extracted.amount.usage.completion_tokens)
        return _ANSWER_TOKENS + _ANSWER_SHARE * chunk.tokens

    def _summaries(self, chunks: int, rounds: Range) -> tuple[Range, Range, Range]:
        """Calls, prompt tokens and tokens of answers of the summaries that chunks, read in so many calls each, may call for."""
        if self._summarizer is None:
            return NOTHING, NOTHING, NOTHING
        known = self._summed.enough and self._extracted.enough
        rate = rounds * Range.around(self._summed.calls / self._extracted.calls, *_SEEN) if known else _SUMMARIES
        calls = rate * chunks + _SUMMARIES_A_DOCUMENT
        limits = self._summarizer.limits
        if self._summed.enough:
            usage = self._summed.amount.usage
            return calls, calls * self._summed.mean(usage.prompt_tokens), calls * self._summed.mean(usage.completion_tokens)
        answer = Range(20, limits.recommended, limits.max_tokens)
        return calls, calls * _SUMMARY_PROMPT, calls * answer

    def _embedding(self, chunks: Sequence[Chunk], twin: Twin | None, completion: Range) -> tuple[Range, Range]:
        """Calls and tokens. Vectors of a model that runs here take none."""
        if self._vectors.line.local:
            return NOTHING, NOTHING
        own = [] if twin is not None else chunks
        counted = sum(self._count(chunk.indexed_text) for chunk in own)
        said = _GRAPH_TEXT * completion if self._extractor is not None else _LOCAL_TEXT * counted
        texts = Range.exactly(len(own)) + said * (1 / _TEXT)
        return self._requests(texts, len(own)), Range.around(counted, *OTHER_TOKENIZER) + said

    def _requests(self, texts: Range, own: int) -> Range:
        batch = self._vectors.batch or _WHOLE
        least = math.ceil(own / batch)
        expected, most = (math.ceil((count - own) / batch) for count in (texts.expected, texts.high))
        return Range(least, least + expected, least + most + _ROUNDED_UP)

    def _cost(self, reading: tuple[Range, Range], summing: tuple[Range, Range], embedded: Range) -> Range | None:
        parts = (
            _chat_cost(self._reading, *reading),
            _chat_cost(self._summing, *summing),
            priced(self._vectors.price, embedding_tokens=embedded) if embedded.high else NOTHING,
        )
        return None if None in parts else total_range(part for part in parts if part is not None)

    def _seconds(self, calls: Range, summaries: Range, texts: Range, outlooks: Sequence[Outlook]) -> Range:
        """Reading and embedding run side by side; the rounds about one chunk follow each other, and summaries come last."""
        if self._reading is None or not outlooks:
            reading = NOTHING
        else:
            latency = _latency(self._extracted, _LATENCY)
            reading = (calls * latency * (1 / self._reading.at_once)).at_least(latency)
        like = self._summed if self._summed.enough else self._extracted
        summing = NOTHING if self._summing is None else summaries * _latency(like, _LATENCY) * (1 / self._summing.at_once)
        embedding = texts * _latency(self._embedded, EMBEDDING_LATENCY) * (1 / self._vectors.at_once)
        return reading.at_least(embedding) + summing


def _seen(sums: dict[tuple[str, str], Amount], terms: Terms | None) -> _Seen:
    if terms is None:
        return _Seen()
    amount = sums.get((terms.line.purpose, terms.line.model), Amount())
    return _Seen(amount.usage.llm_calls + amount.usage.embedding_calls, amount)


def _latency(seen: _Seen, default: Range) -> Range:
    return seen.mean(seen.amount.seconds) if seen.enough else default


def _chat_cost(terms: Terms | None, prompt: Range, completion: Range) -> Range | None:
    if terms is None or not prompt.high:
        return NOTHING
    return priced(terms.price, prompt_tokens=prompt, completion_tokens=completion)


def priced(price: Price | None, **tokens: Range) -> Range | None:
    """What so many tokens cost; None if the price is not known."""
    if price is None:
        return None
    low, expected, high = (
        price.of(Usage(**{name: round(getattr(amount, point)) for name, amount in tokens.items()}))
        for point in ("low", "expected", "high")
    )
    return Range(low, expected, high)
