"""A base and its embedding model belong together: another one is noticed before anything is compared or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from easy_knowledge_retriever import (
    EasyKnowledgeRetriever,
    EmbeddingMismatchError,
    IngestionError,
    QueryParam,
    UpstreamAuth,
    UpstreamError,
)
from easy_knowledge_retriever.ingestion.stamps import probes_of, stamps_of
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.faults import Fault
from easy_knowledge_retriever.testing.server import EMBEDDINGS, OpenAITestServer
from easy_knowledge_retriever.types import FloatVectors

TEXT = "# Otter station\n\nThe Otter station stands in Lund. Ada Brandt leads the Otter station."
QUESTION = "Who leads the Otter station?"


class Served(FakeEmbeddingService):
    """A model of an endpoint: what answers under its name may change."""

    def __init__(self, dim: int = 64, *, turned: bool = False, name: str = "served", fault: UpstreamError | None = None) -> None:
        super().__init__(dim)
        self.turned, self.fault, self._name = turned, fault, name
        self.asked: list[tuple[str, ...]] = []

    @property
    def is_pinned(self) -> bool:
        return False

    @property
    def fingerprint(self) -> str:
        return f"{self._name}/{self.embedding_dim}"

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        self.asked.append(tuple(texts))
        if self.fault:
            raise self.fault
        vectors = await super().embed(texts, input_type)
        return np.roll(vectors, 1, axis=1) if self.turned else vectors


def retriever(folder: Path, model: FakeEmbeddingService, check: Literal["error", "warn"] = "error") -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(folder, embedding_service=model, embedding_check=check)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with retriever(tmp_path, Served()) as rag:
        await rag.ainsert(TEXT, file_paths="otter.md")
    return tmp_path


async def dump(folder: Path) -> str:
    async with retriever(folder, Served(), "warn") as rag:
        return await canonical_dump(rag._kb)


async def test_the_first_commit_notes_the_model_and_what_it_makes_of_three_texts(folder: Path) -> None:
    async with retriever(folder, Served()) as rag:
        made, probes = (await stamps_of(rag._kb)).embedding, await probes_of(rag._kb)
        row = (await rag._kb.stamps.get_many(["embedding"]))["embedding"]
    assert made is not None
    assert (made.fingerprint, made.dimension, made.prefixes) == ("served/64", 64, ("", ""))
    assert (row["length"], row["dtype"]) == (1, "float32")
    assert probes is not None
    assert probes.shape == (3, 64)
    assert np.allclose(np.linalg.norm(probes, axis=1), 1)


async def test_another_dimension_is_refused_wherever_one_comes_in(folder: Path) -> None:
    before, said = await dump(folder), r"dimension 64.*dimension 32.*ekr reindex"
    with pytest.raises(EmbeddingMismatchError, match=said):
        await retriever(folder, Served(32)).initialize_storages()
    async with retriever(folder, Served(32), "warn") as rag:
        with pytest.raises(EmbeddingMismatchError, match=said):
            await rag.ainsert("Something else.")
        with pytest.raises(EmbeddingMismatchError, match=said):
            await rag.aquery(QUESTION)
        with pytest.raises(EmbeddingMismatchError, match=said):
            await rag.merge_entities("Otter station", "Lund")
        assert len(await rag.get_docs()) == 1
        assert (await rag.verify()).findings[0].check == "I16"
    assert await dump(folder) == before


async def test_another_model_of_the_same_dimension_is_known_by_its_name(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = Served(name="other")
    async with retriever(folder, other) as rag:
        with pytest.raises(EmbeddingMismatchError, match=r"'served/64'.*'other/64'"):
            await rag.aquery(QUESTION)
    assert other.asked == []
    async with retriever(folder, other, "warn") as rag:
        await rag.aquery(QUESTION)
        await rag.aquery(QUESTION)
    assert caplog.text.count("'other/64'") == 1


async def test_another_model_under_the_same_name_is_known_by_what_it_makes_of_the_probes(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = await dump(folder)
    async with retriever(folder, Served(turned=True)) as rag:
        with pytest.raises(EmbeddingMismatchError, match="is not the model it was"):
            await rag.aquery(QUESTION)
        with pytest.raises(EmbeddingMismatchError, match="is not the model it was"):
            await rag.ainsert("Something else.")
    assert await dump(folder) == before
    async with retriever(folder, Served(turned=True), "warn") as rag:
        await rag.aquery(QUESTION)
        await rag.aquery(QUESTION)
    assert caplog.text.count("is not the model it was") == 1


async def test_the_probes_are_asked_for_once_an_opening_and_only_where_vectors_are_needed(folder: Path) -> None:
    model = Served()
    async with retriever(folder, model) as rag:
        assert model.asked == []
        await rag.aquery(QUESTION, QueryParam(mode="bm25", only_need_context=True))
        await rag.ainsert(TEXT, file_paths="otter.md")
        assert model.asked == []
        for _ in range(2):
            await rag.aquery(QUESTION, QueryParam(mode="naive", only_need_context=True))
    assert [len(call) for call in model.asked] == [3, 1, 1]


async def test_the_local_model_is_not_probed(tmp_path: Path) -> None:
    async with retriever(tmp_path, FakeEmbeddingService(64)) as rag:
        await rag.ainsert(TEXT, file_paths="otter.md")
        assert await probes_of(rag._kb) is None


@pytest.mark.parametrize("fault", [UpstreamAuth("the key was refused"), UpstreamError("503"), UpstreamError("timed out")])
async def test_a_probe_that_fails_is_no_change_of_the_model(folder: Path, fault: UpstreamError) -> None:
    before = await dump(folder)
    async with retriever(folder, Served(fault=fault)) as rag:
        with pytest.raises(type(fault), match=str(fault)):
            await rag.aquery(QUESTION)
        with pytest.raises(IngestionError, match=str(fault)):
            await rag.ainsert("Something else.")
    assert await dump(folder) == before


@pytest.mark.parametrize("fault", [Fault(status=401), Fault(status=503)])
async def test_an_endpoint_that_fails_at_the_start_leaves_the_store_alone(tmp_path: Path, fault: Fault) -> None:
    async with OpenAITestServer(dimension=64) as server:

        def model() -> OpenAIEmbeddingService:
            return OpenAIEmbeddingService("embed", server.base_url, "key", 64, timeout=5)

        async with EasyKnowledgeRetriever(tmp_path, embedding_service=model()) as rag:
            await rag.ainsert(TEXT, file_paths="otter.md")
            before = await canonical_dump(rag._kb)
        server.fail(EMBEDDINGS, lambda number, body: fault)
        async with EasyKnowledgeRetriever(tmp_path, embedding_service=model()) as rag:
            with pytest.raises(UpstreamError):
                await rag.aquery(QUESTION)
            assert await canonical_dump(rag._kb) == before
