"""Files on their way in."""

from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import IngestionError, ParseError
from easy_knowledge_retriever.events import DocumentFinished, DocumentStarted, StageFinished, StageProgress
from easy_knowledge_retriever.ingestion import origins
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, RecordingObserver
from easy_knowledge_retriever.types import Document
from tests.flows.ingesting_base import TEXTS, Described, document, empty_base, ingestion


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "verdel.md"
    path.write_text(f"# The Verdel\n\n{TEXTS['verdel']}\n", encoding="utf-8")
    return path


async def test_a_file_is_parsed_by_its_suffix(page: Path) -> None:
    kb, observer = await empty_base(), RecordingObserver()
    report = await ingestion(kb, observer=observer).ingest_file(
        page, name="rivers/verdel.md", collection="lakes", metadata={"year": 2020}, track_id="t1"
    )
    record = (await kb.status.get([report.document_id]))[report.document_id]
    assert (record.name, record.collection, record.metadata, record.title) == (
        "rivers/verdel.md",
        "lakes",
        {"year": 2020},
        "The Verdel",
    )
    assert (record.track_id, report.track_id) == ("t1", "t1")
    assert report.document is not None
    assert report.document.parser.startswith("markdown")
    assert [event.name for event in observer.of(DocumentStarted)] == ["rivers/verdel.md"]
    stages = [event.stage for event in observer.of(StageFinished)]
    assert stages == ["read", "parse", "chunk", "embed", "extract", "commit"]
    assert list(report.timings) == stages
    assert [(event.stage, event.done, event.total) for event in observer.of(StageProgress)][:1] == [("embed", 3, 3)]
    (finished,) = observer.of(DocumentFinished)
    assert (finished.chunks, finished.entities, finished.relations) == (report.chunks, report.entities, report.relations)


@pytest.mark.parametrize(("name", "reason"), [("verdel.xyz", "unsupported"), ("missing.md", "not_found")])
async def test_what_cannot_be_read_is_refused_and_leaves_no_trace(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "verdel.xyz").write_text("text", encoding="utf-8")
    kb = await empty_base()
    with pytest.raises(IngestionError) as caught:
        await ingestion(kb).ingest_file(tmp_path / name)
    assert caught.value.stage == "read"
    assert isinstance(caught.value.__cause__, ParseError)
    assert caught.value.__cause__.reason == reason
    assert await kb.status.page() == []


async def test_a_broken_file_is_recorded_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7 broken")
    kb = await empty_base()
    with pytest.raises(IngestionError) as caught:
        await ingestion(kb).ingest_file(path)
    (record,) = await kb.status.page()
    assert (caught.value.stage, record.status, record.stage, record.version) == ("parse", "failed", "parse", "")


async def test_equal_contents_share_their_work(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, alone, embedding, described = await empty_base(), await empty_base(), FakeEmbeddingService(16), Described("llm")
    flow = ingestion(kb, embedding=embedding, llm_extractor=described)
    first = await flow.ingest_file(page, name="one.md")
    texts, read = len(embedding.inputs), len(described.read)
    monkeypatch.setattr(origins, "parser_for", lambda path: _NoParser())

    second = await flow.ingest_file(page, name="two.md")

    assert second.document_id != first.document_id
    assert second.chunks == first.chunks
    assert {text for text, _ in embedding.inputs[texts:]} & {chunk for chunk, _ in embedding.inputs[: first.chunks]} == set()
    assert len(described.read) == read
    monkeypatch.undo()

    await flow.delete_document(first.document_id)
    await ingestion(alone, llm_extractor=Described("llm")).ingest_file(page, name="two.md")
    assert await canonical_dump(kb) == await canonical_dump(alone)


class _NoParser:
    """A parser that is asked for its fingerprint only."""

    fingerprint = "markdown 1"

    def parse(self, source: object) -> Document:
        raise AssertionError("it was parsed again")


async def test_a_slow_parse_is_kept_for_the_next_attempt(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = await empty_base()
    monkeypatch.setattr(origins, "_WORTH_KEEPING", -1.0)
    broken = FakeEmbeddingService(16, faults={1: ParseError("no", code="corrupt")})
    with pytest.raises(IngestionError):
        await ingestion(kb, embedding=broken).ingest_file(page, name="a.md")
    ((key, kept),) = [row async for row in kb.parses.scan()]
    assert kept.text
    monkeypatch.setattr(origins, "parser_for", lambda path: _NoParser())
    assert key.endswith("/markdown 1")
    report = await ingestion(kb).ingest_file(page, name="a.md")
    assert report.status == "processed"
    ((_, pointer),) = [row async for row in kb.parses.scan()]
    assert pointer.text == ""
    await ingestion(kb).delete_document(report.document_id)
    assert [row async for row in kb.parses.scan()] == []


async def test_the_parse_of_a_version_that_is_given_up_goes(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = await empty_base()
    first = page.read_text(encoding="utf-8")
    await ingestion(kb).ingest_file(page, name="a.md")
    monkeypatch.setattr(origins, "_WORTH_KEEPING", -1.0)
    for text in ("# Another\n\nIda Brandt.\n", "# A third\n\nMount Kell.\n"):
        page.write_text(text, encoding="utf-8")
        with pytest.raises(IngestionError):
            broken = FakeEmbeddingService(16, faults={1: ParseError("no", code="corrupt")})
            await ingestion(kb, embedding=broken).ingest_file(page, name="a.md")
        assert [parse.title async for _, parse in kb.parses.scan() if parse.text] == [text.partition("\n")[0][2:]]
    page.write_text(first, encoding="utf-8")
    assert (await ingestion(kb).ingest_file(page, name="a.md")).unchanged
    assert [parse.text async for _, parse in kb.parses.scan()] == [""]


async def test_broken_characters_are_replaced_one_for_one() -> None:
    kb = await empty_base()
    report = await ingestion(kb).ingest_document(document("odd", "A\0B \ud800 Ida Brandt", title="T\0"))
    assert report.warnings == ("broken_characters",)
    stored = (await kb.documents.get_many([report.document_id]))[report.document_id]
    assert (stored.text, stored.title) == ("A\ufffdB \ufffd Ida Brandt", "T\ufffd")


async def test_a_document_that_names_nothing_says_so() -> None:
    kb = await empty_base()
    report = await ingestion(kb, extractors=[]).ingest_document(document("plain", "nothing is named here"))
    assert report.warnings == ("no_entities",)
    assert report.status == "processed"


async def test_new_metadata_of_an_unchanged_document_is_kept() -> None:
    kb = await empty_base()
    await ingestion(kb).ingest_document(document("a", "Some text.", metadata={"year": 1}))
    report = await ingestion(kb).ingest_document(document("a", "Some text.", metadata={"year": 2}))
    assert report.unchanged
    assert (await kb.status.page())[0].metadata == {"year": 2}
