"""Every value comes back from JSON as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg import codecs
from easy_knowledge_retriever.types import (
    Block,
    Box,
    Chunk,
    DocRecord,
    DocStatus,
    Document,
    Entity,
    EntityMention,
    Expansion,
    Extraction,
    Fragment,
    Link,
    NameRow,
    NameUse,
    Naming,
    PageSpan,
    Relation,
    RelationKey,
    RelationMention,
    Reply,
    StagedVectors,
    Summary,
    Transcript,
)
from tests.support.properties import examples

TEXT = st.text(max_size=8)
NUMBER = st.integers(0, 10**9)
REAL = st.floats(allow_nan=False, allow_infinity=False)
METADATA = st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), REAL, st.booleans()), max_size=3)
SOURCE = st.sampled_from(["declared", "local", "llm", "manual"])


def many(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=3).map(tuple)


PAGES = many(st.builds(PageSpan, NUMBER, NUMBER, NUMBER))
TALLY = many(st.tuples(TEXT, NUMBER))
FRAGMENTS = many(st.builds(Fragment, TEXT, TEXT))
BLOCKS = many(
    st.builds(
        Block,
        kind=st.sampled_from(["heading", "text", "table", "list", "equation", "image", "code"]),
        start=NUMBER,
        end=NUMBER,
        page=st.none() | NUMBER,
        level=st.none() | NUMBER,
        box=st.none() | st.builds(Box, REAL, REAL, REAL, REAL),
    )
)
ENTITY_MENTIONS = many(st.builds(EntityMention, TEXT, TEXT, TEXT, st.none() | NUMBER, st.none() | NUMBER))
RELATION_MENTIONS = many(st.builds(RelationMention, TEXT, TEXT, TEXT, many(TEXT), REAL, st.none() | NUMBER, st.none() | NUMBER))

COUNTS = st.dictionaries(TEXT, st.integers(1, 10**9), max_size=3)
USES = st.dictionaries(TEXT, st.builds(NameUse, TEXT, TEXT, TEXT), max_size=4).map(lambda uses: dict(sorted(uses.items())))
NAME_ROW = st.builds(
    NameRow,
    documents=NUMBER,
    kinds=COUNTS,
    looks=COUNTS,
    lives=COUNTS,
    expansions=COUNTS,
    acronyms=COUNTS,
    apart=st.booleans(),
    whole=st.booleans(),
    into=TEXT,
    merged=many(TEXT),
)

CASES: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "document": (
        st.builds(
            Document,
            id=TEXT,
            name=TEXT,
            text=TEXT,
            digest=TEXT,
            blocks=BLOCKS,
            title=TEXT,
            collection=TEXT,
            pages=PAGES,
            links=many(st.builds(Link, NUMBER, NUMBER, TEXT)),
            metadata=METADATA,
            parser=TEXT,
            warnings=many(TEXT),
        ),
        codecs.encode_document,
        codecs.decode_document,
    ),
    "chunk": (
        st.builds(
            Chunk,
            id=TEXT,
            document_id=TEXT,
            document_name=TEXT,
            version=TEXT,
            order=NUMBER,
            text=TEXT,
            start=NUMBER,
            end=NUMBER,
            pages=PAGES,
            headings=many(TEXT),
            tokens=NUMBER,
            collection=TEXT,
            extra=METADATA,
            next_id=TEXT,
            parent=st.none() | st.tuples(NUMBER, NUMBER),
            table_head=TEXT,
        ),
        codecs.encode_chunk,
        codecs.decode_chunk,
    ),
    "transcript": (
        st.builds(Transcript, TEXT, many(many(st.builds(Reply, TEXT, st.booleans()))), st.booleans()),
        codecs.encode_transcript,
        codecs.decode_transcript,
    ),
    "naming": (
        st.builds(Naming, USES, many(st.builds(Expansion, TEXT, TEXT, TEXT))),
        codecs.encode_naming,
        codecs.decode_naming,
    ),
    "name_rows": (st.dictionaries(TEXT, NAME_ROW, max_size=3), codecs.encode_name_rows, codecs.decode_name_rows),
    "manifest": (many(TEXT), codecs.encode_manifest, codecs.decode_manifest),
    "extraction": (
        st.builds(Extraction, TEXT, TEXT, SOURCE, ENTITY_MENTIONS, RELATION_MENTIONS),
        codecs.encode_extraction,
        codecs.decode_extraction,
    ),
    "entity": (
        st.builds(
            Entity,
            key=TEXT,
            names=TALLY,
            types=TALLY,
            fragments=FRAGMENTS,
            chunk_ids=many(TEXT),
            file_paths=many(TEXT),
            mention_count=NUMBER,
            sources=many(SOURCE),
            summary=TEXT,
            pending=st.booleans(),
        ),
        codecs.encode_entity,
        codecs.decode_entity,
    ),
    "relation": (
        st.builds(
            Relation,
            key=st.builds(RelationKey.of, TEXT, TEXT),
            first_name=TEXT,
            second_name=TEXT,
            keywords=TALLY,
            fragments=FRAGMENTS,
            weight=REAL,
            chunk_ids=many(TEXT),
            file_paths=many(TEXT),
            mention_count=NUMBER,
            sources=many(SOURCE),
            summary=TEXT,
            pending=st.booleans(),
        ),
        codecs.encode_relation,
        codecs.decode_relation,
    ),
    "summary": (
        st.builds(Summary, TEXT | st.builds(RelationKey.of, TEXT, TEXT), many(TEXT), TEXT),
        codecs.encode_summary,
        codecs.decode_summary,
    ),
    "staged_vectors": (
        st.builds(StagedVectors, TEXT, many(TEXT), st.binary(max_size=8)),
        codecs.encode_staged_vectors,
        codecs.decode_staged_vectors,
    ),
    "record": (
        st.builds(
            DocRecord,
            id=TEXT,
            name=TEXT,
            status=st.sampled_from(DocStatus),
            collection=TEXT,
            version=TEXT,
            pending_version=TEXT,
            stage=TEXT,
            error=TEXT,
            chunk_count=NUMBER,
            page_count=NUMBER,
            title=TEXT,
            track_id=TEXT,
            metadata=METADATA,
            created_at=TEXT,
            updated_at=TEXT,
        ),
        codecs.encode_record,
        codecs.decode_record,
    ),
}


@examples(40)
@pytest.mark.parametrize("kind", CASES)
@given(data=st.data())
def test_a_value_comes_back_from_json_as_it_was(kind: str, data: st.DataObject) -> None:
    values, encode, decode = CASES[kind]
    value = data.draw(values)
    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value
    assert repr(back) == repr(value)


def test_every_codec_is_tried() -> None:
    assert {name.partition("_")[2] for name in codecs.__all__} == set(CASES)


def test_a_value_and_its_object_share_no_state() -> None:
    metadata = {"year": 2024}
    data: Any = codecs.encode_record(DocRecord("a", "a", DocStatus.PENDING, metadata=metadata))
    data["metadata"]["year"] = 0
    assert metadata == {"year": 2024}
    record = codecs.decode_document(codecs.encode_document(Document("a", "a", "", "", metadata=metadata)))
    assert record.metadata is not metadata


def test_what_an_earlier_version_staged_counts_as_nothing() -> None:
    """It kept extractions there, under keys of another form: they are asked for again, and go with the next commit."""
    extraction = codecs.encode_extraction(Extraction("c", "d", "llm", (EntityMention("A"),)))
    assert codecs.decode_transcript(extraction) == Transcript("d")
