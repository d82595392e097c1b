"""The invariants of a base, each a named check. A base that passes them was not damaged by what happened to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np

from easy_knowledge_retriever.ingestion.stamps import Stamps, stamps_of
from easy_knowledge_retriever.ingestion.summarizing import WANTED, said
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.reply_cache import owners_of_replies
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.indexing import has_vector, lexical_records, mention_edges
from easy_knowledge_retriever.operations.merging import Evidence, Limits, evidence_in, merged_entity, merged_relation
from easy_knowledge_retriever.operations.name_rows import recounted
from easy_knowledge_retriever.operations.naming import naming_of
from easy_knowledge_retriever.operations.resolution import Identifier, Names
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.types import (
    Chunk,
    DocRecord,
    DocStatus,
    Document,
    Entity,
    Extraction,
    FactKey,
    NameRow,
    Naming,
    Relation,
    RelationKey,
)

__all__ = ["INVARIANTS", "Finding", "VerifyReport", "verify"]

INVARIANTS: Final = {
    "I1": "every chunk belongs to the live version of its document, and every live version has its chunks",
    "I2": "every chunk has one vector of the store's dimension",
    "I3": "every vector of a chunk has its chunk",
    "I4": "postings and chunks match one to one, document frequencies recount equal",
    "I5": "every entity, relation and mention stands in a living extraction, and every extraction in the graph",
    "I6": "both ends of every relation exist",
    "I7": "vectors of entities and relations match their rows",
    "I8": "entities, relations and names are what their living mentions make of them",
    "I9": "what is kept of summaries covers only what is still said, and what wants one is listed",
    "I13": "counts in the status equal the counted rows",
    "I14": "chunks are in order, pages ascend, spans lie inside the text",
    "I15": "every id is unique",
    "I16": "the fingerprint of the embedding model equals the configuration",
    "I17": "vectors are finite and not zero",
    "I20": "text is valid UTF-8 without NUL",
}
"""Name of each check and what it holds the base to."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant that does not hold for one row."""

    check: str
    """A key of :data:`INVARIANTS`."""
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found."""

    findings: tuple[Finding, ...]
    documents: int
    chunks: int
    entities: int
    relations: int

    @property
    def clean(self) -> bool:
        """Whether every invariant holds."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class _State:
    """A base in memory, its vectors and postings as ids."""

    stamps: Stamps
    records: dict[str, DocRecord]
    documents: dict[str, Document]
    manifests: dict[str, tuple[str, ...]]
    chunks: dict[str, Chunk]
    ledger: tuple[Extraction, ...]
    naming: dict[str, Naming]
    names: Names
    identify: Identifier
    evidence: Evidence
    entities: dict[str, Entity]
    relations: dict[RelationKey, Relation]


async def verify(
    kb: KnowledgeBase,
    *,
    deep: bool = False,
    settings: Settings | None = None,
    embedding: EmbeddingService | None = None,
) -> VerifyReport:
    """Checks the invariants in one snapshot of the base.

    Args:
        kb: The base.
        deep: Also merges everything again, counts all postings and reads all vectors.
        settings: Those of the retriever, for what is shown of an entity.
        embedding: Its model, for the fingerprint.
    """
    async with kb.snapshot() as seen:
        state = await _state(seen)
        findings = [*_documents(state), *_texts(state), *_graph(state), *_model(state, embedding)]
        findings += [finding async for finding in _indexes(seen, state)]
        findings += [finding async for finding in _summaries(seen, state)]
        if deep:
            findings += [*_merged(state, settings or Settings()), *_named(state)]
            findings += [finding async for finding in _mentions(seen, state)]
            findings += [finding async for finding in _postings(seen, state)]
            findings += [finding async for finding in _vectors(seen, state)]
            findings += [finding async for finding in _replies(seen, state)]
    return VerifyReport(tuple(findings), len(state.records), len(state.chunks), len(state.entities), len(state.relations))


