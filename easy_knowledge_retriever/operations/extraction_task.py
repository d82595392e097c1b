"""What a language model is asked to find in a passage, and whether it kept to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from easy_knowledge_retriever.operations.extraction_format import ParsedExtraction
from easy_knowledge_retriever.operations.extraction_json import written
from easy_knowledge_retriever.prompts import extraction as wording
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.settings import DEFAULT_ENTITY_TYPES, ExtractionFormat
from easy_knowledge_retriever.types import EntityMention, ExtractionExample, RelationMention

__all__ = ["EXAMPLE", "ExtractionTask"]

_UNTYPED: Final = frozenset({"other", "unknown"})
_NAMED_AT_MOST: Final = 5

_MIRA, _TIDEWATER, _BRENN = "Mira Holt", "Tidewater Observatory", "Brenn"
EXAMPLE: Final = ExtractionExample(
    "Mira Holt founded the Tidewater Observatory in Brenn in 1974.",
    (
        EntityMention(_MIRA, "Person", "Mira Holt founded the Tidewater Observatory."),
        EntityMention(_TIDEWATER, "Organization", "It was founded in Brenn in 1974."),
        EntityMention(_BRENN, "Location", "The Tidewater Observatory was founded there."),
    ),
    (
        RelationMention(_MIRA, _TIDEWATER, "Mira Holt founded the Tidewater Observatory in 1974.", ("founding",), 9),
        RelationMention(_TIDEWATER, _BRENN, "The Tidewater Observatory was founded in Brenn.", ("location",), 6),
    ),
)
"""The example that comes with the prompt."""


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """What to find and how to write it."""

    entity_types: tuple[str, ...] = DEFAULT_ENTITY_TYPES
    relation_types: tuple[str, ...] = ()
    """Keywords of relations; any if empty."""
    language: str = "English"
    """Of the descriptions; ``auto`` is that of the passage. Names keep theirs."""
    form: ExtractionFormat = "lines"
    examples: tuple[ExtractionExample, ...] = ()
    """In place of :data:`EXAMPLE`."""

    def system(self, prompts: PromptSet) -> str:
        """The prompt that stands before every passage and never changes."""
        lines = self.form == "lines"
        keywords = wording.KEYWORDS
        if self.relation_types:
            keywords = wording.VOCABULARY.render(relation_types=", ".join(self.relation_types))
        return prompts.extraction_system.render(
            form=wording.LINES if lines else wording.JSON,
            entity_types=", ".join(self.entity_types),
            keywords=keywords,
            language="the language of the passage" if self.language == "auto" else self.language,
            nothing=wording.LINES_NOTHING if lines else wording.JSON_NOTHING,
            examples="\n\n".join(self._example(example) for example in self.examples or (self._own_example(),)),
        )

    def gleaning(self, prompts: PromptSet) -> str:
        """The prompt that asks for what is missing."""
        return prompts.extraction_gleaning.render(nothing="write END alone" if self.form == "lines" else "give two empty lists")

    def _own_example(self) -> ExtractionExample:
        """Ours, in the words that are allowed: a model copies what it is shown."""
        if not self.relation_types:
            return EXAMPLE
        first, last = self.relation_types[0], self.relation_types[-1]
        founding, location = EXAMPLE.relations
        return replace(EXAMPLE, relations=(replace(founding, keywords=(first,)), replace(location, keywords=(last,))))

    def _example(self, example: ExtractionExample) -> str:
        records = example.written or written(example.entities, example.relations, self.form)
        return wording.EXAMPLE.render(passage=example.text, records=records)

    def spelled(self, parsed: ParsedExtraction) -> ParsedExtraction:
        """The same with types and keywords in the spelling they were asked for."""
        types = {kind.casefold(): kind for kind in (*self.entity_types, "Other")}
        words = {word.casefold(): word for word in self.relation_types}
        entities = tuple(_with_type(mention, types.get(mention.type.casefold(), mention.type)) for mention in parsed.entities)
        relations = parsed.relations
        if words:
            relations = tuple(
                replace(r, keywords=tuple(dict.fromkeys(words.get(word.casefold(), word) for word in r.keywords)))
                for r in relations
            )
        return replace(parsed, entities=entities, relations=relations)

    def violations(self, read: Iterable[ParsedExtraction]) -> Iterator[str]:
        """A warning for types, and one for keywords, that were not asked for."""
        asked = _UNTYPED.union(kind.casefold() for kind in self.entity_types)
        allowed = {word.casefold() for word in self.relation_types}
        types: Counter[str] = Counter()
        keywords: Counter[str] = Counter()
        relations = 0
        for parsed in read:
            types.update(mention.type for mention in parsed.entities if mention.type.casefold() not in asked)
            for relation in parsed.relations if allowed else ():
                others = [word for word in relation.keywords if word.casefold() not in allowed]
                keywords.update(others)
                relations += bool(others) or not relation.keywords
        if types:
            yield f"{types.total()} entities have a type that was not asked for: {_most_common(types)}"
        if relations:
            named = f": {_most_common(keywords)}" if keywords else ""
            yield f"{relations} relations have keywords outside relation_types, or none{named}"


def _with_type(mention: EntityMention, kind: str) -> EntityMention:
    return mention if kind == mention.type else replace(mention, type=kind)


def _most_common(counts: Counter[str]) -> str:
    """The most frequent ones by name."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(repr(name) for name, _ in ordered[:_NAMED_AT_MOST])
    return f"{shown} and {len(ordered) - _NAMED_AT_MOST} more" if len(ordered) > _NAMED_AT_MOST else shown
