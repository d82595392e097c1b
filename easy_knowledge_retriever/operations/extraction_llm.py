"""Entities and relations found by a language model, chunk by chunk."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from easy_knowledge_retriever.errors import ContentRefused, UpstreamError
from easy_knowledge_retriever.llm.base import Completion, LLMService, Message
from easy_knowledge_retriever.operations.base import ExtractionOutcome, PaidExtractor, Progress, Transcripts
from easy_knowledge_retriever.operations.extraction_format import ParsedExtraction
from easy_knowledge_retriever.operations.extraction_json import SCHEMA, parse_reply
from easy_knowledge_retriever.operations.extraction_local import NamesOf, names_of
from easy_knowledge_retriever.operations.extraction_replay import Heard, heard, joined, lacks_names, parts_of
from easy_knowledge_retriever.operations.extraction_rounds import ChunkOutcome, Question, Remembered, Rounds
from easy_knowledge_retriever.operations.extraction_task import ExtractionTask
from easy_knowledge_retriever.operations.placing import Placing
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.settings import ExtractionFormat, Gleaning
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import Chunk, Document, Extraction, Reply, Transcript

__all__ = ["LLMExtractor", "Outlook"]

_PROMPTS = PromptSet()
_TASK = ExtractionTask()
_CONCURRENCY = 64
"""Chunks worked on at once. The limiter of the endpoint decides how many requests are sent."""
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z]\w+")
"""A capital letter in the middle of a sentence: most often a name."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would be asked about a chunk."""

    chunk: Chunk
    messages: tuple[Message, ...]
    """Of the next request."""
    further: int
    """Rounds there may be after it."""


class LLMExtractor(PaidExtractor):
    """Asks a language model for the entities and relations of each chunk, and then for what it missed.

    What it finds is computed from the replies alone, so replies that were kept need not be asked for again.

    Args:
        model: The language model, with its wrappers around it.
        task: What it is asked to find.
        max_gleaning: Further rounds a chunk; they end early when one finds nothing new.
        gleaning: When they are: always, or only where something seems to be missing.
        prompts: The prompts.
        concurrency: Chunks worked on at once.
    """

    def __init__(
        self,
        model: LLMService,
        task: ExtractionTask = _TASK,
        *,
        max_gleaning: int = 1,
        gleaning: Gleaning = "always",
        prompts: PromptSet = _PROMPTS,
        concurrency: int = _CONCURRENCY,
    ) -> None:
        self.model = model
        self._task = task
        self.schema = SCHEMA if task.form == "json" else None
        self._rounds = 1 + max_gleaning
        self._where_missing = gleaning == "where_missing" and max_gleaning > 0
        self._prompts = prompts
        self._concurrency = concurrency
        self._system = task.system(prompts)
        self._gleaning = task.gleaning(prompts)

    def request(self, chunk: Chunk) -> tuple[Message, ...]:
        """The messages of the first round for a chunk: what an estimate counts before anything is sent."""
        return self._first_round(chunk.text, chunk)

    @property
    def gleans_always(self) -> bool:
        """Whether further rounds are asked for whatever was found."""
        return not self._where_missing

    def outlook(self, chunk: Chunk, transcript: Transcript) -> Outlook | None:
        """What would be asked about a chunk after these replies; None if nothing would."""
        question = None if transcript.complete else self._question(_no_names, chunk, transcript, frozenset())
        if question is None:
            return None
        rounds = self._heard(transcript.parts[question.part]).rounds
        return Outlook(chunk, question.messages, self._rounds - rounds - 1)

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], progress: Progress, transcripts: Transcripts | None = None
    ) -> ExtractionOutcome:
        names = await asyncio.to_thread(names_of, document) if self._where_missing else _no_names
        rounds = Rounds(self._complete, functools.partial(self._question, names), transcripts or Remembered(document.id))
        outcomes = await rounds.read(chunks, self._concurrency, progress)
        return self._gathered(document, outcomes)

    async def _complete(self, messages: Sequence[Message]) -> Completion:
        return await self.model.complete(messages, priority="ingest", json_schema=self.schema)

    def _question(self, names: NamesOf, chunk: Chunk, transcript: Transcript, given_up: Set[int]) -> Question | None:
        for part, (text, replies) in enumerate(zip(parts_of(chunk, transcript), transcript.parts, strict=True)):
            said = self._heard(replies)
            if part in given_up or said.refused or said.settled or said.rounds >= self._rounds:
                continue
            if said.rounds and self._where_missing and said.is_whole:
                if not lacks_names(said.parsed, [name for name in names(chunk) if name in text]):
                    continue
            messages = self._first_round(text, chunk)
            for reply in replies[said.declined :]:
                messages = (*messages, Message("assistant", reply.text), Message("user", self._gleaning))
            return Question(part, messages)
        return None

    def _heard(self, replies: Sequence[Reply]) -> Heard:
        return heard(replies, functools.partial(_read, self._task.form))

    def _first_round(self, text: str, chunk: Chunk) -> tuple[Message, ...]:
        heading = " / ".join(chunk.headings)
        passage = self._prompts.extraction_passage.render(heading=heading, tag=digest(text)[:8], text=text)
        return Message("system", self._system), Message("user", passage.strip())

    def _gathered(self, document: Document, outcomes: Sequence[ChunkOutcome]) -> ExtractionOutcome:
        read = [self._read_chunk(outcome) for outcome in outcomes]
        found = [one for one in read if one.error is None and not one.parsed.is_empty]
        return ExtractionOutcome(
            extractions=tuple(one.extraction(document.id) for one in found),
            warnings=(*_warnings(read), *self._task.violations(one.parsed for one in found)),
            failed_chunks=tuple(one.chunk.id for one in read if one.error is not None),
            refused_chunks=tuple(one.chunk.id for one in read if isinstance(one.error, ContentRefused)),
        )

    def _read_chunk(self, outcome: ChunkOutcome) -> _ReadChunk:
        said = [self._heard(replies) for replies in outcome.transcript.parts]
        refused = ContentRefused("the model declined to read it") if any(part.refused for part in said) else None
        parsed = self._task.spelled(functools.reduce(joined, (part.parsed for part in said)))
        cut_short = any(part.cut and part.parsed.is_empty for part in said)
        return _ReadChunk(outcome.chunk, parsed, outcome.error or refused, cut_short, outcome.given_up)