async def _state(kb: KnowledgeBase) -> _State:
    records = {record.id: record for record in await kb.status.page()}
    ledger = tuple([extraction async for _, extraction in kb.extractions.scan()])
    file_paths = {key: record.name for key, record in records.items()}
    names = Names(dict([row async for row in kb.names.scan()]))
    naming = dict([row async for row in kb.naming.scan()])
    identify = Identifier(names, {document_id: said.uses for document_id, said in naming.items()})
    return _State(
        stamps=await stamps_of(kb),
        records=records,
        documents=dict([row async for row in kb.documents.scan()]),
        manifests=dict([row async for row in kb.manifests.scan()]),
        chunks=dict([row async for row in kb.chunks.scan()]),
        ledger=ledger,
        naming=naming,
        names=names,
        identify=identify,
        evidence=evidence_in(((e, file_paths.get(e.document_id, "")) for e in ledger), identify),
        entities=await kb.graph.entities(await kb.graph.keys()),
        relations=await kb.graph.relations(await kb.graph.relation_keys()),
    )


def _documents(state: _State) -> Iterator[Finding]:
    listed = Counter(chunk_id for ids in state.manifests.values() for chunk_id in ids)
    for key, chunk in state.chunks.items():
        record = state.records.get(chunk.document_id)
        if record is None or record.version != chunk.version:
            yield Finding("I1", key, f"its version {chunk.version!r} of {chunk.document_id!r} is not live")
        if listed[key] != 1:
            yield Finding("I1", key, f"it is listed {listed[key]} times by the documents")
    yield from _differ("I1", "manifest", state.manifests, state.documents)
    live = {key for key, record in state.records.items() if record.version}
    yield from _differ("I1", "live version", live, state.documents)
    for key, record in state.records.items():
        ids = state.manifests.get(key, ())
        if len(ids) != record.chunk_count:
            yield Finding("I13", key, f"the status counts {record.chunk_count} chunks, there are {len(ids)}")
        document = state.documents.get(key)
        if document is not None and (document.digest != record.version or len(document.pages) != record.page_count):
            yield Finding("I13", key, "the status speaks of another version or number of pages than the document")
        if record.status is DocStatus.PROCESSED and not record.version:
            yield Finding("I13", key, "it is processed, but no version is live")
        yield from _order(state, key, ids)


def _order(state: _State, document_id: str, ids: tuple[str, ...]) -> Iterator[Finding]:
    document = state.documents.get(document_id)
    text = document.text if document is not None else ""
    for order, key in enumerate(ids):
        chunk = state.chunks.get(key)
        if chunk is None:
            yield Finding("I1", key, f"it is listed by {document_id!r} and not there")
            continue
        following = ids[order + 1] if order + 1 < len(ids) else ""
        if chunk.order != order or chunk.next_id != following:
            yield Finding("I14", key, f"it is number {chunk.order} before {chunk.next_id!r}, not {order} before {following!r}")
        if text[chunk.start : chunk.end] != chunk.text:
            yield Finding("I14", key, f"it is not the text of its document from {chunk.start} to {chunk.end}")
        pages = [span.page for span in chunk.pages]
        inside = all(chunk.start <= span.start <= span.end <= chunk.end for span in chunk.pages)
        if pages != sorted(pages) or not inside:
            yield Finding("I14", key, f"its pages {pages} do not ascend inside it")


def _texts(state: _State) -> Iterator[Finding]:
    for key, document in state.documents.items():
        yield from _clean(key, document.text, document.title, document.name)
    for name, entity in state.entities.items():
        yield from _clean(name, entity.key, *(text for text, _ in entity.names), entity.description)
    for pair, relation in state.relations.items():
        yield from _clean(pair.id, relation.description, *(word for word, _ in relation.keywords))


def _clean(key: str, *texts: str) -> Iterator[Finding]:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            yield Finding("I20", key, f"character {error.start} is half of a surrogate pair")
        if "\0" in text:
            yield Finding("I20", key, f"character {text.index(chr(0))} is NUL")


