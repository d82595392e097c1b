"""Small chunks are searched, their parents are shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.chunking import apply_chunking, chunk_document
from easy_knowledge_retriever.operations.parents import one_a_parent, widened
from easy_knowledge_retriever.types import Block, Document, PageSpan
from tests.unit.operations.test_chunking import Words

TEXT = "# A\n\nOne two. Three four.\n\n| h |\n| r |\n| s |\n\n# B\n\nFive six."
DOCUMENT = Document(
    "d1",
    "a.md",
    TEXT,
    "v1",
    (Block("heading", 0, 3, level=1), Block("table", 27, 44), Block("heading", 46, 49, level=1)),
    pages=(PageSpan(1, 0, 26), PageSpan(2, 27, len(TEXT))),
)


def applied(function: Any, parent: int | None) -> list[tuple[str, str]]:
    chunks = asyncio.run(
        apply_chunking(
            function,
            DOCUMENT,
            Words(),
            chunk_token_size=8,
            chunk_overlap_token_size=0,
            parent_chunk_token_size=parent,
        )
    )
    return [(chunk.text, TEXT[slice(*chunk.parent)] if chunk.parent else "") for chunk in chunks]


def test_a_parent_stands_once_where_its_best_chunk_does() -> None:
    chunks = chunk_document(DOCUMENT, Words(), chunk_token_size=8, chunk_overlap_token_size=0, parent_chunk_token_size=40)
    ranked = [(chunk, 1.0 - chunk.order / 10) for chunk in reversed(chunks)]
    kept = one_a_parent(ranked)
    assert [chunk.parent for chunk, _ in kept] == list(dict.fromkeys(chunk.parent for chunk, _ in ranked))
    assert kept[0] == ranked[0]


def test_chunks_without_a_parent_all_stand() -> None:
    ranked = [(chunk, 1.0) for chunk in chunk_document(DOCUMENT, Words(), chunk_token_size=8, chunk_overlap_token_size=0)]
    assert one_a_parent(ranked) == ranked
    assert widened(ranked, {"d1": DOCUMENT}) == ranked


def test_a_widened_chunk_is_the_slice_pages_and_headings_of_its_parent() -> None:
    chunk = replace(
        chunk_document(DOCUMENT, Words(), chunk_token_size=8, chunk_overlap_token_size=0)[0],
        parent=(5, len(TEXT)),
        headings=("A",),
    )
    ((wide, score),) = widened([(chunk, 0.5)], {"d1": DOCUMENT})
    assert (wide.id, score, wide.text, wide.headings) == (chunk.id, 0.5, TEXT[5:], ())
    assert [page.page for page in wide.pages] == [1, 2]


def test_a_parent_that_begins_inside_a_table_has_its_head() -> None:
    chunk = replace(chunk_document(DOCUMENT, Words())[0], parent=(33, 44))
    ((wide, _),) = widened([(chunk, 0.5)], {"d1": DOCUMENT})
    assert (wide.table_head, wide.text) == ("| h |", "| r |\n| s |")


def test_a_chunk_of_another_version_stays_as_it_is() -> None:
    chunk = replace(chunk_document(DOCUMENT, Words())[0], parent=(0, 3))
    assert widened([(chunk, 1.0)], {}) == [(chunk, 1.0)]
    assert widened([(chunk, 1.0)], {"d1": replace(DOCUMENT, digest="v2")}) == [(chunk, 1.0)]


def test_the_chunks_of_a_function_have_parents_along_the_structure() -> None:
    def sentences(*_: object, **__: object) -> list[dict[str, Any]]:
        return [{"content": "One two."}, {"content": "Three four."}, {"content": "Five six."}]

    first = TEXT[:44]
    assert applied(sentences, 38) == [("One two.", first), ("Three four.", first), ("Five six.", "# B\n\nFive six.")]
    assert applied(sentences, None) == [("One two.", ""), ("Three four.", ""), ("Five six.", "")]


def test_a_chunk_across_a_border_is_wholly_inside_its_parent() -> None:
    assert applied(lambda *_: [{"content": "| s |\n\n# B\n\nFive six."}], 22) == [
        ("| s |\n\n# B\n\nFive six.", "| s |\n\n# B\n\nFive six.")
    ]


def test_a_parent_is_longer_than_a_chunk() -> None:
    with pytest.raises(ConfigError, match="no parents of 8"):
        chunk_document(DOCUMENT, Words(), chunk_token_size=8, chunk_overlap_token_size=0, parent_chunk_token_size=8)
