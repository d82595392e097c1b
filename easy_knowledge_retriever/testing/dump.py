"""A knowledge base as one text: equal for equal bases, whatever order they were filled in and whatever backend holds them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import asdict, fields
from itertools import chain

import numpy as np

from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, Table
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.types import FloatVector

__all__ = ["canonical_dump"]

LEFT_OUT = frozenset({"created_at", "updated_at", "track_id"})
"""What tells one run from another and nothing of the base."""
PAST = frozenset({("stamps", "generation"), ("stamps", "probes"), ("redo", "turn")})
"""The counts of the changes of a base and what its model once made of some texts: its past, not its state."""
NOT_OF_THE_BASE = frozenset({"llm_cache", "parses", "summaries", "usage", "vector_index"})
"""Three caches, what was spent on the way, and which set of vectors is served."""
SUMMARY = "that of a summary"
"""Stands for the vector of what has a summary or waits for one."""
SEARCHES = 24
"""How many BM25 searches stand for the postings, which no port shows."""

NOTHING = 1e-6
"""A component smaller than this is none: half precision may lose it."""

Row = tuple[str, str, object]
"""Role, key, value."""


async def canonical_dump(base: KnowledgeBase) -> str:
    """Every row of every role, one a line, in order.

    Times, track ids, the caches (replies, parses, summaries) and what was spent on the way are left out.
    Postings are shown by what they answer: the document frequency of every term of the chunks, and some searches.
    A vector is shown by the signs of its components, which are the same in whatever precision it is kept.
    A summary is shown by what it is to cover, the fragments, whether a model wrote it already or is still to be asked.

    Args:
        base: An open base; one snapshot of it is read.
    """
    async with base.snapshot() as view:
        rows = [row async for row in _rows(view)]
    lines = (json.dumps(row, sort_keys=True, separators=(",", ":")) for row in sorted(rows, key=lambda row: row[:2]))
    return "".join(line + "\n" for line in lines)


async def _rows(view: KnowledgeBase) -> AsyncIterator[Row]:
    members = {spec.name: getattr(view, spec.name) for spec in fields(view) if spec.name not in NOT_OF_THE_BASE}
    summarized = await _summarized(view.graph)
    for role, member in members.items():
        table = member.storage if isinstance(member, Table) else member
        if isinstance(table, KVStorage):
            async for key, value in table.scan():
                if (role, key) not in PAST:
                    yield role, key, _timeless(value)
        elif isinstance(table, VectorStorage):
            async for key, vector in _vectors(table):
                yield role, key, SUMMARY if (role, key) in summarized else _signs(vector)
    for record in await view.status.page():
        yield "status", record.id, _timeless(codecs.encode_record(record))
    terms = {term async for _, chunk in view.chunks.scan() for term in analyze(chunk.indexed_text)}
    async for row in _lexical(view.lexical, terms):
        yield row
    async for row in _graph(view.graph):
        yield row


async def _summarized(graph: GraphStorage) -> set[tuple[str, str]]:
    """Role and key of each vector whose text is a summary, or is to be one."""
    entities, relations = await graph.entities(await graph.keys()), await graph.relations(await graph.relation_keys())
    found = {("entity_vectors", key) for key, entity in entities.items() if entity.summary or entity.pending}
    return found | {("relation_vectors", key.id) for key, row in relations.items() if row.summary or row.pending}


def _timeless(value: JsonObject) -> Mapping[str, object]:
    return {name: part for name, part in value.items() if name not in LEFT_OUT}


async def _vectors(index: VectorStorage) -> AsyncIterator[tuple[str, FloatVector]]:
    ids = await index.ids()
    vectors = await index.vectors(ids)
    assert await index.count() == len(ids) == len(vectors)
    for key in ids:
        yield key, vectors[key]


def _signs(vector: FloatVector) -> str:
    return "".join("0+-"[int(sign)] for sign in np.sign(np.where(np.abs(vector) < NOTHING, 0, vector)))


async def _lexical(index: LexicalStorage, terms: Collection[str]) -> AsyncIterator[Row]:
    ids = await index.ids()
    assert await index.count() == len(ids)
    for key in ids:
        yield "lexical", key, None
    frequencies = await index.document_frequencies(sorted(terms))
    for term, count in frequencies.items():
        yield "document_frequency", term, count
    by_frequency = sorted(frequencies, key=lambda term: (frequencies[term], term))
    for term in by_frequency[:: len(by_frequency) // SEARCHES + 1]:
        hits = await index.search([term], len(ids))
        yield "search", term, [[hit.id, round(hit.score, 3)] for hit in hits]


async def _graph(graph: GraphStorage) -> AsyncIterator[Row]:
    keys = await graph.keys()
    entities, relations = await graph.entities(keys), await graph.relations(await graph.relation_keys())
    mentions = list(chain.from_iterable((await graph.mentions_of(keys)).values()))
    yield "graph", "counts", asdict(await graph.counts())
    for key, entity in entities.items():
        yield "entity", key, _by_inputs(codecs.encode_entity(entity))
    for relation_key, relation in relations.items():
        yield "relation", relation_key.id, _by_inputs(codecs.encode_relation(relation))
    for mention in mentions:
        yield "mention", json.dumps([mention.entity, mention.chunk_id]), asdict(mention)


def _by_inputs(value: JsonObject) -> JsonObject:
    """An entity or relation with its fragments, which its summary is made of, and without the summary."""
    rest = {name: part for name, part in value.items() if name not in {"summary", "pending"}}
    return rest | {"summarized": bool(value["summary"] or value["pending"])}