def _graph(state: _State) -> Iterator[Finding]:
    for extraction in state.ledger:
        chunk = state.chunks.get(extraction.chunk_id)
        if chunk is None or chunk.document_id != extraction.document_id:
            yield Finding("I5", extraction.chunk_id, f"an extraction ({extraction.source}) of it is there, the chunk is not")
    yield from _differ("I5", "entity", state.entities, state.evidence.entities)
    yield from _differ("I5", "relation", _ids(state.relations), _ids(state.evidence.relations))
    for pair in state.relations:
        for end in pair:
            if end not in state.entities:
                yield Finding("I6", pair.id, f"its end {end!r} does not exist")


def _model(state: _State, embedding: EmbeddingService | None) -> Iterator[Finding]:
    made = state.stamps.embedding
    if made is None:
        if state.chunks:
            yield Finding("I16", "embedding", "no model is noted for the vectors")
    elif embedding is not None and (made.fingerprint, made.dimension) != (embedding.fingerprint, embedding.embedding_dim):
        yield Finding("I16", "embedding", f"the vectors are of {made.fingerprint!r}, configured is {embedding.fingerprint!r}")


async def _indexes(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    waiting = state.stamps.unembedded
    entities = {key for key, entity in state.entities.items() if has_vector(entity) and key not in waiting.entities}
    relations = {key.id for key, relation in state.relations.items() if has_vector(relation) and key not in waiting.relations}
    vectors, entity_vectors = await kb.chunk_vectors.ids(), await kb.entity_vectors.ids()
    relation_vectors, postings = await kb.relation_vectors.ids(), await kb.lexical.ids()
    for name, ids in (("chunk", vectors), ("entity", entity_vectors), ("relation", relation_vectors), ("posting", postings)):
        for key, count in Counter(ids).items():
            if count > 1:
                yield Finding("I15", key, f"there are {count} {name} rows of it")
    for key in sorted(state.chunks.keys() - set(vectors)):
        yield Finding("I2", key, "it has no vector")
    for key in sorted(set(vectors) - state.chunks.keys()):
        yield Finding("I3", key, "its vector has no chunk")
    for finding in (
        *_differ("I4", "posting", postings, state.chunks),
        *_differ("I7", "entity vector", entity_vectors, entities),
        *_differ("I7", "relation vector", relation_vectors, relations),
    ):
        yield finding


async def _summaries(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    there: list[Entity | Relation] = [*state.entities.values(), *state.relations.values()]
    facts = {fact.key: fact for fact in there}
    wanted = set()
    async for key, summary in kb.summaries.scan():
        if key.startswith(WANTED):
            wanted.add(summary.of)
        elif not said(facts.get(summary.of)).issuperset(summary.covers):
            yield Finding("I9", key, "a summary of what is not said any more is kept")
    pending = {key for key, fact in facts.items() if fact.pending}
    for fact in sorted(map(_id, wanted ^ pending)):
        yield Finding("I9", fact, "it waits for a summary and is not listed so, or the other way round")


def _id(key: FactKey) -> str:
    return key if isinstance(key, str) else key.id


def _merged(state: _State, settings: Settings) -> Iterator[Finding]:
    of_entities, of_relations = Limits.of_entities(settings), Limits.of_relations(settings)
    for key, mentions in state.evidence.entities.items():
        entity = state.entities.get(key)
        if entity is not None and replace(entity, summary="", pending=False) != merged_entity(key, mentions, of_entities):
            yield Finding("I8", key, "it is not what its mentions make of it")
    for pair, statements in state.evidence.relations.items():
        relation = state.relations.get(pair)
        if relation is not None and replace(relation, summary="", pending=False) != merged_relation(
            pair, statements, of_relations
        ):
            yield Finding("I8", pair.id, "it is not what its mentions make of it")


def _named(state: _State) -> Iterator[Finding]:
    """Documents that were ingested without resolution have no naming, and their names count nowhere."""
    told: dict[str, list[Extraction]] = {}
    for extraction in state.ledger:
        told.setdefault(extraction.document_id, []).append(extraction)
    for document_id, naming in state.naming.items():
        chunks = [chunk for key in state.manifests.get(document_id, ()) if (chunk := state.chunks.get(key)) is not None]
        if naming_of(chunks, told.get(document_id, [])) != naming:
            yield Finding("I8", document_id, "its naming is not what its chunks say")
    counted: dict[str, Mapping[str, NameRow]] = {}
    for naming in state.naming.values():
        counted |= recounted(counted, Naming(), naming)
    stored = {group: {key: _undecided(row) for key, row in rows.items()} for group, rows in state.names.groups.items()}
    for group in sorted(counted.keys() | stored.keys()):
        if counted.get(group, {}) != stored.get(group, {}):
            yield Finding("I8", group, "its row of names is not what the documents say")


def _undecided(row: NameRow) -> NameRow:
    """The row without what a user decided, which no document says."""
    return replace(row, apart=False, whole=False, into="", merged=())


async def _mentions(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    living = [extraction for extraction in state.ledger if extraction.chunk_id in state.chunks]
    expected = {(edge.entity, edge.chunk_id): edge for edge in mention_edges(list(state.chunks.values()), living, state.identify)}
    found = {
        (edge.entity, edge.chunk_id): edge
        for edges in (await kb.graph.mentions_of(list(state.entities))).values()
        for edge in edges
    }
    for entity, chunk_id in sorted(expected.keys() ^ found.keys()):
        where = "missing" if (entity, chunk_id) in expected else "of no extraction"
        yield Finding("I5", entity, f"its mention in {chunk_id!r} is {where}")
    for pair in sorted(expected.keys() & found.keys()):
        if found[pair] != expected[pair]:
            yield Finding("I5", pair[0], f"its mention in {pair[1]!r} is another than the extractions say")


async def _postings(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    counted: Counter[str] = Counter()
    by_document = sorted(state.chunks.values(), key=lambda chunk: (chunk.document_id, chunk.order))
    for _, chunks in groupby(by_document, key=lambda chunk: chunk.document_id):
        for record in lexical_records(tuple(chunks)):
            counted.update({term for terms in record.fields.values() for term in terms})
    stored = await kb.lexical.document_frequencies(sorted(counted))
    for term, count in sorted(counted.items()):
        if stored.get(term, 0) != count:
            yield Finding("I4", term, f"its document frequency is {stored.get(term, 0)}, counted are {count}")


async def _vectors(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    dimension = state.stamps.embedding.dimension if state.stamps.embedding else None
    for storage in (kb.chunk_vectors, kb.entity_vectors, kb.relation_vectors):
        async for finding in _finite(storage, dimension):
            yield finding


async def _replies(kb: KnowledgeBase, state: _State) -> AsyncIterator[Finding]:
    owners = {KeptReplies(document_id).owner for document_id in state.records}
    for owner in sorted(await owners_of_replies(kb.llm_cache) - owners):
        yield Finding("I9", owner, "a reply about a document that is gone is kept")


async def _finite(storage: VectorStorage, dimension: int | None) -> AsyncIterator[Finding]:
    ids = await storage.ids()
    for key, vector in (await storage.vectors(ids)).items():
        if dimension is not None and vector.size != dimension:
            yield Finding("I2", key, f"its vector has {vector.size} dimensions, not {dimension}")
        length = float(np.linalg.norm(vector))
        if not (np.isfinite(length) and length > 0):
            yield Finding("I17", key, f"its vector has the length {length}")


def _ids(keys: Iterable[RelationKey]) -> set[str]:
    return {key.id for key in keys}


def _differ(check: str, name: str, found: Collection[str], expected: Collection[str]) -> Iterator[Finding]:
    """A finding for each key that only one of two sides has."""
    for key in sorted(set(expected) - set(found)):
        yield Finding(check, key, f"its {name} is missing")
    for key in sorted(set(found) - set(expected)):
        yield Finding(check, key, f"there is a {name} of it that stands for nothing")
