"""The public object: opening, loops, the synchronous door, and what it tells of its documents and graph."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from easy_knowledge_retriever import (
    ConfigError,
    DocStatus,
    EasyKnowledgeRetriever,
    EmbeddingMismatchError,
    IngestionError,
    NotFound,
    ParseError,
    QueryParam,
    StorageNotOpenError,
)
from easy_knowledge_retriever.streaming import Done
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import SearchFilter

TEXTS = [
    "# Otter station\n\nThe Otter station stands in Lund. Ada Brandt leads the Otter station.",
    "# Lund\n\nLund is a town in Sweden. Ada Brandt was born in Lund.",
]
NAMES = ["otter.md", "lund.md"]


def retriever(folder: Path, dim: int = 64) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(folder, embedding_service=FakeEmbeddingService(dim))


def lenient(folder: Path, dim: int) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(folder, embedding_service=FakeEmbeddingService(dim), embedding_check="warn")


async def test_nothing_works_before_opening_and_everything_after(tmp_path: Path) -> None:
    rag = retriever(tmp_path)
    with pytest.raises(StorageNotOpenError):
        await rag.get_docs()
    await rag.initialize_storages()
    await rag.initialize_storages()
    assert await rag.get_docs() == []
    await rag.finalize_storages()
    await rag.finalize_storages()
    with pytest.raises(StorageNotOpenError):
        await rag.aquery("Who?")


async def test_documents_are_found_by_status_id_and_track(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        track = await rag.ainsert(TEXTS, file_paths=NAMES, metadata={"year": 2026})
        records = await rag.aget_docs_by_track_id(track)
        assert sorted(record.name for record in records.values()) == sorted(NAMES)
        assert records == await rag.aget_docs_by_ids(list(records))
        assert [record.name for record in await rag.get_docs_by_status("processed")] == sorted(NAMES)
        counts = await rag.get_processing_status()
        assert counts == {status.value: 2 if status is DocStatus.PROCESSED else 0 for status in DocStatus}


async def test_the_graph_is_told_as_plain_data(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        await rag.ainsert(TEXTS, file_paths=NAMES)
        assert "Ada Brandt" in await rag.get_graph_labels()
        info = await rag.get_entity_info("ada BRANDT", include_vector_data=True)
        assert info["entity_name"] == "Ada Brandt"
        assert info["file_path"] == sorted(NAMES)
        assert len(info["vector"]) == 64
        graph = await rag.get_knowledge_graph("*", max_nodes=2)
        assert len(graph.nodes) == 2
        assert graph.is_truncated
        for name in ("Nobody Known",):
            with pytest.raises(NotFound):
                await rag.get_entity_info(name)
            with pytest.raises(NotFound):
                await rag.get_relation_info("Lund", name)


async def test_deleting_takes_everything_along(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        await rag.ainsert(TEXTS, file_paths=NAMES)
        for record in await rag.get_docs():
            assert (await rag.adelete_by_doc_id(record.id, delete_llm_cache=True)).status_code == 200
        assert (await rag.adelete_by_doc_id("doc-unknown")).status_code == 404
        assert (await rag.get_graph_counts()).entities == 0
        assert (await rag.verify(deep=True)).findings == ()


async def test_data_is_that_of_the_answer(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        await rag.ainsert(TEXTS, file_paths=NAMES)
        for mode in ("naive", "local", "global", "hybrid", "mix", "hybrid_mix", "bm25", "graph_walk"):
            param = QueryParam(mode=mode)
            data, result = (
                await rag.aquery_data("Who leads the Otter station?", param),
                await rag.aquery_llm("Who leads the Otter station?", param),
            )
            assert data["status"] == "success"
            assert data["data"]["chunks"] == list(result.chunks)
            assert data["data"]["entities"] == list(result.entities)


async def test_another_model_is_refused_by_questions_too(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        await rag.ainsert(TEXTS, file_paths=NAMES)
    async with lenient(tmp_path, dim=32) as rag:
        with pytest.raises(EmbeddingMismatchError, match="dimension 64"):
            await rag.aquery("Who leads the Otter station?", QueryParam(mode="bm25"))
        with pytest.raises(EmbeddingMismatchError):
            await rag.retrieve("Who leads the Otter station?")
        result = await rag.aquery("Who?", QueryParam(raise_on_error=False))
        assert (result.status, result.metadata["error"]) == ("failure", "embedding_mismatch")
        with pytest.raises(EmbeddingMismatchError):
            _ = [event async for event in rag.stream("Who?")]
        events = [event async for event in rag.stream("Who?", QueryParam(raise_on_error=False))]
        assert [event.kind for event in events] == ["warning", "done"]
        assert len(await rag.get_docs()) == 2


async def test_a_failure_is_raised_or_reported(tmp_path: Path) -> None:
    file = tmp_path / "sheet.xlsx"
    file.write_bytes(b"PK")
    async with retriever(tmp_path / "base") as rag:
        with pytest.raises(IngestionError) as failure:
            await rag.ingest(file)
        assert isinstance(failure.value.__cause__, ParseError)
        report = await rag.ingest(file, raise_on_error=False)
        assert report.status is DocStatus.FAILED
        assert "xlsx" in report.error


async def test_one_retriever_belongs_to_one_loop(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        with pytest.raises(ConfigError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(rag.get_docs()))
        with pytest.raises(ConfigError, match="another event loop"):
            await asyncio.to_thread(rag.sync.query, "Who?")


def test_a_closed_loop_hands_the_retriever_on(tmp_path: Path) -> None:
    rag = retriever(tmp_path)
    asyncio.run(rag.initialize_storages())
    asyncio.run(rag.ainsert(TEXTS, file_paths=NAMES))
    assert len(asyncio.run(rag.get_docs())) == 2
    asyncio.run(rag.finalize_storages())


def test_the_synchronous_door(tmp_path: Path) -> None:
    file = tmp_path / "lund.md"
    file.write_text(TEXTS[1], encoding="utf-8")
    rag = retriever(tmp_path / "base")
    with rag.sync as door:
        door.insert(TEXTS[0], file_paths="otter.md")
        report = door.ingest(file)
        assert report.chunks == 1
        result = door.query("Who leads the Otter station?")
        assert "Ada Brandt leads the Otter station." in result.content
        assert door.query_data("Who leads the Otter station?")["status"] == "success"
        assert door.retrieve("Who leads the Otter station?").passages
        assert door.delete_by_doc_id(report.document_id).status == "success"
        door.clear_cache()
    rag.sync.close()


def test_the_synchronous_door_streams(tmp_path: Path) -> None:
    question = "Who leads the Otter station?"
    with retriever(tmp_path).sync as door:
        door.insert(TEXTS[0], file_paths="otter.md")
        whole = door.query(question, QueryParam(mode="naive", stream=True))
        assert not whole.is_streaming
        events = list(door.stream(question, QueryParam(mode="naive")))
        assert events[0].kind == "retrieved"
        assert isinstance(events[-1], Done)
        assert (events[-1].result.content, events[-1].result.citations) == (whole.content, whole.citations)
        for event in door.stream(question):
            assert event.kind == "retrieved"
            break
        left = door.stream(question)
        next(left)
    left.close()


async def test_the_synchronous_door_works_inside_a_running_loop(tmp_path: Path) -> None:
    with retriever(tmp_path).sync as door:
        door.insert(TEXTS[0], file_paths="otter.md")
        assert door.query("Who leads the Otter station?").references[0].file_path == "otter.md"


def test_options_without_effect_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rag = EasyKnowledgeRetriever(tmp_path, log_level="DEBUG", cosine_threshold=0.3)
    assert "no effect" in caplog.text
    assert rag.settings.cosine_better_than_threshold == 0.3


@pytest.mark.parametrize("storage", ["NoSuchStorage", 7, dict])
def test_what_is_no_storage_is_refused(tmp_path: Path, storage: object) -> None:
    with pytest.raises(ConfigError, match="Storage"):
        EasyKnowledgeRetriever(tmp_path, kv_storage=storage)  # type: ignore[arg-type]


async def test_every_name_of_an_entity_finds_it(tmp_path: Path) -> None:
    texts = [
        "# Grid\n\nThe Northern Grid Council (NGC) meets in Lund.",
        "# Report\n\nIn May the NGC met Ada Brandt and other members.",
        "# Elsewhere\n\nNothing happens in Malm.",
    ]
    async with retriever(tmp_path) as rag:
        await rag.ainsert(texts, file_paths=["grid.md", "report.md", "elsewhere.md"])
        info = await rag.get_entity_info("NGC")
        assert info == await rag.get_entity_info("The Northern Grid Council")
        assert info["file_path"] == ["grid.md", "report.md"]
        around = await rag.get_knowledge_graph("ngc", max_depth=1)
        assert info["entity_name"] in {node["entity_name"] for node in around.nodes}
        assert {edge["src_id"] for edge in around.edges} | {edge["tgt_id"] for edge in around.edges} <= {
            node["entity_name"] for node in around.nodes
        }
        first = around.edges[0]
        assert await rag.get_relation_info(first["src_id"], first["tgt_id"])
        for question in ("Who is in the NGC?", "Who is in the Northern Grid Council?", "Who is in the N.G.C.?"):
            data = await rag.aquery_data(question, QueryParam(mode="local"))
            assert data["data"]["entities"][0]["entity_name"] == info["entity_name"], question
        assert [merge.kind for merge in await rag.get_merges("NGC")] == ["acronym"]
        await rag.unmerge_entity("NGC")
        assert (await rag.get_entity_info("NGC"))["file_path"] == ["grid.md", "report.md"]
        assert (await rag.get_entity_info("Northern Grid Council"))["file_path"] == ["grid.md"]
        await rag.merge_entities("NGC", "Northern Grid Council")
        assert await rag.get_entity_info("NGC") == info
        assert (await rag.verify(deep=True)).clean


async def test_only_visible_documents_speak_of_a_merged_entity(tmp_path: Path) -> None:
    async with retriever(tmp_path) as rag:
        await rag.ainsert("# Grid\n\nThe Northern Grid Council (NGC) meets in Lund.", file_paths="grid.md", collection="open")
        await rag.ainsert("# Secret\n\nIn May the NGC met Ada Brandt.", file_paths="secret.md", collection="closed")
        param = QueryParam(mode="local", filter=SearchFilter(collections=frozenset({"open"})))
        data = await rag.aquery_data("What is the NGC?", param)
        entity = data["data"]["entities"][0]
        assert (entity["entity_name"], entity["file_path"]) == ("NGC", ["grid.md"])
        assert "Ada Brandt" not in str(data["data"])
