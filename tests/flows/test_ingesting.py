"""One document's way into a base, and out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from easy_knowledge_retriever.errors import EmbeddingMismatchError, IngestionError, UpstreamError
from easy_knowledge_retriever.events import StageProgress
from easy_knowledge_retriever.operations.indexing import has_vector
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, RecordingObserver
from easy_knowledge_retriever.types import DocStatus
from tests.flows.ingesting_base import TEXTS, Described, document, empty_base, ingestion, written_out


async def test_a_document_is_there_with_everything_derived_from_it() -> None:
    kb = await empty_base()
    report = await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]))

    assert (report.status, report.chunks, report.unchanged, report.warnings) == (DocStatus.PROCESSED, 2, False, ())
    record = (await kb.status.get([report.document_id]))[report.document_id]
    assert (record.status, record.version, record.pending_version, record.chunk_count) == ("processed", report.version, "", 2)
    entities = await kb.graph.entities(["verdel", "ostrania", "mount kell", "ida brandt", "marlow"])
    assert sorted(entities) == ["ida brandt", "marlow", "mount kell", "ostrania", "verdel"]
    assert len(entities["verdel"].chunk_ids) == 2
    assert (await kb.graph.counts()).entities == report.entities
    assert await kb.entity_vectors.ids() == sorted(key for key, entity in entities.items() if has_vector(entity)) == ["verdel"]
    assert await kb.chunk_vectors.count() == 2
    assert len(await kb.lexical.ids()) == 2


async def test_the_same_version_again_does_nothing() -> None:
    kb, embedding = await empty_base(), FakeEmbeddingService(16)
    flow = ingestion(kb, embedding=embedding)
    await flow.ingest_document(document("verdel", TEXTS["verdel"]))
    calls, before = embedding.calls, await written_out(kb)

    report = await flow.ingest_document(document("verdel", TEXTS["verdel"]))

    assert report.unchanged
    assert embedding.calls == calls
    assert await written_out(kb) == before


@pytest.mark.parametrize("order", [("verdel", "kell", "brandt"), ("brandt", "verdel", "kell"), ("kell", "brandt", "verdel")])
async def test_the_order_of_documents_changes_nothing(order: tuple[str, ...]) -> None:
    bases = []
    for names in (sorted(order), order):
        kb = await empty_base()
        flow = ingestion(kb)
        for name in names:
            await flow.ingest_document(document(name, TEXTS[name]))
        bases.append(await written_out(kb))
    assert bases[0] == bases[1]


async def test_deleted_is_as_never_seen() -> None:
    kb, other = await empty_base(), await empty_base()
    flow = ingestion(kb)
    for name in ("verdel", "kell", "brandt"):
        await flow.ingest_document(document(name, TEXTS[name]))
    for name in ("verdel", "brandt"):
        await ingestion(other).ingest_document(document(name, TEXTS[name]))

    result = await flow.delete_document(document("kell", TEXTS["kell"]).id)

    assert (result.status, result.status_code, result.file_path) == ("success", 200, "kell")
    assert await written_out(kb) == await written_out(other)
    assert (await flow.delete_document("doc-none")).status == "not_found"


async def test_replaced_is_as_if_the_first_version_had_never_been() -> None:
    kb, other = await empty_base(), await empty_base()
    flow = ingestion(kb)
    await flow.ingest_document(document("verdel", TEXTS["verdel"]))
    await flow.ingest_document(document("kell", TEXTS["kell"]))
    await flow.ingest_document(document("verdel", TEXTS["verdel, again"]))
    await ingestion(other).ingest_document(document("kell", TEXTS["kell"]))
    await ingestion(other).ingest_document(document("verdel", TEXTS["verdel, again"]))
    assert await written_out(kb) == await written_out(other)


async def test_all_deleted_leaves_nothing() -> None:
    kb = await empty_base()
    flow = ingestion(kb)
    await flow.ingest_document(document("verdel", TEXTS["verdel"]))
    await flow.delete_document(document("verdel", TEXTS["verdel"]).id)
    left = {name: rows for name, rows in (await written_out(kb)).items() if rows}
    assert [(key, row["fingerprint"]) for key, row in left.pop("stamps").items()] == [("embedding", "fake-bag-of-words/16")]
    assert left == {}


async def test_a_failed_replacement_leaves_the_version_before_whole() -> None:
    kb = await empty_base()
    await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]))
    before = await written_out(kb)
    broken = FakeEmbeddingService(16, faults={1: UpstreamError("the model is down")})

    with pytest.raises(IngestionError) as caught:
        await ingestion(kb, embedding=broken).ingest_document(document("verdel", TEXTS["verdel, again"]))

    assert (caught.value.document, caught.value.stage) == ("verdel", "embed")
    assert isinstance(caught.value.__cause__, UpstreamError)
    after = await written_out(kb)
    record = (await kb.status.page())[0]
    assert (record.status, record.stage, record.error) == ("failed", "embed", "UpstreamError: the model is down")
    assert record.version == before["status"][0]["version"]
    assert {**after, "status": []} == {**before, "status": []}


async def test_vectors_of_another_model_are_refused_before_anything_is_written() -> None:
    kb = await empty_base()
    await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]))
    before = await written_out(kb)
    with pytest.raises(EmbeddingMismatchError, match=r"dimension 16.*dimension 8"):
        await ingestion(kb, embedding=FakeEmbeddingService(8)).ingest_document(document("kell", TEXTS["kell"]))
    with pytest.raises(EmbeddingMismatchError):
        await ingestion(kb, settings=Settings(embedding_check="warn"), embedding=FakeEmbeddingService(8)).ingest_document(
            document("kell", TEXTS["kell"])
        )
    assert await written_out(kb) == before


async def test_a_deletion_needs_no_model_and_the_next_ingest_makes_up_for_its_vectors() -> None:
    kb, other = await empty_base(), await empty_base()
    for name in ("verdel", "kell", "brandt"):
        await ingestion(kb, extractors=[Described()]).ingest_document(document(name, TEXTS[name]))
    for name in ("kell", "brandt"):
        await ingestion(other, extractors=[Described()]).ingest_document(document(name, TEXTS[name]))
    down = FakeEmbeddingService(16, faults={1: UpstreamError("the model is down")})

    result = await ingestion(kb, embedding=down).delete_document(document("verdel", "").id)

    assert result.status == "success"
    assert (await written_out(kb))["stamps"]["unembedded"]["entities"]
    for base in (kb, other):
        await ingestion(base, extractors=[Described()]).ingest_document(document("unrelated", "Nothing is named here."))
    assert await written_out(kb) == await written_out(other)


async def test_another_model_of_the_same_dimension_may_be_let_pass_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Other(FakeEmbeddingService):
        @property
        def fingerprint(self) -> str:
            return "another"

    kb = await empty_base()
    await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]))
    with pytest.raises(EmbeddingMismatchError, match="another"):
        await ingestion(kb, embedding=Other(16)).ingest_document(document("kell", TEXTS["kell"]))
    lenient = ingestion(kb, settings=Settings(embedding_check="warn"), embedding=Other(16))
    assert (await lenient.ingest_document(document("kell", TEXTS["kell"]))).status == "processed"
    await lenient.ingest_document(document("brandt", TEXTS["brandt"]))
    assert caplog.text.count("another") == 1
    assert (await kb.stamps.get_many(["embedding"]))["embedding"]["fingerprint"] == "fake-bag-of-words/16"


async def test_a_long_document_is_embedded_in_parts_with_signs_of_life() -> None:
    kb, embedding, observer = await empty_base(), FakeEmbeddingService(16), RecordingObserver()
    text = "\n\n".join(f"paragraph {n}" for n in range(600))
    await ingestion(kb, embedding=embedding, observer=observer, extractors=[]).ingest_document(document("long", text))
    progress = [(event.done, event.total) for event in observer.of(StageProgress) if event.stage == "embed"]
    assert progress == [(256, 600), (512, 600), (600, 600)]
    assert embedding.calls == 3


async def test_new_metadata_of_an_unchanged_document_leaves_what_new_ones_would() -> None:
    bases = []
    for known in ({"year": 1}, {"year": 2}), ({"year": 2},):
        kb = await empty_base()
        for metadata in known:
            await ingestion(kb).ingest_document(replace(document("verdel", TEXTS["verdel"]), metadata=metadata))
        bases.append(await written_out(kb))
    assert bases[0] == bases[1]


@pytest.mark.parametrize("changed", [{"name": "renamed.md"}, {"collection": "other"}])
async def test_an_unchanged_text_under_its_own_id_may_get_another_name_or_collection(changed: dict[str, str]) -> None:
    before = document("verdel", TEXTS["verdel"])
    after = replace(before, **changed)  # type: ignore[arg-type]
    moved, fresh = await empty_base(), await empty_base()
    await ingestion(moved).ingest_document(before)
    report = await ingestion(moved).ingest_document(after)
    await ingestion(fresh).ingest_document(after)
    assert not report.unchanged
    assert await written_out(moved) == await written_out(fresh)


async def test_an_unchanged_document_is_found_by_the_track_of_its_last_ingest() -> None:
    kb = await empty_base()
    for track in ("first", "second"):
        report = await ingestion(kb).ingest_document(document("verdel", TEXTS["verdel"]), track_id=track)
    assert (await kb.status.get([report.document_id]))[report.document_id].track_id == "second"


@pytest.mark.parametrize("changed", [{"name": "a\0b"}, {"id": "a\0b"}])
async def test_a_name_or_id_with_nul_is_refused_and_leaves_nothing(changed: dict[str, Any]) -> None:
    kb = await empty_base()
    with pytest.raises(IngestionError, match="cannot be the name"):
        await ingestion(kb).ingest_document(replace(document("verdel", TEXTS["verdel"]), **changed))
    assert await written_out(kb) == await written_out(await empty_base())
