"""Entities and relations found without a model, from the names in each chunk.

What a chunk yields depends on the chunk and its own document only, so that the order of ingest changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.names import Name, capitalised_words, names_in
from easy_knowledge_retriever.operations.reading import language_of, read_chunks
from easy_knowledge_retriever.operations.references import is_numbered, own_names, subject
from easy_knowledge_retriever.text.folding import entity_key, fold
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS
from easy_knowledge_retriever.types import Chunk, Document, EntityMention, Extraction, RelationMention

__all__ = ["MAX_RELATIONS", "MAX_WORDED", "LocalNames", "NamesOf", "names_of"]

NamesOf = Callable[[Chunk], Sequence[str]]
"""The names in a chunk."""

MAX_RELATIONS: Final = 12
"""Relations a chunk gives at most."""
MAX_WORDED: Final = 4
"""Relations of a chunk that have keywords, and with them a vector, at most."""
_MAX_NAMES: Final = 60
"""Names a chunk gives at most; a list of a thousand says little about each."""
_WINDOW: Final = 60
"""Characters before a name that may tell what it has to do with the subject."""
_CUT_BEGIN: Final = re.compile(r"\A\w+")
_CUT_END: Final = re.compile(r"\w+\Z")
_SENTENCE_END: Final = re.compile(r"[.!?;:]\s")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


class LocalNames(Extractor):
    """Names by their capitals and quotation marks; relations by standing in one sentence with the subject of the chunk."""

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        return await read_chunks(_Reader.of, document, chunks, progress)


def names_of(document: Document) -> NamesOf:
    """What finds the names in the chunks of a document."""
    reader = _Reader.of(document)
    return lambda chunk: [mention.name for mention in reader.read(chunk).entities]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the chunks of one document."""

    language: str
    known: AbstractSet[str]
    """Words that begin with a capital inside some sentence of the document, or stand in its title."""
    function_words: AbstractSet[str]

    @classmethod
    def of(cls, document: Document) -> _Reader:
        """What the document as a whole tells about its names."""
        language = language_of(document.text) or "en"
        title = {fold(word) for word in _WORD.findall(document.title)}
        known = title if language == "de" else title | capitalised_words(document.text)
        return cls(language, known, FUNCTION_WORDS.get(language, FUNCTION_WORDS["en"]))

    def read(self, chunk: Chunk) -> Extraction:
        """The names of one chunk and the relations between them."""
        own = own_names(chunk.headings[0]) if chunk.headings else ()
        names = [name for name in names_in(chunk.text, self.language, self.known, own) if not is_numbered(name.text)]
        first: dict[str, Name] = {}
        for name in names:
            first.setdefault(entity_key(name.text), name)
        first.pop("", None)
        kept = dict(list(first.items())[:_MAX_NAMES])
        mentions = (
            EntityMention(name.text, name.type, "", chunk.start + name.start, chunk.start + name.end) for name in kept.values()
        )
        return Extraction(
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            source="local",
            entities=tuple(mentions),
            relations=self._relations(chunk, names, kept),
        )

    def _relations(self, chunk: Chunk, names: Sequence[Name], kept: dict[str, Name]) -> tuple[RelationMention, ...]:
        """The subject of the chunk with each name, then the names of one sentence with each other, as far as the cap allows."""
        about = subject(chunk)
        own = {entity_key(name) for heading in chunk.headings for name in own_names(heading)} | {entity_key(about)}
        found = {
            (entity_key(name.text), entity_key(name.expansion)): self._relation(chunk, name.expansion, name, ("short for",))
            for name in names
            if name.expansion and entity_key(name.expansion) in kept
        }
        if about:
            for key, name in kept.items():
                if key not in own and len(found) < MAX_RELATIONS:
                    found[entity_key(about), key] = self._relation(chunk, about, name)
            return _worded(found.values())
        for one, other in pairwise(names):
            first, second = entity_key(one.text), entity_key(other.text)
            if one.sentence != other.sentence or other.start < one.end or first == second or len(found) >= MAX_RELATIONS:
                continue
            if first in kept and second in kept and (second, first) not in found:
                found.setdefault((first, second), self._relation(chunk, one.text, other))
        return _worded(found.values())

    def _relation(self, chunk: Chunk, source: str, target: Name, words: tuple[str, ...] | None = None) -> RelationMention:
        start, end = chunk.start + target.start, chunk.start + target.end
        keywords = self._keywords(chunk.text, target) if words is None else words
        return RelationMention(source, target.text, "", keywords, 1.0, start, end)

    def _keywords(self, text: str, name: Name) -> tuple[str, ...]:
        """The plain words around a name in its sentence: the two before it and the one after it."""
        start, end = max(name.start - _WINDOW, 0), name.end + _WINDOW // 2
        before = _CUT_BEGIN.sub("", text[start : name.start]) if start else text[: name.start]
        after = _CUT_END.sub("", text[name.end : end]) if end < len(text) else text[name.end :]
        before, after = _SENTENCE_END.split(before)[-1], _SENTENCE_END.split(after)[0]
        return tuple(dict.fromkeys((*self._plain(before)[-2:], *self._plain(after)[:1])))

    def _plain(self, text: str) -> list[str]:
        return [word for word in _WORD.findall(text) if word.islower() and word not in self.function_words]


def _worded(relations: Iterable[RelationMention]) -> tuple[RelationMention, ...]:
    """The relations, with the keywords of the most telling only: each set of keywords is a vector to make and to search."""
    found = list(relations)
    telling = sorted(found, key=lambda relation: (-len(relation.keywords), " " not in relation.target))[:MAX_WORDED]
    return tuple(relation if relation in telling else replace(relation, keywords=()) for relation in found)
