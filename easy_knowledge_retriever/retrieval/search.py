"""The searches of one knowledge base under one filter."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.graph_ranking import personalised_pagerank
from easy_knowledge_retriever.operations.ledger import ledger_of
from easy_knowledge_retriever.operations.merging import Limits, evidence_in, merged_entity, merged_relation
from easy_knowledge_retriever.operations.name_rows import identifier_of
from easy_knowledge_retriever.retrieval.statements import FOLLOWED, even, evidence_of, seed_weights, start_weights, teleport
from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.types import (
    AnalyzedQuery,
    Entity,
    GraphFacts,
    Hit,
    Relation,
    RelationKey,
    SearchFilter,
)

__all__ = ["IndexSearches"]

WALK_HOPS = 2
WALK_DEGREE = 60
"""Edges from which a node is a name that is everywhere: the walk reaches it and goes no further."""
AT_NAME = 100
"""Relations at one name, heaviest first, that are read for a question."""
DAMPING = 0.6


@dataclass(frozen=True, slots=True)
class IndexSearches:
    """Implements ``Searches`` over a snapshot. Filters are applied inside each search and walk."""

    kb: KnowledgeBase
    filter: SearchFilter | None
    """Resolved: without metadata conditions; None lets everything be seen."""
    top_k: int
    chunk_top_k: int
    reranks: bool
    threshold: float
    related_chunk_number: int
    pick_method: Literal["VECTOR", "WEIGHT"]
    max_graph_nodes: int

    async def dense(self, query: AnalyzedQuery, top_k: int) -> tuple[Hit, ...]:
        """Chunks by cosine similarity with the question, from the threshold up."""
        if query.vector is None:
            return ()
        return self._near(await self.kb.chunk_vectors.search(query.vector, top_k, self.filter))

    async def bm25(self, query: AnalyzedQuery, top_k: int, k1: float, b: float) -> tuple[Hit, ...]:
        """Chunks by Okapi BM25."""
        if not query.terms:
            return ()
        return tuple(await self.kb.lexical.search(query.terms, top_k, self.filter, k1=k1, b=b))

    async def entities(self, query: AnalyzedQuery) -> GraphFacts:
        """The entities the question names, those nearest to the low keywords, and the relations at them.

        Relations that are searched by meaning come in order of their nearness to the question, then the others by weight.
        The ends of the nearest statements, relations that are described, come after the entities.
        """
        keys = [*query.names]
        if query.low_vector is not None:
            visible = None if self.filter is None else await self.kb.graph.visible(self.filter)
            hits = self._near(await self.kb.entity_vectors.search(query.low_vector, self.top_k, ids=visible))
            keys += [hit.id for hit in hits]
        keys = list(dict.fromkeys(keys))[: self.top_k]
        entities = await self.kb.graph.entities(keys, self.filter)
        at = await self.kb.graph.relation_keys_of(keys, self.filter, self.top_k)
        pairs = list(dict.fromkeys(pair for key in keys for pair in at.get(key, ())))
        nearness = await self._nearness(query, pairs, self.top_k)
        found = await self.kb.graph.relations(list(dict.fromkeys((*nearness, *pairs)))[: self.top_k])
        stated = [pair for pair in nearness if pair in found and found[pair].description][:FOLLOWED]
        ends = list(dict.fromkeys(end for pair in stated for end in pair if end not in entities))
        entities |= await self.kb.graph.entities(ends, self.filter)
        return await self._visible([entities[key] for key in (*keys, *ends) if key in entities], list(found.values()))

    async def relations(self, query: AnalyzedQuery) -> GraphFacts:
        """The relations nearest to the high keywords, those at the names that speak of them, and the entities at their ends."""
        keys = [RelationKey.of_id(hit.id) for hit in await self._near_relations(query)]
        at = await self.kb.graph.relation_keys_of(query.names, self.filter, AT_NAME)
        at_names = list(dict.fromkeys(pair for name in query.names for pair in at.get(name, ())))
        found = await self.kb.graph.relations([*keys, *at_names])
        speaking = _speaking([found[pair] for pair in at_names if pair in found], query)
        relations = {relation.key: relation for relation in (*speaking, *(found[key] for key in keys if key in found))}
        best = list(relations.values())[: self.top_k]
        ends = list(dict.fromkeys(end for relation in best for end in relation.key))[: self.top_k]
        entities = await self.kb.graph.entities(ends, self.filter)
        return await self._visible([entities[end] for end in ends if end in entities], best)

    async def _near_relations(self, query: AnalyzedQuery) -> tuple[Hit, ...]:
        if query.high_vector is None:
            return ()
        ids = await self._visible_relations()
        return self._near(await self.kb.relation_vectors.search(query.high_vector, self.top_k, ids=ids))

    async def _visible_relations(self) -> set[str] | None:
        """Ids of the relations that may be seen; None if nothing is hidden."""
        if self.filter is None:
            return None
        at = await self.kb.graph.relation_keys_of(sorted(await self.kb.graph.visible(self.filter)), self.filter)
        return {pair.id for pairs in at.values() for pair in pairs}

    async def chunks_of(self, facts: GraphFacts, query: AnalyzedQuery) -> tuple[Hit, ...]:
        """The chunks the facts were merged from: by similarity with the question, or by how many facts speak of them.

        To the similarity of a chunk something is added for the nearest statement that it makes, or that leads to what it is
        about: the passage of a second step has no words of the question.
        """
        sources = [entity.chunk_ids for entity in facts.entities] + [relation.chunk_ids for relation in facts.relations]
        limit = max(self.related_chunk_number * len(sources) // 2, self.related_chunk_number)
        if self.pick_method == "VECTOR" and query.vector is not None:
            ids = {chunk_id for chunk_ids in sources for chunk_id in chunk_ids}
            if not ids:
                return ()
            hits = await self.kb.chunk_vectors.search(query.vector, limit, self.filter, ids=ids)
            evidence = evidence_of(facts, await self._nearness(query, _described(facts)), query.names)
            if evidence:
                hits += await self.kb.chunk_vectors.search(query.vector, len(evidence), self.filter, ids=evidence.keys())
            scores = {hit.id: hit.score + evidence.get(hit.id, 0.0) for hit in hits}
            return tuple(Hit(key, score) for key, score in sorted(scores.items(), key=lambda row: (-row[1], row[0]))[:limit])
        return _by_weight(sources, self.related_chunk_number)[:limit]

    async def walk(self, query: AnalyzedQuery, seeds: Sequence[Sequence[Hit]], top_k: int) -> tuple[Hit, ...]:
        """Chunks by personalised PageRank from what the question names and a passage is about, and the best given hits.

        Where the graph holds statements, relations that are described, the walk starts from the ends of those nearest to the
        question as well: of those at such a name, where there is one. They lead to what the question only points at.
        """
        chunks, facts = seed_weights(seeds), await self._statements(query)
        names = await self.kb.graph.mentions_of(list(dict.fromkeys((*query.anchors, *facts))), self.filter, WALK_DEGREE)
        starts = start_weights(query.anchors, facts, names)
        graph = await self.kb.graph.subgraph(
            list(chunks),
            list(starts),
            hops=WALK_HOPS,
            max_nodes=self.max_graph_nodes,
            max_degree=WALK_DEGREE,
            filter=self.filter,
        )
        scores = personalised_pagerank(even(graph), teleport(graph, chunks, starts), damping=DAMPING)[: len(graph.chunk_ids)]
        order = np.lexsort((np.arange(len(scores)), -scores))[:top_k]
        return tuple(Hit(graph.chunk_ids[i], float(scores[i])) for i in order if scores[i] > 0)

    async def _nearness(
        self, query: AnalyzedQuery, pairs: Sequence[RelationKey], limit: int | None = None
    ) -> dict[RelationKey, float]:
        """Similarity of these relations with the question, nearest first; only of those that are searched by meaning."""
        if query.vector is None or not pairs:
            return {}
        hits = await self.kb.relation_vectors.search(query.vector, limit or len(pairs), ids={pair.id for pair in pairs})
        return {RelationKey.of_id(hit.id): hit.score for hit in hits}

    async def _statements(self, query: AnalyzedQuery) -> dict[str, float]:
        """Ends of the statements nearest to the question, with the weight of each as a start."""
        if query.vector is None:
            return {}
        if query.anchors:
            at = await self.kb.graph.relation_keys_of(query.anchors, self.filter, AT_NAME)
            ids: set[str] | None = {pair.id for pairs in at.values() for pair in pairs}
        else:
            ids = await self._visible_relations()
        hits = self._near(await self.kb.relation_vectors.search(query.vector, 3 * FOLLOWED, ids=ids))
        found = await self.kb.graph.relations([RelationKey.of_id(hit.id) for hit in hits])
        described = [hit for hit in hits if (key := RelationKey.of_id(hit.id)) in found and found[key].description]
        weights: dict[str, float] = {}
        for rank, hit in enumerate(described[:FOLLOWED], start=1):
            for end in RelationKey.of_id(hit.id):
                weights[end] = weights.get(end, 0.0) + hit.score / rank
        return weights

    def _near(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        return tuple(hit for hit in hits if hit.score >= self.threshold)

    async def _visible(self, entities: Sequence[Entity], relations: Sequence[Relation]) -> GraphFacts:
        """The facts as the filter lets them be seen: merged again from what the visible documents say of them.

        Spellings, keywords, weights and descriptions of a merged fact are those of all documents, so none of it is kept.
        """
        if self.filter is None:
            return GraphFacts(tuple(entities), tuple(relations))
        ids = {chunk_id for entity in entities for chunk_id in entity.chunk_ids}
        ids |= {chunk_id for relation in relations for chunk_id in relation.chunk_ids}
        chunks = await self.kb.chunks.get_many(sorted(ids))
        names = {chunk_id: c.document_name for chunk_id, c in chunks.items() if self.filter.admits(c.document_id, c.collection)}
        ledger = (await ledger_of(self.kb, sorted(names))).values()
        told = evidence_in(((e, names[e.chunk_id]) for e in ledger), await identifier_of(self.kb, ledger))
        return GraphFacts(
            tuple(merged_entity(e.key, told.entities[e.key], _ALL) for e in entities if e.key in told.entities),
            tuple(merged_relation(r.key, told.relations[r.key], _ALL) for r in relations if r.key in told.relations),
        )


_ALL = Limits(chunk_ids=sys.maxsize, file_paths=sys.maxsize, keep_first=True, more="")


def _speaking(relations: Sequence[Relation], query: AnalyzedQuery) -> list[Relation]:
    """The relations whose keywords or description share terms with the themes, most terms first, then in order."""
    language = guess_language(query.question)
    wanted = set(analyze(" ".join(query.high_keywords), language))
    shared = [len(wanted.intersection(analyze(_said(relation), language))) for relation in relations]
    ranked = sorted(zip(shared, relations, strict=True), key=lambda pair: -pair[0])
    return [relation for count, relation in ranked if count]


def _described(facts: GraphFacts) -> list[RelationKey]:
    return [relation.key for relation in facts.relations if relation.description]


def _said(relation: Relation) -> str:
    return " ".join((*(word for word, _ in relation.keywords), relation.description))


def _by_weight(sources: Sequence[Sequence[str]], each: int) -> tuple[Hit, ...]:
    """Chunks by the number of facts that speak of them, each fact's best ``each``, facts in order breaking ties."""
    counts = Counter(chunk_id for chunk_ids in sources for chunk_id in chunk_ids)
    first = {chunk_id: rank for rank, chunk_ids in reversed(list(enumerate(sources))) for chunk_id in chunk_ids}
    picked: dict[str, None] = {}
    for chunk_ids in sources:
        for chunk_id in sorted(chunk_ids, key=lambda chunk_id: (-counts[chunk_id], chunk_id))[:each]:
            picked.setdefault(chunk_id)
    order = sorted(picked, key=lambda chunk_id: (-counts[chunk_id], first[chunk_id], chunk_id))
    return tuple(Hit(chunk_id, float(counts[chunk_id])) for chunk_id in order)
