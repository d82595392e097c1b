"""Writing the context: tagged, escaped, numbered passages and facts, fitted into a token budget."""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import Any, TypeVar

from easy_knowledge_retriever.operations.budget import CountTokens, TokenBudget, cut_chunk, longest_prefix
from easy_knowledge_retriever.text.tokenizer import TokenCounter
from easy_knowledge_retriever.types import Chunk, Context, Entity, GraphFacts, Passage, Relation

__all__ = ["BUDGET_TOO_SMALL", "PASSAGE_CUT", "FittedContext", "entity_data", "relation_data", "write_context"]

F = TypeVar("F")
_NONE: Mapping[str, str] = MappingProxyType({})

PASSAGE_CUT = "passage_cut"
"""Named in ``degraded`` when the best passage was longer than the budget and only its head is shown."""
BUDGET_TOO_SMALL = "budget_too_small"
"""Named in ``degraded`` when not even a word of a passage fits the budget."""


@dataclass(frozen=True, slots=True)
class FittedContext:
    """A context and what had to give way."""

    context: Context
    degraded: tuple[str, ...] = ()


def write_context(
    chunks: Sequence[tuple[Chunk, float]],
    facts: GraphFacts,
    budget: TokenBudget,
    count: CountTokens,
    created: Mapping[str, str] | None = None,
) -> FittedContext:
    """The context of a question: as many facts and passages, best first, as the budget takes.

    Facts never take more than half of the whole where there are passages. Only the order given decides what is left
    out; the text is a function of the arguments alone.

    Args:
        chunks: Chunks with their scores, best first.
        facts: Entities and relations, best first.
        budget: Ceilings in tokens.
        count: Counts tokens.
        created: When each document was created, by name, for ``raw_data``.
    """
    counted = _counted_elements(count)
    room = budget.total // 2 if chunks else budget.total
    entities = _fit_facts(facts.entities, _entity_text, min(budget.entities, room), counted)
    limit = min(budget.relations, room - counted(_facts(entities)) if entities else room)
    relations = _fit_facts(facts.relations, _relation_text, limit, counted)
    while (entities or relations) and counted(_facts((*entities, *relations))) > room:
        entities, relations = (entities, relations[:-1]) if relations else (entities[:-1], relations)
    kept = GraphFacts(facts.entities[: len(entities)], facts.relations[: len(relations)])
    passages, elements, degraded = _fit_passages(chunks, _facts((*entities, *relations)), budget.total, counted)
    tokens = counted(elements) if elements else 0
    context = Context("\n".join(elements), passages, kept, tokens, _raw_data(kept, passages, created or {}))
    return FittedContext(context, degraded)


def _counted_elements(count: CountTokens) -> Callable[[Sequence[str]], int]:
    """Counts the tokens of elements that stand one a line, each element once where that is possible."""
    if isinstance(count, TokenCounter) and count.adds_up:
        # The last line has no break, but the tags that close a context have the same number of tokens with one.
        line = functools.cache(lambda element: count(f"{element}\n"))
        return lambda elements: sum(map(line, elements))
    whole = functools.cache(count)
    return lambda elements: whole("\n".join(elements))


def _fit_facts(
    facts: Sequence[F], render: Callable[[F], str], limit: int, counted: Callable[[Sequence[str]], int]
) -> tuple[str, ...]:
    """The texts of the first facts that fit; hardly any other is written."""
    text = functools.cache(lambda place: render(facts[place]))
    places = range(len(facts))
    likely = _likely(map(text, places), limit)
    return tuple(map(text, longest_prefix(places, lambda some: counted(_facts(list(map(text, some)))), limit, likely)))


def _likely(texts: Iterable[str], limit: int) -> int:
    """How many of the first texts have so many tokens together, if a token has four characters: for a start."""
    return sum(1 for _ in takewhile(lambda characters: characters <= 4 * limit, accumulate(map(len, texts))))


def _fit_passages(
    chunks: Sequence[tuple[Chunk, float]], facts: Sequence[str], total: int, counted: Callable[[Sequence[str]], int]
) -> tuple[tuple[Passage, ...], tuple[str, ...], tuple[str, ...]]:
    """The passages that fit beside the facts, all elements of the text, and what had to give way."""
    numbered = [Passage(number, chunk, score) for number, (chunk, score) in enumerate(chunks, start=1)]
    texts = [_passage_text(passage) for passage in numbered]
    fitting = longest_prefix(texts, lambda some: counted((*facts, *_passages(some))), total, _likely(texts, total))
    if fitting or not numbered:
        return tuple(numbered[: len(fitting)]), (*facts, *_passages(fitting)), ()
    best = numbered[0]

    def alone(chunk: Chunk) -> tuple[str, ...]:
        return (*facts, *_passages([_passage_text(Passage(1, chunk, best.score))]))

    cut = cut_chunk(best.chunk, lambda chunk: counted(alone(chunk)), total)
    if cut is None:
        return (), tuple(facts), (BUDGET_TOO_SMALL,)
    return (Passage(1, cut, best.score),), alone(cut), (PASSAGE_CUT,)


