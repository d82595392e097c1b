"""An index of another system, taken in: nothing is paid for again, and what is lost is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import NotFound, ParseError
from easy_knowledge_retriever.importing.graphml import read_graphml
from easy_knowledge_retriever.importing.lightrag import ImportReport, LightRAGImport
from easy_knowledge_retriever.importing.lightrag_index import is_lightrag_index, read_lightrag_index
from easy_knowledge_retriever.importing.lightrag_records import take_replies
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.extraction_format import Records
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import Extraction, RelationKey
from tests.flows.ingesting_base import Words, empty_base
from tests.support.lightrag import CHUNKS, FIRST, SECOND, TEXTS, THIRD, write_index, write_json


async def _taken_in(folder: Path, kb: KnowledgeBase, embedding: FakeEmbeddingService | None = None) -> ImportReport:
    index = LightRAGImport(read_lightrag_index(folder))
    return await index.into(kb, Settings(), embedding or FakeEmbeddingService(), Words(), lambda event: None)


async def _llm_extractions(kb: KnowledgeBase) -> dict[str, Extraction]:
    """Text of the chunk → what a model said of it."""
    chunks = {key: chunk async for key, chunk in kb.chunks.scan()}
    return {chunks[e.chunk_id].text: e async for _, e in kb.extractions.scan() if e.source == "llm"}


async def test_what_was_answered_is_the_extraction(tmp_path: Path) -> None:
    write_index(tmp_path)
    kb = await empty_base()
    report = await _taken_in(tmp_path, kb)
    assert [(d.name, d.chunks) for d in report.documents] == [("marlow.txt", 1), ("verdel.txt", 2)]
    assert (report.chunks, report.from_replies, report.from_graph, report.unread) == (3, 2, 1, 0)
    said = await _llm_extractions(kb)
    assert [e.name for e in said[FIRST].entities] == ["Verdel", "Kell", "Ostrania"]
    (relation,) = said[FIRST].relations
    assert (relation.source, relation.target, relation.keywords) == ("Verdel", "Kell", ("lies on", "geography"))
    assert relation.description == "Verdel lies on the river Kell."
    document = (await kb.documents.get_many(["doc-verdel"]))["doc-verdel"]
    assert document.text == TEXTS["doc-verdel"]
    assert document.text[relation.start : relation.end] == "Verdel lies on the river Kell."
    assert (await verify(kb, deep=True)).findings == ()


async def test_what_no_reply_tells_is_given_back_by_the_graph(tmp_path: Path) -> None:
    write_index(tmp_path)
    kb = await empty_base()
    report = await _taken_in(tmp_path, kb)
    said = await _llm_extractions(kb)
    assert [(e.name, e.type, e.description) for e in said[SECOND].entities][:1] == [
        ("Ada Brandt", "person", "Ada Brandt is mayor of Verdel. Ada Brandt was born in Marlow.")
    ]
    assert await kb.graph.relations([RelationKey.of("ada brandt", "verdel")])
    assert [e.name for e in said[THIRD].entities] == ["Marlow"]
    assert report.losses == (
        "1 facts of the graph that stand in no chunk",
        "1 merged descriptions that were given back to their chunks in order, which may be another",
        "1 documents that were not finished there: ingest them",
        "1 kept answers to questions and replies about no known chunk",
    )


async def test_an_older_index_says_the_same_in_its_own_form(tmp_path: Path) -> None:
    write_index(tmp_path, old=True)
    kb = await empty_base()
    report = await _taken_in(tmp_path, kb)
    assert [d.name for d in report.documents] == ["doc-marlow", "doc-verdel"]
    assert (report.from_replies, report.from_graph) == (1, 2)
    (relation,) = (await _llm_extractions(kb))[FIRST].relations
    assert (relation.keywords, relation.weight) == (("lies on", "geography"), 8.0)
    assert relation.description == "Verdel lies on the river Kell."


async def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    write_index(tmp_path)
    kb = await empty_base()
    await _taken_in(tmp_path, kb)
    before = await canonical_dump(kb)
    embedding = FakeEmbeddingService()
    report = await _taken_in(tmp_path, kb, embedding)
    assert all(document.unchanged for document in report.documents)
    assert embedding.inputs == []
    assert await canonical_dump(kb) == before


async def test_vectors_of_the_same_model_are_taken_over(tmp_path: Path) -> None:
    model = FakeEmbeddingService()
    vectors = await model.embed([text for _, _, text in CHUNKS.values()], "document")
    write_index(tmp_path, vectors=vectors * 3)
    embedding = FakeEmbeddingService()
    report = await _taken_in(tmp_path, await empty_base(), embedding)
    assert report.vectors == 3
    assert len(embedding.inputs) > 2
    assert {text for text, _ in embedding.inputs if text in {FIRST, SECOND, THIRD}} == {THIRD, SECOND}


@pytest.mark.parametrize("dimension", [7, 64])
async def test_vectors_of_another_model_are_made_again(tmp_path: Path, dimension: int) -> None:
    write_index(tmp_path, vectors=np.random.default_rng(1).standard_normal((3, dimension)).astype(np.float32))
    assert (await _taken_in(tmp_path, await empty_base())).vectors == 0


async def test_chunks_that_are_no_slices_of_the_text_make_the_text(tmp_path: Path) -> None:
    write_index(tmp_path)
    write_json(tmp_path, "kv_store_full_docs.json", {"doc-verdel": {"content": "Something else."}})
    kb = await empty_base()
    await _taken_in(tmp_path, kb)
    assert (await kb.documents.get_many(["doc-verdel"]))["doc-verdel"].text == f"{FIRST}\n\n{SECOND}"
    assert (await verify(kb, deep=True)).findings == ()


async def test_half_characters_at_the_ends_of_a_chunk_are_left_out(tmp_path: Path) -> None:
    write_index(tmp_path)
    rows = {key: _row(key) for key in CHUNKS}
    rows["chunk-2"]["content"] = f"\ufffd {SECOND}\ufffd"
    rows["chunk-4"] = {"content": "\ufffd", "full_doc_id": "doc-verdel", "chunk_order_index": 1}
    write_json(tmp_path, "kv_store_text_chunks.json", rows)
    kb = await empty_base()
    report = await _taken_in(tmp_path, kb)
    assert (await kb.documents.get_many(["doc-verdel"]))["doc-verdel"].text == TEXTS["doc-verdel"]
    assert "1 chunks without text or document" in report.losses


@pytest.mark.parametrize("name", ["kv_store_llm_response_cache.json", "vdb_chunks.json", "graph_chunk_entity_relation.graphml"])
@pytest.mark.parametrize("content", ["", '{"a": ', "[" * 100_000, "<graphml>", '{"matrix": 1, "data": [], "embedding_dim": 0}'])
async def test_a_broken_file_loses_only_what_it_held(tmp_path: Path, name: str, content: str) -> None:
    write_index(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    kb = await empty_base()
    report = await _taken_in(tmp_path, kb)
    assert report.chunks == 3
    assert (await verify(kb, deep=True)).findings == ()
    if name != "kv_store_llm_response_cache.json" or not content.endswith("}"):
        assert any(name.partition(".")[0] in loss for loss in report.losses)


def test_without_chunks_there_is_no_index(tmp_path: Path) -> None:
    assert not is_lightrag_index(tmp_path)
    with pytest.raises(NotFound):
        read_lightrag_index(tmp_path)
    write_index(tmp_path / "books")
    with pytest.raises(NotFound) as failure:
        read_lightrag_index(tmp_path)
    assert "books" in failure.value.hint
    assert len(read_lightrag_index(tmp_path, "books").documents) == 2
    (tmp_path / "books" / "kv_store_text_chunks.json").write_text('{"cut', encoding="utf-8")
    with pytest.raises(ParseError):
        read_lightrag_index(tmp_path, "books")


def test_two_documents_of_one_name_stay_two(tmp_path: Path) -> None:
    write_index(tmp_path)
    rows = {key: _row(key) | {"file_path": "same.txt"} for key in CHUNKS}
    write_json(tmp_path, "kv_store_text_chunks.json", rows)
    names = [document.name for document in read_lightrag_index(tmp_path).documents]
    assert names == ["same.txt (doc-marlow)", "same.txt (doc-verdel)"]


def test_a_graph_with_a_document_type_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><graphml><graph><node id="&b;"/></graph></graphml>'
    (tmp_path / "g.graphml").write_text(bomb, encoding="utf-8")
    with pytest.raises(ParseError):
        read_graphml(tmp_path / "g.graphml")


@given(st.text(alphabet='("entityrlaonship<|#>)\n,;{}[]:SEP1.5 ', max_size=300))
def test_any_reply_is_read(reply: str) -> None:
    records = Records()
    take_replies([reply, "entity<|#|>Verdel<|#|>location<|#|>A town."], records)
    assert "Verdel" in [mention.name for mention in records.parsed(ended=True).entities]


def _row(key: str) -> dict[str, object]:
    document, order, text = CHUNKS[key]
    return {"content": text, "full_doc_id": document, "chunk_order_index": order}
