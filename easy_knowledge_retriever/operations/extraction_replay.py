"""What the replies of a model about a chunk amount to. Pure: the same replies give the same extraction at any time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from easy_knowledge_retriever.operations.extraction_format import ParsedExtraction
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Chunk, RelationMention, Reply, Transcript

__all__ = ["Heard", "heard", "joined", "lacks_names", "middle_of", "parts_of"]

_ASKED_AGAIN: Final = 1
"""How often a model that declined is asked again."""
_LONGEST_REFUSAL: Final = 2000
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:i['’]?m|i am|we['’]re) (?:very |so |really )?(?:sorry|unable|not able)|sorry\b|apologies\b"
    r"|i (?:can(?:['’]?t|not| not)|won['’]?t|will not|must decline)|as an ai\b|unfortunately, i can"
    r"|(?:je suis )?désolé|je ne (?:peux|suis pas)|es tut mir leid|ich kann (?:dies|das|ihnen|dir|nicht)"
    r"|lo siento|no puedo|mi dispiace|non posso)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model said about one text so far."""

    parsed: ParsedExtraction = field(default_factory=ParsedExtraction)
    rounds: int = 0
    """Rounds it answered; where it declined is none."""
    settled: bool = False
    """Whether the last round added nothing."""
    cut: bool = False
    """Whether the last reply was cut off."""
    declined: int = 0
    """How often it declined to answer the first question."""

    @property
    def is_whole(self) -> bool:
        """Whether every round came to its end."""
        return self.parsed.ended and not self.cut

    @property
    def refused(self) -> bool:
        """Whether it declined as often as it is asked."""
        return self.declined > _ASKED_AGAIN


def heard(replies: Iterable[Reply], read: Callable[[Reply], ParsedExtraction]) -> Heard:
    """The state of a conversation after these replies.

    Args:
        replies: All of them, in order.
        read: The records of one.
    """
    state = Heard()
    for reply in replies:
        parsed = read(reply)
        if not state.rounds and _declines(reply, parsed):
            state = replace(state, declined=state.declined + 1)
            continue
        together = joined(state.parsed, parsed) if state.rounds else parsed
        added = _size(together) - _size(state.parsed)
        state = Heard(together, state.rounds + 1, bool(state.rounds) and not added, reply.cut, state.declined)
    return state


def _declines(reply: Reply, parsed: ParsedExtraction) -> bool:
    """Whether a reply is a refusal in words: no record, no end mark, and the manner of one."""
    if not parsed.is_empty or parsed.ended or len(reply.text) > _LONGEST_REFUSAL:
        return False
    return _REFUSAL.match(reply.text.lstrip()) is not None


def parts_of(chunk: Chunk, transcript: Transcript) -> tuple[str, ...]:
    """The texts that the parts of a transcript are about: the whole chunk, or its halves."""
    if len(transcript.parts) == 1:
        return (chunk.text,)
    middle = middle_of(chunk.text)
    return chunk.text[:middle], chunk.text[middle:]


def middle_of(text: str) -> int:
    """Where to cut a text in two: the end of the sentence nearest to its middle; 0 if it is one sentence."""
    starts = [start for start, _ in sentences(text)][1:]
    return min(starts, key=lambda start: abs(start - len(text) // 2), default=0)


def joined(first: ParsedExtraction, more: ParsedExtraction) -> ParsedExtraction:
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
        tuple(dict.fromkeys((*first.mended, *more.mended))),
    )


def lacks_names(parsed: ParsedExtraction, names: Sequence[str]) -> bool:
    """Whether one of these names is neither among the entities nor a part of one, nor holds one."""
    found = [f" {entity_key(mention.name)} " for mention in parsed.entities]
    wanted = (f" {entity_key(name)} " for name in names)
    return not all(any(name in one or one in name for one in found) for name in wanted)


def _size(parsed: ParsedExtraction) -> int:
    return len(parsed.entities) + len(parsed.relations)


def _pair(relation: RelationMention) -> frozenset[str]:
    return frozenset((relation.source.casefold(), relation.target.casefold()))
