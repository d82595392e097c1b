"""Replies that are given again, and what becomes of them when their document changes or goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever, IngestionStopped, QueryParam
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.server import CHAT, OpenAITestServer

CANARY = "Zanzibar"
FIRST = f"# Tram\n\nThe ridge tram was repaired by Mira Holt.\n\n# Dome\n\nThe dome was closed by {CANARY} Brandt."
SECOND = "# Tram\n\nThe ridge tram was repaired by Mira Holt.\n\n# Dome\n\nThe dome was opened by Ida Lund."


def retriever(server: OpenAITestServer, folder: Path, **keywords: Any) -> EasyKnowledgeRetriever:
    return EasyKnowledgeRetriever(
        folder,
        llm_service=OpenAILLMService("chat", server.base_url, "key", timeout=10),
        embedding_service=FakeEmbeddingService(),
        chunk_token_size=24,
        chunk_overlap_token_size=0,
        **keywords,
    )


async def kept(rag: EasyKnowledgeRetriever) -> str:
    return "\n".join([f"{key} {row.get('text', '')}" async for key, row in rag._kb.llm_cache.scan()])


async def test_a_changed_version_asks_only_about_what_changed(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert(FIRST, ids="doc")
        assert server.count(CHAT) == 4
        assert CANARY in await kept(rag)
        await rag.ainsert(SECOND, ids="doc")
        assert server.count(CHAT) == 6
        assert (await rag.cache_size()).replies == 4
        assert CANARY not in await kept(rag)
        assert (await rag.verify(deep=True)).clean


async def test_after_an_interruption_the_replies_of_before_stay_until_the_next_version(
    server: OpenAITestServer, tmp_path: Path
) -> None:
    async with retriever(server, tmp_path, max_llm_calls=3) as rag:
        with pytest.raises(IngestionStopped):
            await rag.ainsert(FIRST, ids="doc")
        assert (await rag.cache_size()).replies == 3
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert(FIRST, ids="doc")
        assert (server.count(CHAT), (await rag.cache_size()).replies) == (4, 4)
        await rag.ainsert(SECOND, ids="doc")
        assert (server.count(CHAT), (await rag.cache_size()).replies) == (6, 4)


async def test_the_replies_about_a_document_go_with_it(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert([FIRST, "# Brenn\n\nBrenn is a village of Ostrania."], ids=["doc", "other"])
        await rag.aquery("What is Brenn?", QueryParam(mode="naive"))
        before = (await rag.cache_size()).replies
        await rag.adelete_by_doc_id("doc")
        assert (await rag.cache_size()).replies == before - 4
        assert CANARY not in await kept(rag)
        assert (await rag.verify(deep=True)).clean
        await rag.adelete_by_doc_id("other", delete_llm_cache=True)
        assert await kept(rag) == ""


@pytest.mark.damages
async def test_verify_finds_replies_about_nothing(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert(FIRST, ids="doc")
        await rag._kb.llm_cache.put_many({"0123/4567": {"text": "a reply", "at": 1}})
        [finding] = (await rag.verify(deep=True)).findings
        assert (finding.check, finding.key) == ("I9", "0123")


async def test_the_cap_holds_and_costs_nothing_but_a_saving(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path, max_cache_mb=0.0005) as rag:
        await rag.ainsert(FIRST, ids="doc")
        await rag.aquery("Who repaired the ridge tram?", QueryParam(mode="mix"))
        assert (await rag.cache_size()).bytes <= 500
        assert (await rag.verify(deep=True)).clean
