"""Entities and relations found by a language model, chunk by chunk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import BadResponse, ContentRefused, ContextTooLong, UpstreamAuth, UpstreamError
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.extraction_format import ParsedExtraction, parse_extraction
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.settings import DEFAULT_ENTITY_TYPES
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Chunk, Document, EntityMention, Extraction, RelationMention, Usage

__all__ = ["LLMExtractor"]

_PROMPTS = PromptSet()
_CONCURRENCY = 64
"""Chunks worked on at once. The limiter of the endpoint decides how many requests are sent."""
_ABOUT_THE_CHUNK = (BadResponse, ContentRefused, ContextTooLong)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z]\w+")
"""A capital letter in the middle of a sentence: most often a name."""


@dataclass(frozen=True, slots=True)
class _ChunkOutcome:
    chunk: Chunk
    parsed: ParsedExtraction = field(default_factory=ParsedExtraction)
    usage: Usage = field(default_factory=Usage)
    error: UpstreamError | None = None


class LLMExtractor(Extractor):
    """Asks a language model for the entities and relations of each chunk, and then for what it missed.

    Args:
        model: The language model, with its wrappers around it.
        entity_types: Types it may give.
        language: Of the descriptions; ``auto`` is that of the passage. Names keep theirs.
        max_gleaning: Further rounds a chunk; they end early when one finds nothing new.
        prompts: The prompts.
        concurrency: Chunks worked on at once.
    """

    def __init__(
        self,
        model: LLMService,
        *,
        entity_types: Sequence[str] = DEFAULT_ENTITY_TYPES,
        language: str = "English",
        max_gleaning: int = 1,
        prompts: PromptSet = _PROMPTS,
        concurrency: int = _CONCURRENCY,
    ) -> None:
        self._model = model
        self._rounds = max_gleaning
        self._prompts = prompts
        self._concurrency = concurrency
        written_in = "the language of the passage" if language == "auto" else language
        self._system = prompts.extraction_system.render(entity_types=", ".join(entity_types), language=written_in)

    def request(self, chunk: Chunk) -> tuple[Message, ...]:
        """The messages of the first round for a chunk: what an estimate counts before anything is sent."""
        return self._first_round(chunk.text, chunk)

    def _first_round(self, text: str, chunk: Chunk) -> tuple[Message, ...]:
        heading = " / ".join(chunk.headings)
        passage = self._prompts.extraction_passage.render(heading=heading, tag=digest(text)[:8], text=text)
        return Message("system", self._system), Message("user", passage.strip())

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        """What the model finds in these chunks.

        Raises:
            UpstreamError: The model failed for all of them, or refused the key.
            BudgetExceeded: The next call would pass a ceiling.
        """
        done = 0

        async def one(chunk: Chunk) -> _ChunkOutcome:
            nonlocal done
            outcome = await self._chunk(chunk)
            done += 1
            progress(done, len(chunks))
            return outcome

        outcomes = await map_bounded(one, chunks, self._concurrency)
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        # One chunk alone shows no outage if the model did answer, though nothing of use.
        if errors and len(errors) == len(outcomes) and (len(errors) > 1 or not isinstance(errors[0], _ABOUT_THE_CHUNK)):
            raise errors[0]
        return _gathered(document, outcomes)

    async def _chunk(self, chunk: Chunk) -> _ChunkOutcome:
        try:
            parsed, usage = await self._read(chunk)
        except UpstreamAuth:
            raise
        except UpstreamError as error:
            return _ChunkOutcome(chunk, error=error)
        return _ChunkOutcome(chunk, _placed(parsed, chunk), usage)

    async def _read(self, chunk: Chunk) -> tuple[ParsedExtraction, Usage]:
        """What is in a chunk; one that is too long for the model is read in two halves."""
        try:
            return await self._rounds_of(chunk.text, chunk)
        except ContextTooLong:
            middle = _middle(chunk.text)
            if not middle:
                raise
        first, spent = await self._rounds_of(chunk.text[:middle], chunk)
        second, more = await self._rounds_of(chunk.text[middle:], chunk)
        return _joined(first, second), spent + more

    async def _rounds_of(self, text: str, chunk: Chunk) -> tuple[ParsedExtraction, Usage]:
        messages = [*self._first_round(text, chunk)]
        reply, parsed, usage = await self._ask(messages)
        for _ in range(self._rounds):
            messages += [Message("assistant", reply), Message("user", self._prompts.extraction_gleaning.render())]
            try:
                reply, more, spent = await self._ask(messages)
            except UpstreamAuth:
                raise
            except UpstreamError:
                break  # what the first round found is paid for and stays
            usage += spent
            together = _joined(parsed, more)
            if _size(together) == _size(parsed):
                break
            parsed = together
        return parsed, usage

    async def _ask(self, messages: Sequence[Message]) -> tuple[str, ParsedExtraction, Usage]:
        completion = await self._model.complete(messages, priority="ingest")
        parsed = parse_extraction(completion.text, cut=completion.finish_reason == "length")
        return completion.text, parsed, completion.usage


def _gathered(document: Document, outcomes: Sequence[_ChunkOutcome]) -> ExtractionOutcome:
    warnings: list[str] = []
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    warnings += sorted({f"a chunk could not be read by the model: {outcome.error}" for outcome in failed})
    rejected = sum(outcome.parsed.rejected for outcome in outcomes)
    if rejected:
        warnings.append(f"{rejected} records of the model could not be used")
    silent = [o for o in outcomes if o.error is None and o.parsed.is_empty and _NAME.search(o.chunk.text)]
    if silent:
        warnings.append(f"the model found nothing in {len(silent)} of {len(outcomes)} chunks that seem to hold names")
    found = tuple(
        Extraction(o.chunk.id, document.id, "llm", o.parsed.entities, o.parsed.relations)
        for o in outcomes
        if not o.parsed.is_empty
    )
    usage = sum((outcome.usage for outcome in outcomes), Usage())
    return ExtractionOutcome(found, tuple(warnings), tuple(outcome.chunk.id for outcome in failed), usage)


def _middle(text: str) -> int:
    """Where to cut a text in two: the end of the sentence nearest to its middle; 0 if it is one sentence."""
    starts = [start for start, _ in sentences(text)][1:]
    return min(starts, key=lambda start: abs(start - len(text) // 2), default=0)


def _size(parsed: ParsedExtraction) -> int:
    return len(parsed.entities) + len(parsed.relations)


def _joined(first: ParsedExtraction, more: ParsedExtraction) -> ParsedExtraction:
    """Both rounds; what the second one repeats is left out."""
    names = {mention.name.casefold(): mention.name for mention in first.entities}
    pairs = {_pair(relation) for relation in first.relations}
    entities = [mention for mention in more.entities if mention.name.casefold() not in names]
    relations = [
        replace(r, source=names.get(r.source.casefold(), r.source), target=names.get(r.target.casefold(), r.target))
        for r in more.relations
        if _pair(r) not in pairs
    ]
    return ParsedExtraction(
        (*first.entities, *entities),
        (*first.relations, *relations),
        first.rejected + more.rejected,
        first.ended and more.ended,
    )


def _pair(relation: RelationMention) -> frozenset[str]:
    return frozenset((relation.source.casefold(), relation.target.casefold()))


def _placed(parsed: ParsedExtraction, chunk: Chunk) -> ParsedExtraction:
    """The mentions with their spans: an entity where its name first stands, a relation in the first sentence with both."""
    text = chunk.text.lower()
    if len(text) != len(chunk.text):  # a letter that grows when lowered would shift every offset
        text = chunk.text
    spans = [(start, end, text[start:end]) for start, end in sentences(chunk.text)] if parsed.relations else []
    return replace(
        parsed,
        entities=tuple(_placed_entity(mention, text, chunk.start) for mention in parsed.entities),
        relations=tuple(_placed_relation(mention, spans, chunk.start) for mention in parsed.relations),
    )


def _placed_entity(mention: EntityMention, text: str, offset: int) -> EntityMention:
    at = text.find(mention.name.lower())
    if at < 0:
        return mention
    return replace(mention, start=offset + at, end=offset + at + len(mention.name))


def _placed_relation(mention: RelationMention, spans: Sequence[tuple[int, int, str]], offset: int) -> RelationMention:
    ends = (mention.source.lower(), mention.target.lower())
    for start, end, sentence in spans:
        if all(name in sentence for name in ends):
            return replace(mention, start=offset + start, end=offset + end)
    return mention
