"""The graph, the indexes and what is kept beside the base, brought in line with the ledger and the chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from easy_knowledge_retriever.ingestion.planning import GraphChange
from easy_knowledge_retriever.ingestion.stamps import Unembedded
from easy_knowledge_retriever.ingestion.summarizing import WANTED, said, wanted_key
from easy_knowledge_retriever.ingestion.verification.graph import expected_mentions
from easy_knowledge_retriever.ingestion.verification.indexes import is_sound, records_by_document
from easy_knowledge_retriever.ingestion.verification.kept import lost_owners, lost_parses
from easy_knowledge_retriever.ingestion.verification.mending import Means
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.operations.indexing import has_vector
from easy_knowledge_retriever.operations.merging import Limits, merged_entity, merged_relation, with_summary_of
from easy_knowledge_retriever.types import Entity, FactKey, FloatVector, MentionEdge, Relation, Summary

__all__ = ["derived_graph", "mend_graph", "mend_kept", "mend_lexical", "mend_vectors"]


async def derived_graph(kb: KnowledgeBase, state: State, means: Means) -> GraphChange:
    """Every entity and relation, merged from the ledger. A summary stays where it is one of what is said."""
    of_entities, of_relations = Limits.of_entities(means.settings), Limits.of_relations(means.settings)
    entities = [
        with_summary_of(state.entities.get(key), merged_entity(key, evidence, of_entities))
        for key, evidence in sorted(state.evidence.entities.items())
    ]
    relations = [
        with_summary_of(state.relations.get(pair), merged_relation(pair, evidence, of_relations))
        for pair, evidence in sorted(state.evidence.relations.items())
    ]
    facts: list[Entity | Relation] = [*state.entities.values(), *state.relations.values()]
    summarized: set[FactKey] = {fact.key for fact in facts if fact.summary or fact.pending}
    summarized |= {summary.of async for _, summary in kb.summaries.scan(WANTED)}
    return means.mark(
        GraphChange(state.stamps, entities=tuple(entities), relations=tuple(relations), summarized=frozenset(summarized))
    )


async def mend_graph(kb: KnowledgeBase, state: State, change: GraphChange) -> None:
    """Entities, relations and mentions."""
    entities, relations = {e.key: e for e in change.entities}, {r.key: r for r in change.relations}
    expected = expected_mentions(state)
    by_chunk = _by_chunk(expected.values())
    found = _by_chunk([edge for edges in (await kb.graph.mentions_of([*state.entities])).values() for edge in edges])
    if (await kb.graph.counts()).mentions != sum(map(len, found.values())):
        await kb.graph.drop()  # mentions of entities that are not there: no call finds them
        found, state = {}, replace(state, entities={}, relations={})
    wrong = [key for key in sorted(found.keys() | by_chunk.keys()) if found.get(key) != by_chunk.get(key)]
    await kb.graph.delete_mentions(wrong)
    await kb.graph.delete_relations([key for key in state.relations if key not in relations])
    await kb.graph.delete_entities([key for key in state.entities if key not in entities])
    await kb.graph.put_entities([entity for key, entity in entities.items() if state.entities.get(key) != entity])
    await kb.graph.put_relations([relation for key, relation in relations.items() if state.relations.get(key) != relation])
    await kb.graph.put_mentions([edge for key in wrong for edge in by_chunk.get(key, {}).values()])


def _by_chunk(edges: Collection[MentionEdge]) -> dict[str, dict[str, MentionEdge]]:
    found: dict[str, dict[str, MentionEdge]] = {}
    for edge in edges:
        found.setdefault(edge.chunk_id, {})[edge.entity] = edge
    return found


async def mend_lexical(kb: KnowledgeBase, state: State) -> None:
    """Postings of all chunks and of nothing else."""
    counted: Counter[str] = Counter()
    for records in records_by_document(state.chunks):
        for record in records:
            counted.update({term for terms in record.fields.values() for term in terms})
    ids = await kb.lexical.ids()
    if ids == sorted(state.chunks) and await kb.lexical.document_frequencies(sorted(counted)) == counted:
        return
    await kb.lexical.drop()
    for records in records_by_document(state.chunks):
        await kb.lexical.put_many(records)


async def mend_vectors(kb: KnowledgeBase, state: State, change: GraphChange) -> Unembedded:
    """Drops vectors of nothing, of another text, without a direction or of another length; gives what waits for one."""
    entities = {entity.key: entity for entity in change.entities if has_vector(entity)}
    relations = {relation.key.id: relation for relation in change.relations if has_vector(relation)}
    stale = {key for key, entity in entities.items() if _text(state.entities.get(key)) != entity.indexed_text}
    stale_relations = {key for key, fact in relations.items() if _text(state.relations.get(fact.key)) != fact.indexed_text}
    sizes = Counter(vector.size for vector in (await kb.chunk_vectors.vectors(await kb.chunk_vectors.ids())).values())
    dimension = sizes.most_common(1)[0][0] if sizes else None  # the stamp may be what is wrong
    await _usable(kb.chunk_vectors, state.chunks, (), dimension)
    of_entities = await _usable(kb.entity_vectors, entities, stale, dimension)
    of_relations = await _usable(kb.relation_vectors, relations, stale_relations, dimension)
    waiting = state.stamps.unembedded
    return Unembedded(
        tuple(sorted(key for key in entities if key not in of_entities or key in waiting.entities)),
        tuple(sorted(fact.key for key, fact in relations.items() if key not in of_relations or fact.key in waiting.relations)),
    )


def _text(fact: Entity | Relation | None) -> str:
    return fact.indexed_text if fact is not None else ""


async def _usable(
    storage: VectorStorage, wanted: Collection[str], stale: Collection[str], dimension: int | None
) -> Mapping[str, FloatVector]:
    """The vectors that may stay; the others are deleted."""
    vectors = await storage.vectors(await storage.ids())
    usable = {
        key: vector
        for key, vector in vectors.items()
        if key in wanted and key not in stale and is_sound(vector) and dimension in {None, vector.size}
    }
    await storage.delete_many([key for key in vectors if key not in usable])
    return usable


async def mend_kept(kb: KnowledgeBase, state: State, change: GraphChange) -> None:
    """Summaries, replies, parses and staged work of what is gone."""
    facts = {fact.key: fact for fact in change.facts}
    wanted = {wanted_key(key): Summary(key) for key, fact in facts.items() if fact.pending}
    rows = {key: summary async for key, summary in kb.summaries.scan()}
    gone = [
        key
        for key, summary in rows.items()
        if (key not in wanted if key.startswith(WANTED) else not said(facts.get(summary.of)).issuperset(summary.covers))
    ]
    await kb.summaries.delete_many(gone)
    await kb.summaries.put_many({key: summary for key, summary in wanted.items() if key not in rows})
    await kb.parses.delete_many(await lost_parses(kb, state))
    for owner in await lost_owners(kb, state):
        await kb.llm_cache.delete_many([key async for key, _ in kb.llm_cache.scan(f"{owner}/")])
    expecting = {key for key, record in state.records.items() if record.pending_version}
    await kb.staged.delete_many([key async for key, row in kb.staged.scan() if row.document_id not in expecting])
    await kb.staged_vectors.delete_many([key async for key, row in kb.staged_vectors.scan() if row.document_id not in expecting])
