"""After a purge no byte of a document is left in any file; after a clearing the base is as new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import StorageError, WorkingDirLockedError
from easy_knowledge_retriever.kg.sqlite import packing
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import storage_set
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService

TEXT, CAPTION, HEADING, NAME = (f"Canary{word}qzxvkwjyhgfbplmtrndscQZXVKW{word}" for word in ("text", "capt", "head", "name"))
SECRET = f"""# {HEADING}

{TEXT} lives in Marlow. {TEXT} met Ida Brandt.

![{CAPTION}](bird.png)

| bird | place |
| --- | --- |
| {TEXT} | Marlow |

Table 1: {CAPTION}
"""
OTHER = "# Marlow\n\nIda Brandt lives in Marlow near the Verdel.\n"


@pytest.fixture(autouse=True)
def _plain_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows as text, so that what is left of one is seen."""
    monkeypatch.setattr(packing, "_SHORT", 1 << 30)


def _retriever(folder: Path, backend: str = "sqlite") -> EasyKnowledgeRetriever:
    embedding = FakeEmbeddingService(256)
    return EasyKnowledgeRetriever(folder, embedding_service=embedding, lock_timeout=0.3, **storage_set(backend))


def _found(folder: Path) -> list[tuple[str, str]]:
    """Which canaries stand in which files, as they are or folded."""
    hits = []
    for file in sorted(folder.rglob("*")):
        content = file.read_bytes().lower() if file.is_file() else b""
        hits += [(file.name, word[:10]) for word in (TEXT, CAPTION, HEADING, NAME) if word.lower().encode() in content]
        hits += [(str(file), "in its name") for word in (TEXT, CAPTION, HEADING, NAME) if word.lower() in str(file).lower()]
    return hits


async def _life(folder: Path, backend: str, *, purge: bool) -> list[tuple[str, str]]:
    """A document comes, is asked about, changed, and deleted, beside one that stays; gives what is left while it is open."""
    work = folder.parent / "documents"
    work.mkdir()
    (work / f"{NAME}.md").write_text(SECRET)
    (work / "other.md").write_text(OTHER)
    async with _retriever(folder, backend) as rag:
        await rag.ingest(work / "other.md", name="other.md")
        await rag.ingest(work / f"{NAME}.md", name=f"{NAME}.md")
        (work / f"{NAME}.md").write_text(SECRET + f"\n{TEXT} flew off.\n")
        report = await rag.ingest(work / f"{NAME}.md", name=f"{NAME}.md")
        assert TEXT in (await rag.aquery(f"Where does {TEXT} live?")).content
        await rag._kb.flush()
        assert (await rag.adelete_by_doc_id(report.document_id, purge=purge)).status == "success"
        left = _found(folder)
        assert (await rag.verify(deep=True)).clean
        return left


@pytest.mark.parametrize("backend", ["sqlite", "files"])
async def test_a_purge_leaves_no_byte(tmp_path: Path, backend: str) -> None:
    assert await _life(tmp_path / "base", backend, purge=True) == []
    assert _found(tmp_path / "base") == []
    async with _retriever(tmp_path / "base", backend) as rag:
        assert "Verdel" in (await rag.aquery("Where does Ida Brandt live?")).content
        assert (await rag.verify(deep=True)).clean
    assert _found(tmp_path / "base") == []


async def test_without_a_purge_bytes_are_left(tmp_path: Path) -> None:
    left = await _life(tmp_path / "base", "sqlite", purge=False)
    assert {word for _, word in left} == {word[:10] for word in (TEXT, CAPTION, HEADING, NAME)}


async def test_purging_again_does_what_was_left(tmp_path: Path) -> None:
    async with _retriever(tmp_path / "base") as rag:
        await rag.ainsert([SECRET, OTHER], file_paths=[f"{NAME}.md", "other.md"], ids=["secret", "other"])
        async with rag._kb.snapshot() as reading:
            await reading.status.page()
            with pytest.raises(WorkingDirLockedError):
                await rag.adelete_by_doc_id("secret", purge=True)
        assert (await rag.adelete_by_doc_id("secret", purge=True)).status == "not_found"
        assert _found(tmp_path / "base") == []


async def test_a_purge_waits_for_vectors_that_are_made_anew(tmp_path: Path) -> None:
    async with _retriever(tmp_path / "base") as rag:
        await rag.ainsert([SECRET], ids=["secret"])
        await rag._kb.vector_index.put_many({"building": {"fingerprint": "another"}})
        with pytest.raises(StorageError, match="ekr reindex"):
            await rag.adelete_by_doc_id("secret", purge=True)


@pytest.mark.parametrize("backend", ["sqlite", "files"])
async def test_a_cleared_base_is_as_new_and_usable(tmp_path: Path, backend: str) -> None:
    async with _retriever(tmp_path / "base", backend) as rag:
        await rag.ainsert([SECRET, OTHER], file_paths=[f"{NAME}.md", "other.md"])
        await rag.aclear()
        assert await rag.get_docs() == []
        assert (await rag.get_graph_counts()).entities == 0
        assert (await rag.verify(deep=True)).clean
        assert (await rag.aquery("Where does Ida Brandt live?")).references == ()
        async with asyncio.timeout(30):
            await rag.ainsert([OTHER], file_paths=["other.md"])
        assert "Verdel" in (await rag.aquery("Where does Ida Brandt live?")).content
        assert (await rag.verify(deep=True)).clean
    async with _retriever(tmp_path / "base", backend) as again:
        assert [record.name for record in await again.get_docs()] == ["other.md"]
