from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.testing.server import OpenAITestServer


@pytest.fixture
async def llm(server: OpenAITestServer) -> AsyncIterator[OpenAILLMService]:
    """A model of the test server, without anything around it."""
    service = OpenAILLMService("tiny", server.base_url, timeout=5)
    yield service
    await service.aclose()
