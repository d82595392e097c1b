"""Parent chunks from a file to an answer, in every mode and over every storage that needs no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever import ConfigError, EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.kg.codecs import decode_chunk, encode_chunk
from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.types import Chunk

GROUNDED = [mode for mode in STRATEGIES if mode != "bypass"]
FILLER = " ".join(f"Keeper number {i} counted the grey seals of the bay." for i in range(6))
TEXT = f"# Harbour\n\nThe harbour of Marlow was built by Ida Brandt. {FILLER} Ida Brandt also drew the harbour lamp.\n\n" + (
    f"# Moor\n\nThe moor lies above the town of Marlow. {FILLER}\n"
)
QUESTION = "Who built the harbour of Marlow?"


def retriever(folder: Path, parent: int | None = 200, storage: str | None = None) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(
        folder,
        kv_storage=storage,
        embedding_service=FakeEmbeddingService(64),
        chunk_token_size=30,
        chunk_overlap_token_size=0,
        parent_chunk_token_size=parent,
    )


async def opened(rag: EasyKnowledgeRetriever, folder: Path) -> EasyKnowledgeRetriever:
    file = folder / "marlow.md"
    file.write_text(TEXT, encoding="utf-8")
    await rag.initialize_storages()
    await rag.ingest(file, name="marlow.md")
    return rag


@pytest.mark.parametrize("mode", GROUNDED)
async def test_the_model_is_given_each_parent_once(mode: str, tmp_path: Path) -> None:
    rag = await opened(retriever(tmp_path / "base"), tmp_path)
    context = await rag.retrieve(QUESTION, param=QueryParam(mode=mode))
    shown = [passage.chunk for passage in context.passages]
    spans = [(chunk.start, chunk.end) for chunk in shown]
    assert len(spans) == len(set(spans)) <= 2
    assert context.text.count("The harbour of Marlow was built") == context.text.count("drew the harbour lamp") == 1
    assert all(chunk.text == TEXT[chunk.start : chunk.end] and chunk.tokens <= 30 for chunk in shown)
    await rag.finalize_storages()


async def test_a_citation_is_exact(tmp_path: Path) -> None:
    rag = await opened(retriever(tmp_path / "base"), tmp_path)
    result = await rag.aquery(QUESTION, QueryParam(mode="mix"))
    quotes = [(citation.quote, citation.start, citation.end) for citation in result.citations]
    assert quotes
    assert all(start is not None and TEXT[start:end] == quote for quote, start, end in quotes)
    assert "The harbour of Marlow was built by Ida Brandt." in {quote for quote, _, _ in quotes}
    await rag.finalize_storages()


async def test_a_budget_counts_a_parent_once(tmp_path: Path) -> None:
    rag = await opened(retriever(tmp_path / "base"), tmp_path)
    whole = await rag.retrieve(QUESTION, param=QueryParam(mode="naive"))
    assert len(whole.passages) == 2
    exact = await rag.retrieve(QUESTION, param=QueryParam(mode="naive", max_total_tokens=whole.tokens))
    less = await rag.retrieve(QUESTION, param=QueryParam(mode="naive", max_total_tokens=whole.tokens - 1))
    assert (len(exact.passages), len(less.passages)) == (2, 1)
    await rag.finalize_storages()


@pytest.mark.parametrize("storage", [None, "JsonKVStorage"])
async def test_parents_are_kept(storage: str | None, tmp_path: Path) -> None:
    rag = await opened(retriever(tmp_path / "base", storage=storage), tmp_path)
    before = await rag.retrieve(QUESTION, param=QueryParam(mode="naive"))
    await rag.finalize_storages()
    async with retriever(tmp_path / "base", storage=storage) as again:
        assert (await again.retrieve(QUESTION, param=QueryParam(mode="naive"))).text == before.text


async def test_without_parents_the_chunk_itself_is_given(tmp_path: Path) -> None:
    rag = await opened(retriever(tmp_path / "base", parent=None), tmp_path)
    context = await rag.retrieve(QUESTION, param=QueryParam(mode="naive"))
    assert len(context.passages) > 2
    assert {passage.chunk.parent for passage in context.passages} == {None}
    await rag.finalize_storages()


def test_a_parent_no_longer_than_a_chunk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="parent_chunk_token_size is 30"):
        retriever(tmp_path, parent=30)


def test_rows_written_before_there_were_parents_are_read() -> None:
    chunk = Chunk("c", "d", "d.md", "v", 0, "text", 0, 4)
    row = encode_chunk(chunk)
    assert not {"parent", "table_head"} & row.keys()
    assert decode_chunk(row) == chunk
