"""Any sequence of changes, seen through views, equals dictionaries that were copied."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.files.graph import CHUNK, ENTITY, GraphTable, GraphView, Value, key_of
from easy_knowledge_retriever.kg.files.nano import NanoTable
from easy_knowledge_retriever.kg.files.rows import Rows
from easy_knowledge_retriever.kg.files.table import Changes, Json, Key, View
from easy_knowledge_retriever.types import Entity, MentionEdge, Relation, RelationKey, VectorRecord


class Numbers(Rows[int]):
    kind = "kv"

    def encode(self, row: int) -> str:
        return str(row)

    def decode(self, key: Key, data: Json) -> int:
        return int(data)

    def members(self) -> Iterator[str]:
        yield f'"rows":{json.dumps(dict(self.items()))}'

    def restore(self, body: bytes) -> Json:
        members = json.loads(body)
        self.apply(members.pop("rows"))
        return members


KEYS = st.sampled_from("abcdefgh")
CHANGES = st.dictionaries(KEYS, st.none() | st.integers(0, 9), max_size=5)
STEPS = st.lists(st.tuples(st.sampled_from(["commit", "undo", "snapshot"]), CHANGES), max_size=12)


def _applied(rows: dict[str, int], changes: Changes[int]) -> dict[str, int]:
    merged: dict[Key, int | None] = dict(rows.items())
    merged.update(changes)
    return {str(key): row for key, row in merged.items() if row is not None}


def _seen(view: View[int]) -> dict[str, int]:
    found = {str(key): row for key in view.keys() if (row := view.get(key)) is not None}
    assert len(view) == len(found) == len(list(view.keys()))
    return found


@given(steps=STEPS)
def test_views_equal_copies(steps: list[tuple[str, dict[Key, int | None]]]) -> None:
    table, model = Numbers(), dict[str, int]()
    snapshots: list[tuple[View[int], dict[str, int]]] = []
    for what, changes in steps:
        if what == "snapshot":
            snapshots.append((View(table), dict(model)))
            continue
        inside = View[int](table)
        for key, row in changes.items():
            inside.put({key: row})
        assert _seen(inside) == _applied(model, changes)
        if what == "commit":
            for view, _ in snapshots:
                view.keep(inside.changes)
            table.apply(inside.changes)
            model = _applied(model, changes)
        assert _seen(View(table)) == model
        assert table.between("", None) == sorted(model)
        assert table.between("c", "f") == [key for key in sorted(model) if "c" <= key < "f"]
        for view, rows in snapshots:
            assert _seen(view) == rows


def test_many_keys_at_once_are_in_order() -> None:
    table = Numbers()
    names = [f"{number * 37 % 500:03}" for number in range(500)]
    table.apply(dict.fromkeys(names, 1))
    assert table.between("", None) == sorted(names)
    table.apply(dict.fromkeys(names[:400]))
    table.apply({"x": 1})
    assert table.between("", None) == [*sorted(names[400:]), "x"]


ROWS = st.lists(
    st.dictionaries(KEYS, st.none() | st.integers(1, 5).map(float), max_size=6).map(
        lambda found: {
            key: None if value is None else VectorRecord(key, np.array([value, 1], np.float32), key)
            for key, value in found.items()
        }
    ),
    max_size=8,
)


@given(batches=ROWS)
def test_rows_and_matrix_of_an_index_stay_in_step(batches: list[dict[Key, VectorRecord | None]]) -> None:
    table, model = NanoTable(), dict[Key, VectorRecord]()
    for batch in batches:
        table.apply(batch)
        model = {key: row for key, row in {**model, **batch}.items() if row is not None}
        again = NanoTable()
        again.restore(f'{{"kind":"vectors",{"".join(table.members())}}}'.encode())
        for index in (table, again):
            assert set(index.keys()) == model.keys()
            assert len(index._index) == len(index) == len(model)
            for key, row in model.items():
                found = index.get(key)
                assert found is not None
                assert (found.vector.tolist(), found.document_id) == (row.vector.tolist(), row.document_id)
        table = again


VALUES = st.one_of(
    KEYS.map(Entity),
    st.tuples(st.sampled_from("abcd"), st.sampled_from("efgh"), st.integers(1, 3)).map(
        lambda parts: Relation(RelationKey(parts[0], parts[1]), weight=parts[2])
    ),
    st.tuples(KEYS, st.sampled_from("12"), st.integers(1, 3)).map(
        lambda parts: MentionEdge(parts[0], parts[1], "d", weight=parts[2])
    ),
)


@given(base=st.lists(VALUES), fresh=st.lists(VALUES), gone=st.lists(VALUES), late=st.lists(VALUES))
def test_a_changed_graph_equals_a_new_one(base: list[Value], fresh: list[Value], gone: list[Value], late: list[Value]) -> None:
    table = GraphTable()
    table.apply({key_of(value): value for value in base})
    before = View[Value](table)
    expected = dict(_graph(View[Value](table)))
    changes: dict[Key, Value | None] = {key_of(value): value for value in fresh}
    changes |= {key_of(value): None for value in gone}
    changes |= {key_of(value): value for value in late}
    inside = View[Value](table)
    inside.put(changes)
    new = GraphTable()
    merged = {key_of(value): value for value in base} | changes
    new.apply({key: value for key, value in merged.items() if value is not None})
    assert _graph(inside) == _graph(View(new))
    before.keep(changes)
    table.apply(changes)
    assert _graph(View(table)) == _graph(View(new))
    assert _graph(before) == expected
    again = GraphTable()
    again.restore(f"{{{''.join(table.members())}}}".encode())
    assert _graph(View(again)) == _graph(View(new))


def _graph(view: View[Value]) -> dict[object, object]:
    graph = GraphView(view)
    nodes = [(ENTITY, key) for key in "abcdefgh"] + [(CHUNK, key) for key in "12"]
    found: dict[object, object] = {node: sorted(map(repr, graph.edges_at(node))) for node in nodes}
    for kind in ("entity", "relation", "mention"):
        found[kind] = sorted(graph.keys(kind))
        assert graph.count(kind) == len(list(graph.keys(kind)))
    return found
