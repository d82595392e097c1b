"""Rows of the indexes."""

from __future__ import annotations

import numpy as np

from easy_knowledge_retriever.operations.indexing import chunk_vectors, has_vector, lexical_records, mention_edges
from easy_knowledge_retriever.types import Chunk, EntityMention, Extraction, Fragment, MentionEdge, Relation, RelationKey

CHUNK = Chunk("c1", "d1", "a.md", "v", 0, "The rivers flood.", 0, 17, headings=("The Verdel", "Floods"), collection="lakes")


def test_terms_of_heading_and_text_are_kept_apart() -> None:
    (record,) = lexical_records([CHUNK], "en")
    assert (record.id, record.document_id, record.collection) == ("c1", "d1", "lakes")
    assert record.fields == {"heading": ("verdel", "flood"), "text": ("river", "flood")}


def test_vectors_carry_their_document() -> None:
    (record,) = chunk_vectors([CHUNK], np.ones((1, 2), dtype=np.float32))
    assert (record.id, record.document_id, record.collection, record.vector.tolist()) == ("c1", "d1", "lakes", [1.0, 1.0])


def test_a_mention_weighs_more_where_the_chunk_is_about_it() -> None:
    declared = Extraction("c1", "d1", "declared", (EntityMention("Verdel"), EntityMention("Weir", description="A wall.")))
    local = Extraction("c1", "d1", "local", (EntityMention("Floods"), EntityMention("Kell"), EntityMention("Verdel")))
    expected = [
        MentionEdge("verdel", "c1", "d1", "lakes", 2.0, "declared"),
        MentionEdge("weir", "c1", "d1", "lakes", 2.0, "declared"),
        MentionEdge("floods", "c1", "d1", "lakes", 3.0, "local"),
        MentionEdge("kell", "c1", "d1", "lakes", 1.0, "local"),
    ]
    by_entity = {edge.entity: edge for edge in mention_edges([CHUNK], [local, declared])}
    assert by_entity == {edge.entity: edge for edge in expected}
    assert {edge.entity: edge for edge in mention_edges([CHUNK], [declared, local])} == by_entity


def test_a_relation_of_two_bare_names_has_no_vector() -> None:
    key = RelationKey.of("a", "b")
    assert not has_vector(Relation(key))
    assert has_vector(Relation(key, keywords=(("near", 1),)))
    assert has_vector(Relation(key, fragments=(Fragment("c", "They are near."),)))