def _no_names(chunk: Chunk) -> Sequence[str]:
    """Nothing is looked for."""
    return ()


@dataclass(frozen=True, slots=True)
class _ReadChunk:
    """A chunk with what the replies about it amount to."""

    chunk: Chunk
    parsed: ParsedExtraction
    error: UpstreamError | None
    cut_short: bool
    """Whether a reply was cut off before its first record."""
    given_up: bool

    @property
    def is_silent(self) -> bool:
        """Whether nothing was found where names seem to be."""
        return self.error is None and self.parsed.is_empty and _NAME.search(self.chunk.text) is not None

    def extraction(self, document_id: str) -> Extraction:
        """The extraction, each mention where it stands."""
        placing = Placing(self.chunk)
        entities = tuple(placing.entity(mention) for mention in self.parsed.entities)
        relations = tuple(placing.relation(mention) for mention in self.parsed.relations)
        return Extraction(self.chunk.id, document_id, "llm", entities, relations)


@functools.lru_cache(maxsize=256)
def _read(form: ExtractionFormat, reply: Reply) -> ParsedExtraction:
    """The records of a reply, which is looked at once a round."""
    return parse_reply(reply.text, cut=reply.cut, form=form)


def _warnings(read: Sequence[_ReadChunk]) -> Iterator[str]:
    """What went wrong, counted."""
    refused = [one for one in read if isinstance(one.error, ContentRefused)]
    if refused:
        yield f"the model refused to read {len(refused)} of {len(read)} chunks"
    errors = {str(one.error) for one in read if one.error is not None and one not in refused}
    yield from sorted(f"a chunk could not be read by the model: {error}" for error in errors)
    if mended := sum(bool(one.parsed.mended) for one in read):
        kinds = sorted({kind for one in read for kind in one.parsed.mended})
        yield f"the JSON of the model had to be mended in {mended} chunks: {', '.join(kinds)}"
    if rejected := sum(one.parsed.rejected for one in read):
        yield f"{rejected} records of the model could not be used"
    if cut := sum(one.cut_short for one in read):
        yield f"{cut} replies of the model were cut off before their first record: give it more room, or turn its reasoning off"
    if silent := sum(one.is_silent for one in read):
        yield f"the model found nothing in {silent} of {len(read)} chunks that seem to hold names"
    if given_up := sum(one.given_up for one in read):
        yield f"{given_up} chunks were read, but a further round about them failed"
