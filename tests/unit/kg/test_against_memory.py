"""The file storages answer like the in-memory reference, on random rows."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.files.manifest import read_manifest
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.graph_storage.networkx_impl import NetworkXStorage
from easy_knowledge_retriever.kg.lexical_storage.bm25_impl import BM25Storage
from easy_knowledge_retriever.testing.memory import MemoryGraphStorage, MemoryLexicalStorage
from easy_knowledge_retriever.types import Entity, LexicalRecord, MentionEdge, Relation, RelationKey, SearchFilter
from tests.support.properties import examples

KEYS = "abcdef"
TERMS = st.lists(st.sampled_from("uvwxyz"), max_size=6).map(tuple)
RECORDS = st.lists(
    st.builds(
        LexicalRecord,
        id=st.sampled_from("123456789"),
        fields=st.fixed_dictionaries({"heading": TERMS, "text": TERMS}),
        document_id=st.sampled_from(["d1", "d2"]),
    ),
    max_size=12,
)
RELATIONS = st.lists(
    st.builds(
        lambda one, other, weight, chunk: Relation(RelationKey.of(one, other), weight=weight, chunk_ids=(chunk,)),
        st.sampled_from("abc"),
        st.sampled_from("def"),
        st.sampled_from([1.0, 2.0]),
        st.sampled_from("1234"),
    )
)
MENTIONS = st.lists(
    st.builds(
        lambda entity, chunk, weight: MentionEdge(entity, chunk, f"d{int(chunk) % 2}", weight=weight),
        st.sampled_from(KEYS),
        st.sampled_from("1234"),
        st.sampled_from([1.0, 2.0]),
    )
)
FILTERS = st.sampled_from([None, SearchFilter(document_ids=frozenset({"d1"}))])


@examples(60)
@given(
    records=RECORDS,
    gone=st.sets(st.sampled_from("123456789")),
    terms=TERMS,
    k1=st.sampled_from([0.0, 1.2, 1.5]),
    b=st.sampled_from([0.0, 0.75, 1.0]),
    heading=st.sampled_from([0.0, 1.0, 2.5]),
    only=FILTERS,
)
async def test_bm25(
    records: list[LexicalRecord],
    gone: set[str],
    terms: tuple[str, ...],
    k1: float,
    b: float,
    heading: float,
    only: SearchFilter | None,
) -> None:
    answers = []
    with TemporaryDirectory() as folder:
        for storage in (BM25Storage(folder).bind("rows"), MemoryLexicalStorage().bind("rows")):
            await storage.open()
            await storage.put_many(records)
            await storage.delete_many(sorted(gone))
            answers.append(await storage.search(terms, 5, only, k1=k1, b=b, field_weights={"heading": heading}))
            await storage.close()
    ours, theirs = ({hit.id: hit.score for hit in hits} for hits in answers)
    assert ours == pytest.approx(theirs, rel=1e-6)


async def _fill(storage: GraphStorage, relations: list[Relation], mentions: list[MentionEdge], gone: str) -> None:
    await storage.open()
    await storage.put_entities([Entity(key, names=((key.upper(), 1),)) for key in KEYS])
    await storage.put_relations(relations)
    await storage.put_mentions(mentions)
    await storage.delete_entities(list(gone))
    await storage.delete_mentions(["4"])


@examples(60)
@given(
    relations=RELATIONS,
    mentions=MENTIONS,
    gone=st.text("abcdef", max_size=2),
    hops=st.integers(0, 3),
    max_nodes=st.integers(1, 10),
    max_degree=st.integers(1, 5),
    only=FILTERS,
)
async def test_the_graph(
    relations: list[Relation],
    mentions: list[MentionEdge],
    gone: str,
    hops: int,
    max_nodes: int,
    max_degree: int,
    only: SearchFilter | None,
) -> None:
    answers = []
    with TemporaryDirectory() as folder:
        stored = NetworkXStorage(folder).bind("rows")
        await _fill(stored, relations, mentions, gone)
        await stored.close()
        for storage in (stored, MemoryGraphStorage().bind("rows")):
            if storage is stored:
                await storage.open()
            else:
                await _fill(storage, relations, mentions, gone)
            walk = await storage.subgraph(["2", "1"], ["b"], hops=hops, max_nodes=max_nodes, max_degree=max_degree, filter=only)
            edges = {
                tuple(sorted(pair)): weight
                for *pair, weight in zip(walk.first.tolist(), walk.second.tolist(), walk.weight.tolist(), strict=True)
            }
            around = await storage.neighbourhood("c", 2, max_nodes)
            answers.append(
                (
                    (walk.chunk_ids, walk.entity_keys, edges),
                    (around.entities, set(around.relations), around.truncated),
                    await storage.visible(only or SearchFilter()),
                    await storage.relations_of(list(KEYS), only),
                    await storage.relation_keys_of(list(KEYS), only, 2),
                    await storage.mentions_of(list(KEYS), only, 2),
                    await storage.mentions_in(list("1234")),
                    await storage.degrees(list(KEYS)),
                    await storage.counts(),
                )
            )
            await storage.close()
    assert answers[0] == answers[1]


async def test_the_graph_file_is_a_node_link_graph(tmp_path: Path) -> None:
    storage = NetworkXStorage(tmp_path).bind("rows")
    await _fill(storage, [Relation(RelationKey("a", "d"), weight=1)], [MentionEdge("a", "1", "d1")], "")
    await storage.store.checkpoint()
    await storage.close()
    graph = nx.node_link_graph(json.loads((tmp_path / "graph_rows.2.json").read_text())["graph"], edges="edges")
    assert set(graph.edges) == {(("entity", "a"), ("entity", "d")), (("entity", "a"), ("chunk", "1"))}


async def test_deleting_everything_leaves_nothing_in_the_graph(tmp_path: Path) -> None:
    storage = NetworkXStorage(tmp_path).bind("rows")
    await _fill(storage, [Relation(RelationKey("a", "x"))], [MentionEdge("y", "1", "d1")], "")
    await storage.delete_relations([RelationKey("a", "x")])
    await storage.delete_mentions(["1"])
    await storage.delete_entities(list(KEYS))
    await storage.store.checkpoint()
    await storage.close()
    assert (await read_manifest(tmp_path)).snapshots == {}
