"""Documents in, cited answers out, every model behind an endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from easy_knowledge_retriever.errors import UpstreamUnavailable
from easy_knowledge_retriever.events import ModelCalled
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.operations.answering_llm import LLMAnswerer
from easy_knowledge_retriever.operations.extraction_json import is_readable
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.keywords_llm import LLMKeywords
from easy_knowledge_retriever.query import QueryParam
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.retrieval.pipeline import Retrieving, Services
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import RecordingObserver
from easy_knowledge_retriever.testing.replies import assistant, lying
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, RERANK, Fault, OpenAITestServer
from tests.flows.ingesting_base import TEXTS, Words, document, empty_base
from tests.flows.querying_base import words

QUESTION = "Who climbed Mount Kell of Ostrania?"
MODES = ("naive", "local", "global", "hybrid", "mix", "hybrid_mix", "bm25", "graph_walk")


@dataclass
class Wired:
    """A base with its models behind one server."""

    server: OpenAITestServer
    kb: KnowledgeBase
    ingestion: Ingestion
    retrieving: Retrieving
    observer: RecordingObserver


@pytest.fixture
async def wired() -> AsyncIterator[Wired]:
    async with OpenAITestServer() as server:
        kb, settings, observer = await empty_base(), Settings(), RecordingObserver()
        llm = OpenAILLMService("chat", server.base_url, "key", max_async=4, timeout=10)
        embed = OpenAIEmbeddingService("embed", server.base_url, "key", 256, max_async=4, timeout=10)
        rerank = OpenAIRerankerService("rerank", server.rerank_url, "key", timeout=10)
        asking = llm_stack(llm, observer=observer, cache=kb.llm_cache)
        reading = llm_stack(llm, observer=observer, cache=kb.llm_cache, accept=is_readable)
        embedding = embedding_stack(embed, observer=observer)
        services = Services(embedding, LLMKeywords(asking), LLMAnswerer(asking), words, reranker_stack(rerank, observer=observer))
        ingestion = Ingestion(kb, settings, embedding, tokenizer=Words(), llm_extractor=LLMExtractor(reading))
        yield Wired(server, kb, ingestion, Retrieving(kb, settings, services), observer)
        for service in (llm, embed, rerank):
            await service.aclose()
        await kb.close()


async def test_every_mode_answers_with_pages_of_the_right_document(wired: Wired) -> None:
    for name, text in TEXTS.items():
        report = await wired.ingestion.ingest_document(document(name, text))
        assert report.failed_chunks == ()
        assert report.usage.llm_calls >= 1
    assert {"llm"} <= {source for entity in await entities(wired.kb) for source in entity}
    for mode in MODES:
        result = await wired.retrieving.query(QUESTION, QueryParam(mode=mode))
        assert not result.refused, mode
        assert "kell" in result.files, mode
        assert all(citation.supported for citation in result.citations), mode
        assert result.degraded == (), mode
    result = await wired.retrieving.query("Hello?", QueryParam(mode="bypass"))
    assert (result.content, result.citations) == ("Hello?", ())
    kinds = {event.kind for event in wired.observer.of(ModelCalled)}
    assert kinds == {"llm", "embedding", "rerank"}


async def entities(kb: KnowledgeBase) -> list[tuple[str, ...]]:
    found = await kb.graph.entities(["mount kell", "ostrania"])
    return [entity.sources for entity in found.values()]


async def test_the_second_time_nothing_is_paid(wired: Wired) -> None:
    await wired.ingestion.ingest_document(document("kell", TEXTS["kell"]))
    first = await wired.retrieving.query(QUESTION, QueryParam(mode="hybrid_mix"))
    calls = wired.server.count(CHAT)
    again = await wired.retrieving.query(QUESTION, QueryParam(mode="hybrid_mix"))
    assert again.content == first.content
    assert wired.server.count(CHAT) == calls
    assert again.usage.llm_calls == 0
    assert again.usage.cached_calls > 0


async def test_a_stream_is_the_answer_in_pieces(wired: Wired) -> None:
    await wired.ingestion.ingest_document(document("kell", TEXTS["kell"]))
    whole = await wired.retrieving.query(QUESTION, QueryParam(mode="naive"))
    await wired.kb.llm_cache.drop()
    streamed = await wired.retrieving.query(QUESTION, QueryParam(mode="naive", stream=True))
    assert streamed.response_iterator is not None
    assert "".join([piece async for piece in streamed.response_iterator]) == whole.content


async def test_lies_are_found_out(wired: Wired) -> None:
    await wired.ingestion.ingest_document(document("kell", TEXTS["kell"]))
    wired.server.chat = lambda chat: lying(chat) if "<context-" in chat.prompt else assistant(chat)
    result = await wired.retrieving.query(QUESTION, QueryParam(mode="naive"))
    assert "[99]" not in result.content
    assert {citation.passage for citation in result.citations} == {1}
    told = [claim for claim in result.claims if claim.supported]
    assert [claim.text.rstrip(" .") in TEXTS["kell"] for claim in told] == [True]  # that one lied about its page only
    assert result.metadata["counts"]["removed_citations"] == 1  # type: ignore[index]
    assert result.metadata["counts"]["wrong_pages"] == 1  # type: ignore[index]
    assert len(result.metadata["warnings"]) == 4  # type: ignore[arg-type]


async def test_an_outage_is_not_an_answer(wired: Wired) -> None:
    await wired.ingestion.ingest_document(document("kell", TEXTS["kell"]))
    wired.server.fail(RERANK, lambda number, body: Fault(401))
    result = await wired.retrieving.query(QUESTION, QueryParam(mode="naive"))
    assert "rerank_failed" in result.degraded
    assert result.files == ["kell"]
    await wired.kb.llm_cache.drop()
    wired.server.fail(CHAT, lambda number, body: Fault(503, {"retry-after": "86400"}))
    with pytest.raises(UpstreamUnavailable):
        await wired.retrieving.query(QUESTION, QueryParam(mode="naive"))


async def test_calls_are_as_few_as_can_be(wired: Wired) -> None:
    """One extraction and one gleaning a chunk; the vectors of a document in three requests at most."""
    await wired.ingestion.ingest_document(document("kell", TEXTS["kell"]))
    assert wired.server.count(CHAT) == 2
    assert wired.server.count(EMBEDDINGS) <= 4
