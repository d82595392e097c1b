"""What a graph storage promises."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts, GraphStorage
from easy_knowledge_retriever.testing.contracts.storage import StorageContract
from easy_knowledge_retriever.types import Entity, Fragment, MentionEdge, Relation, RelationKey, SearchFilter, Subgraph

__all__ = ["GraphStorageContract"]

ODD = 'l\'"été" — 索引 🙂 {0} %s \\ \n\t'
FULL_ENTITY = Entity(
    key=ODD,
    names=((ODD + "!", 3), ("Summer", 1)),
    types=(("UNKNOWN", 2), ("Event", 1)),
    fragments=(Fragment("c1", "first"), Fragment("c2", ODD)),
    chunk_ids=("c1", "c2"),
    file_paths=("a.pdf", "b's.md"),
    mention_count=4,
    sources=("declared", "llm"),
    summary="short",
)
FULL_RELATION = Relation(
    key=RelationKey.of(ODD, "b"),
    first_name="B",
    second_name=ODD,
    keywords=(("heat", 2),),
    fragments=(Fragment("c1", ODD),),
    weight=2.125,
    chunk_ids=("c1",),
    file_paths=("a.pdf",),
    mention_count=2,
    sources=("local",),
    pending=True,
)
FULL_MENTION = MentionEdge(ODD, "c1", "d1", "laws", 2.5, "declared")


def _entities(*keys: str) -> list[Entity]:
    return [Entity(key, names=((key.upper(), 1),)) for key in keys]


def _relation(one: str, other: str, weight: float, *chunk_ids: str) -> Relation:
    return Relation(RelationKey.of(one, other), weight=weight, chunk_ids=chunk_ids)


def _pairs(relations: Iterable[Relation]) -> list[str]:
    return ["".join(relation.key) for relation in relations]


def _edges(graph: Subgraph) -> dict[tuple[str, str], float]:
    """Weight by pair of nodes, in order of their names; a pair that occurs twice fails."""
    nodes = [*graph.chunk_ids, *graph.entity_keys]
    found: dict[tuple[str, str], float] = {}
    for one, other, weight in zip(graph.first.tolist(), graph.second.tolist(), graph.weight.tolist(), strict=True):
        pair = (min(nodes[one], nodes[other]), max(nodes[one], nodes[other]))
        assert pair not in found
        found[pair] = weight
    return found


D1 = SearchFilter(document_ids=frozenset({"d1"}))
D2 = SearchFilter(document_ids=frozenset({"d2"}))


class GraphStorageContract(StorageContract[GraphStorage]):
    """Suite of :class:`GraphStorage`.

    Most tests read one small graph. Chunks c1 and c2 are in document d1, c3 in d2 (collection ``two``)::

        c1 mentions a (weight 2), b        a—b weight 1, said in c1
        c2 mentions a, b, c                a—c weight 3 and b—c weight 1, said in c2
        c3 mentions c, d                   c—d weight 2, said in c3
                                           nobody mentions e
    """

    async def write(self, storage: GraphStorage, mark: str) -> None:
        await storage.put_entities([Entity(mark)])
        await storage.put_relations([_relation(mark, mark + "'", 1, mark)])
        await storage.put_mentions([MentionEdge(mark, mark, mark)])

    async def marks(self, storage: GraphStorage) -> set[str]:
        entities, relations = await storage.keys(), await storage.relation_keys()
        mentions = await storage.mentions_of(entities)
        assert {key.first for key in relations} == set(entities) == mentions.keys()
        assert await storage.counts() == GraphCounts(len(entities), len(relations), len(mentions))
        return set(entities)

    async def test_values_come_out_equal(self, storage: GraphStorage) -> None:
        await self._put_full(storage)
        await self._check_full(storage)

    async def test_values_are_there_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await self._put_full(storage)
        await storage.close()
        await storage.open()
        await self._check_full(storage)
        await storage.close()

    async def test_an_absent_key_is_absent(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        absent = ["absent", "A"]
        assert await storage.entities(absent) == {}
        assert await storage.relations([RelationKey("a", "d"), RelationKey("b", "a")]) == {}
        assert await storage.relations_of(absent) == {}
        assert await storage.relation_keys_of(absent) == {}
        assert await storage.mentions_of(absent) == {}
        assert await storage.mentions_in(absent) == {}
        assert await storage.degrees(absent) == {}

    async def test_nothing_asked_nothing_given(self, storage: GraphStorage) -> None:
        await storage.put_entities([])
        await storage.put_relations([])
        await storage.put_mentions([])
        await storage.delete_entities([])
        await storage.delete_relations([])
        await storage.delete_mentions([])
        assert await storage.entities([]) == {}
        assert await storage.relations([]) == {}
        assert await storage.relations_of([]) == {}
        assert await storage.relation_keys_of([]) == {}
        assert await storage.mentions_of([]) == {}
        assert await storage.mentions_in([]) == {}
        assert await storage.degrees([]) == {}
        assert await storage.labels() == []
        assert await storage.keys() == []
        assert await storage.relation_keys() == []
        assert await storage.counts() == GraphCounts(0, 0, 0)
        assert await storage.visible(SearchFilter(collections=frozenset({""}))) == set()
        assert (await storage.subgraph([], [], hops=2, max_nodes=9, max_degree=9)).size == 0
        assert (await storage.neighbourhood("*", 2, 9)).entities == ()

    async def test_overwriting_replaces_and_keeps_the_rest(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.put_entities([Entity("a", summary="new")])
        await storage.put_relations([_relation("a", "b", 9, "c2")])
        await storage.put_mentions([MentionEdge("a", "c1", "d1", weight=7)])
        assert await storage.entities(["a"]) == {"a": Entity("a", summary="new")}
        assert _pairs((await storage.relations_of(["a"]))["a"]) == ["ab", "ac"]
        assert (await storage.mentions_of(["a"]))["a"][0] == MentionEdge("a", "c1", "d1", weight=7)
        assert await storage.counts() == GraphCounts(5, 4, 7)

    async def test_writing_again_changes_nothing(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await self._put_graph(storage)
        assert await storage.counts() == GraphCounts(5, 4, 7)
        assert await storage.degrees(["a", "b", "c", "d", "e"]) == {"a": 2, "b": 2, "c": 3, "d": 1, "e": 0}

    async def test_relations_can_be_put_before_their_ends(self, storage: GraphStorage) -> None:
        await storage.put_mentions([MentionEdge("x", "c1", "d1"), MentionEdge("y", "c1", "d1")])
        await storage.put_relations([_relation("x", "y", 1, "c1")])
        await storage.put_entities(_entities("x", "y"))
        assert _pairs((await storage.relations_of(["x"], D1))["x"]) == ["xy"]
        assert (await storage.mentions_of(["x"]))["x"] == [MentionEdge("x", "c1", "d1")]
        assert await storage.counts() == GraphCounts(2, 1, 2)

    async def test_relations_of_are_heaviest_first_then_by_key(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.put_relations([_relation("a", "d", 1, "c3")])
        found = await storage.relations_of(["a", "d", "e"])
        assert _pairs(found["a"]) == ["ac", "ab", "ad"]
        assert _pairs(found["d"]) == ["cd", "ad"]
        assert not found.get("e")

    async def test_the_keys_of_relations_are_theirs_in_their_order(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.put_relations([_relation("a", "d", 1, "c3"), _relation("c", "c", 5, "c2")])
        keys = ["c", "a", "e", "absent", "d"]
        for seen in (None, D1, D2):
            relations = await storage.relations_of(keys, seen)
            for limit in (None, 1, 2):
                found = await storage.relation_keys_of(keys, seen, limit)
                assert {key: pairs for key, pairs in found.items() if pairs} == {
                    key: [relation.key for relation in some[:limit]] for key, some in relations.items() if some
                }

    async def test_mentions_of_are_heaviest_first_then_by_chunk(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.put_mentions([MentionEdge("a", "c0", "d1")])
        found = await storage.mentions_of(["a", "c", "e"])
        assert [mention.chunk_id for mention in found["a"]] == ["c1", "c0", "c2"]
        assert [mention.chunk_id for mention in found["c"]] == ["c2", "c3"]
        assert not found.get("e")
        few = await storage.mentions_of(["a", "c"], limit=1)
        assert {key: [mention.chunk_id for mention in mentions] for key, mentions in few.items()} == {"a": ["c1"], "c": ["c2"]}

    async def test_mentions_in_are_by_entity(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        found = await storage.mentions_in(["c2", "c9", "c3"])
        assert {chunk: [mention.entity for mention in mentions] for chunk, mentions in found.items() if mentions} == {
            "c2": ["a", "b", "c"],
            "c3": ["c", "d"],
        }

    async def test_labels_and_keys_are_in_order(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        assert await storage.labels() == ["A", "B", "C", "D", "E"]
        assert await storage.keys() == ["a", "b", "c", "d", "e"]
        relation_keys = await storage.relation_keys()
        assert relation_keys == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")]
        assert all(isinstance(key, RelationKey) for key in relation_keys)

    async def test_a_label_is_the_name_and_not_the_key(self, storage: GraphStorage) -> None:
        await storage.put_entities([Entity("a", names=(("Zoë", 2), ("A", 1))), Entity("b", names=(("Bea", 1),)), Entity("c")])
        assert await storage.labels() == ["Bea", "Zoë", "c"]

    async def test_a_deleted_entity_takes_its_edges_along(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.delete_entities(["a", "absent"])
        assert await storage.keys() == ["b", "c", "d", "e"]
        assert await storage.relation_keys() == [("b", "c"), ("c", "d")]
        assert await storage.degrees(["b", "c"]) == {"b": 1, "c": 2}
        assert [mention.entity for mention in (await storage.mentions_in(["c1"]))["c1"]] == ["b"]
        assert await storage.counts() == GraphCounts(4, 2, 5)
        await storage.put_entities(_entities("a"))
        assert not (await storage.relations_of(["a"])).get("a")
        assert not (await storage.mentions_of(["a"])).get("a")

    async def test_deleting_relations_leaves_their_ends(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.delete_relations([RelationKey.of("b", "a"), RelationKey("a", "d")])
        assert await storage.relation_keys() == [("a", "c"), ("b", "c"), ("c", "d")]
        assert await storage.counts() == GraphCounts(5, 3, 7)

    async def test_deleting_mentions_takes_all_of_the_chunk(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        await storage.delete_mentions(["c2", "absent"])
        assert not (await storage.mentions_in(["c2"])).get("c2")
        assert [mention.chunk_id for mention in (await storage.mentions_of(["a"]))["a"]] == ["c1"]
        assert await storage.counts() == GraphCounts(5, 4, 4)

    async def test_what_a_filter_lets_see(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        assert await storage.visible(D1) == {"a", "b", "c"}
        assert await storage.visible(D2) == {"c", "d"}
        assert await storage.visible(SearchFilter(collections=frozenset({"two"}))) == {"c", "d"}
        assert await storage.visible(SearchFilter(collections=frozenset({"two"}), document_ids=frozenset({"d1"}))) == set()
        assert await storage.visible(SearchFilter(document_ids=frozenset())) == set()
        assert (await storage.entities(["a", "c", "d", "e"], D2)).keys() == {"c", "d"}
        assert await storage.entities(["c"], D2) == await storage.entities(["c"])

    async def test_relations_and_mentions_through_a_filter(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        assert _pairs((await storage.relations_of(["c"], D1))["c"]) == ["ac", "bc"]
        assert _pairs((await storage.relations_of(["c"], D2))["c"]) == ["cd"]
        assert not (await storage.relations_of(["a"], D2)).get("a")
        assert [mention.chunk_id for mention in (await storage.mentions_of(["c"], D2))["c"]] == ["c3"]
        assert [mention.chunk_id for mention in (await storage.mentions_of(["c"], D2, 1))["c"]] == ["c3"]
        assert not (await storage.mentions_of(["a"], D2)).get("a")
        nothing = SearchFilter(collections=frozenset())
        assert not any((await storage.relations_of(["a", "c"], nothing)).values())
        assert not any((await storage.mentions_of(["a", "c"], nothing)).values())

    async def test_a_walk_of_no_hops_is_the_given_nodes(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c2", "c9", "c1"], ["b", "absent", "a"], hops=0)
        assert graph.chunk_ids == ("c2", "c9", "c1")
        assert graph.entity_keys == ("b", "a")
        assert _edges(graph) == {("a", "b"): 1, ("a", "c1"): 2, ("a", "c2"): 1, ("b", "c1"): 1, ("b", "c2"): 1}

    async def test_a_walk_goes_hop_by_hop(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        one = await self._walk(storage, ["c1"], [], hops=1)
        assert (set(one.chunk_ids), set(one.entity_keys)) == ({"c1"}, {"a", "b"})
        assert _edges(one) == {("a", "b"): 1, ("a", "c1"): 2, ("b", "c1"): 1}
        two = await self._walk(storage, ["c1"], [], hops=2)
        assert (set(two.chunk_ids), set(two.entity_keys)) == ({"c1", "c2"}, {"a", "b", "c"})
        three = await self._walk(storage, ["c1"], [], hops=3)
        assert (set(three.chunk_ids), set(three.entity_keys)) == ({"c1", "c2", "c3"}, {"a", "b", "c", "d"})
        assert len(_edges(three)) == 11

    async def test_the_given_nodes_come_first(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c3", "c1"], ["d", "b"], hops=1)
        assert graph.chunk_ids[:2] == ("c3", "c1")
        assert graph.entity_keys[:2] == ("d", "b")
        assert (set(graph.chunk_ids), set(graph.entity_keys)) == ({"c1", "c2", "c3"}, {"a", "b", "c", "d"})

    async def test_a_node_given_twice_is_one(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c1", "c1"], ["a", "a"], hops=0)
        assert (graph.chunk_ids, graph.entity_keys) == (("c1",), ("a",))

    async def test_the_arrays_of_a_walk(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        for graph in (await self._walk(storage, ["c1"], [], hops=2), await self._walk(storage, [], [], hops=2)):
            assert graph.first.dtype == graph.second.dtype == np.int32
            assert graph.weight.dtype == np.float32
            assert graph.first.shape == graph.second.shape == graph.weight.shape
            assert graph.size == len(graph.chunk_ids) + len(graph.entity_keys)

    async def test_a_walk_keeps_no_more_than_max_nodes(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        near = await self._walk(storage, ["c1"], [], hops=9, max_nodes=3)
        assert (near.chunk_ids, set(near.entity_keys)) == (("c1",), {"a", "b"})
        for max_nodes in range(1, 8):
            graph = await self._walk(storage, ["c1"], [], hops=9, max_nodes=max_nodes)
            assert graph.size == min(max_nodes, 7)
            assert graph.chunk_ids[0] == "c1"
        assert (await self._walk(storage, ["c3", "c2", "c1"], [], hops=1, max_nodes=2)).chunk_ids == ("c3", "c2")

    async def test_a_walk_does_not_go_through_a_hub(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c3"], [], hops=9, max_degree=4)
        # c has five edges: three relations and two mentions. It is kept, and what lies behind it is not found.
        assert (set(graph.chunk_ids), set(graph.entity_keys)) == ({"c3"}, {"c", "d"})
        assert _edges(graph) == {("c", "c3"): 1, ("c3", "d"): 1, ("c", "d"): 2}
        wider = await self._walk(storage, ["c3"], [], hops=9, max_degree=5)
        assert wider.size == 7

    async def test_a_given_hub_is_walked_from(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, [], ["c"], hops=1, max_degree=1)
        assert (set(graph.chunk_ids), set(graph.entity_keys)) == ({"c2", "c3"}, {"a", "b", "c", "d"})

    async def test_a_hub_counts_visible_edges_only(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c1"], [], hops=9, max_degree=3, filter=D1)
        # Within d1 c has three edges, a and b four each.
        assert (set(graph.chunk_ids), set(graph.entity_keys)) == ({"c1"}, {"a", "b"})
        graph = await self._walk(storage, [], ["c"], hops=1, max_degree=3, filter=D1)
        assert (set(graph.chunk_ids), set(graph.entity_keys)) == ({"c2"}, {"a", "b", "c"})

    async def test_a_walk_stays_within_its_filter(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        graph = await self._walk(storage, ["c3"], ["a", "c"], hops=9, filter=D2)
        assert (graph.chunk_ids, set(graph.entity_keys)) == (("c3",), {"c", "d"})
        assert _edges(graph) == {("c", "c3"): 1, ("c3", "d"): 1, ("c", "d"): 2}
        nothing = await self._walk(storage, [], ["a", "c"], hops=9, filter=SearchFilter(document_ids=frozenset()))
        assert nothing.size == 0

    async def test_a_neighbourhood_goes_along_relations(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        near = await storage.neighbourhood("a", 1, 10)
        assert near.entities[0].key == "a"
        assert {entity.key for entity in near.entities} == {"a", "b", "c"}
        assert sorted(_pairs(near.relations)) == ["ab", "ac", "bc"]
        assert not near.truncated
        far = await storage.neighbourhood("a", 2, 10)
        assert {entity.key for entity in far.entities} == {"a", "b", "c", "d"}
        assert far.entities[-1].key == "d"
        assert sorted(_pairs(far.relations)) == ["ab", "ac", "bc", "cd"]
        alone = await storage.neighbourhood("a", 0, 10)
        assert ([entity.key for entity in alone.entities], alone.relations) == (["a"], ())
        lonely = await storage.neighbourhood("e", 3, 10)
        assert [entity.key for entity in lonely.entities] == ["e"]

    async def test_a_neighbourhood_says_when_it_was_cut(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        cut = await storage.neighbourhood("a", 2, 3)
        assert cut.entities[0].key == "a"
        assert {entity.key for entity in cut.entities} == {"a", "b", "c"}
        assert cut.truncated
        assert not (await storage.neighbourhood("a", 2, 4)).truncated
        assert not (await storage.neighbourhood("a", 1, 3)).truncated

    async def test_the_neighbourhood_of_nobody(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        found = await storage.neighbourhood("absent", 2, 10)
        assert (found.entities, found.relations, found.truncated) == ((), (), False)

    async def test_the_neighbourhood_of_all_is_those_of_highest_degree(self, storage: GraphStorage) -> None:
        await self._put_graph(storage)
        everyone = await storage.neighbourhood("*", 1, 10)
        assert {entity.key for entity in everyone.entities} == {"a", "b", "c", "d", "e"}
        assert sorted(_pairs(everyone.relations)) == ["ab", "ac", "bc", "cd"]
        assert not everyone.truncated
        top = await storage.neighbourhood("*", 1, 3)
        assert top.entities[0].key == "c"
        assert {entity.key for entity in top.entities} == {"a", "b", "c"}
        assert sorted(_pairs(top.relations)) == ["ab", "ac", "bc"]
        assert top.truncated

    @pytest.mark.parametrize("count", [1500])
    async def test_many_at_once(self, storage: GraphStorage, count: int) -> None:
        keys = [f"k{n:04}" for n in range(count)]
        await storage.put_entities(_entities(*keys))
        await storage.put_mentions([MentionEdge(key, "c", "d") for key in keys])
        await storage.put_relations([_relation(keys[0], key, 1, "c") for key in keys[1:]])
        assert list(await storage.entities(keys)) == keys
        assert len((await storage.relations_of(keys))[keys[0]]) == count - 1
        assert len((await storage.mentions_in(["c"]))["c"]) == count
        assert (await self._walk(storage, ["c"], [], hops=1, max_nodes=2000)).size == count + 1
        await storage.delete_entities(keys[1:])
        assert await storage.counts() == GraphCounts(1, 0, 1)

    @staticmethod
    async def _walk(
        storage: GraphStorage,
        chunk_ids: list[str],
        entity_keys: list[str],
        *,
        hops: int,
        max_nodes: int = 100,
        max_degree: int = 100,
        filter: SearchFilter | None = None,
    ) -> Subgraph:
        return await storage.subgraph(
            chunk_ids, entity_keys, hops=hops, max_nodes=max_nodes, max_degree=max_degree, filter=filter
        )

    @staticmethod
    async def _put_graph(storage: GraphStorage) -> None:
        await storage.put_entities(_entities("c", "a", "d", "e", "b"))
        await storage.put_relations(
            [
                _relation("c", "d", 2, "c3"),
                _relation("a", "b", 1, "c1"),
                _relation("c", "b", 1, "c2"),
                _relation("a", "c", 3, "c2"),
            ]
        )
        await storage.put_mentions(
            [
                MentionEdge("b", "c1", "d1"),
                MentionEdge("a", "c1", "d1", weight=2),
                *(MentionEdge(key, "c2", "d1") for key in "cab"),
                *(MentionEdge(key, "c3", "d2", "two") for key in "dc"),
            ]
        )

    @staticmethod
    async def _put_full(storage: GraphStorage) -> None:
        await storage.put_entities([FULL_ENTITY, Entity("b")])
        await storage.put_relations([FULL_RELATION])
        await storage.put_mentions([FULL_MENTION])

    @staticmethod
    async def _check_full(storage: GraphStorage) -> None:
        assert await storage.entities([ODD, "b"]) == {ODD: FULL_ENTITY, "b": Entity("b")}
        assert await storage.relations([FULL_RELATION.key]) == {FULL_RELATION.key: FULL_RELATION}
        assert await storage.relations_of([ODD]) == {ODD: [FULL_RELATION]}
        assert await storage.relation_keys_of([ODD]) == {ODD: [FULL_RELATION.key]}
        assert await storage.mentions_of([ODD]) == {ODD: [FULL_MENTION]}
        assert await storage.mentions_in(["c1"]) == {"c1": [FULL_MENTION]}
        assert await storage.labels() == ["b", ODD + "!"]
        assert await storage.visible(SearchFilter(collections=frozenset({"laws"}))) == {ODD}