def _facts(elements: Sequence[str]) -> tuple[str, ...]:
    return ("<facts>", *elements, "</facts>") if elements else ()


def _passages(elements: Sequence[str]) -> tuple[str, ...]:
    return ("<passages>", *elements, "</passages>") if elements else ()


def _entity_text(entity: Entity) -> str:
    return f"<entity{_attribute('name', entity.name)}{_attribute('type', entity.type)}>{_escaped(entity.description)}</entity>"


def _relation_text(relation: Relation) -> str:
    keywords = ", ".join(word for word, _ in relation.keywords)
    ends = f"{_attribute('from', relation.first_name)}{_attribute('to', relation.second_name)}{_attribute('about', keywords)}"
    return f"<relation{ends}>{_escaped(relation.description)}</relation>"


def _passage_text(passage: Passage) -> str:
    chunk = passage.chunk
    opening = f'<passage id="{passage.number}"{_attribute("document", chunk.document_name)}'
    opening += f"{_attribute('page', _pages(chunk))}{_attribute('heading', chunk.heading)}>"
    return f"{opening}\n{_escaped(chunk.body)}\n</passage>"


def _attribute(name: str, value: str) -> str:
    return f' {name}="{html.escape(" ".join(value.split()))}"' if value else ""


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _pages(chunk: Chunk) -> str:
    if chunk.page_start is None:
        return ""
    return str(chunk.page_start) if chunk.page_start == chunk.page_end else f"{chunk.page_start}-{chunk.page_end}"


def _raw_data(facts: GraphFacts, passages: Sequence[Passage], created: Mapping[str, str]) -> dict[str, Any]:
    numbers = {passage.chunk.id: str(passage.number) for passage in passages}
    return {
        "entities": [entity_data(entity, numbers, created) for entity in facts.entities],
        "relationships": [relation_data(relation, numbers, created) for relation in facts.relations],
        "chunks": [_chunk_data(passage) for passage in passages],
        "references": [_reference_data(passage) for passage in passages],
    }


def _provenance(
    chunk_ids: Sequence[str], file_paths: Sequence[str], numbers: Mapping[str, str], created: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "source_id": list(chunk_ids),
        "file_path": list(file_paths),
        "created_at": min((created[path] for path in file_paths if created.get(path)), default=""),
        "reference_id": next((numbers[chunk_id] for chunk_id in chunk_ids if chunk_id in numbers), ""),
    }


def entity_data(entity: Entity, numbers: Mapping[str, str] = _NONE, created: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """An entity as plain data.

    Args:
        entity: The entity.
        numbers: Passage number by chunk id, for ``reference_id``.
        created: When each document was created, by name.
    """
    return {
        "entity_name": entity.name,
        "entity_type": entity.type,
        "description": entity.description,
        "summarized": bool(entity.summary),
        "summary_pending": entity.pending,
        **_provenance(entity.chunk_ids, entity.file_paths, numbers, created),
    }


def relation_data(relation: Relation, numbers: Mapping[str, str] = _NONE, created: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """A relation as plain data, with the arguments of :func:`entity_data`."""
    return {
        "src_id": relation.first_name,
        "tgt_id": relation.second_name,
        "description": relation.description,
        "keywords": ", ".join(word for word, _ in relation.keywords),
        "summarized": bool(relation.summary),
        "summary_pending": relation.pending,
        "weight": relation.weight,
        **_provenance(relation.chunk_ids, relation.file_paths, numbers, created),
    }


def _chunk_data(passage: Passage) -> dict[str, Any]:
    chunk = passage.chunk
    return {
        "content": chunk.text,
        "file_path": chunk.document_name,
        "chunk_id": chunk.id,
        "reference_id": str(passage.number),
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
    }


def _reference_data(passage: Passage) -> dict[str, Any]:
    chunk = passage.chunk
    return {
        "reference_id": str(passage.number),
        "file_path": chunk.document_name,
        "pages": sorted({span.page for span in chunk.pages}),
        "passages": [passage.number],
        "quote": "",
    }
