"""Functions as models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np
import pytest

from easy_knowledge_retriever.errors import BadResponse, ConfigError
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.callables import as_embedding_service, as_llm_service
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService

CHAT = (Message("system", "be kind"), Message("user", "one"), Message("assistant", "two"), Message("user", "three"))


async def echo(prompt: str, system_prompt: str | None = None, history_messages: Any = (), **keywords: Any) -> str:
    return f"{prompt}|{system_prompt}|{[turn['content'] for turn in history_messages]}|{sorted(keywords)}"


async def pieces(
    prompt: str, system_prompt: str | None = None, history_messages: Any = (), stream: bool = False
) -> str | AsyncIterator[str]:
    async def run() -> AsyncIterator[str]:
        for word in ("<think>x</think>", "a", "b"):
            yield word

    return run() if stream else "<think>x</think>ab"


def plain(prompt: str, system_prompt: str | None, history_messages: Any) -> str:
    return prompt


async def test_a_function_is_a_language_model() -> None:
    service = as_llm_service(echo)
    completion = await service.complete(CHAT)
    assert completion.text == "three|be kind|['one', 'two']|[]"
    assert completion.usage.llm_calls == 1
    assert "".join([piece async for piece in service.stream(CHAT)]).endswith("['stream']")
    assert service.model.endswith("test_callables.echo")


async def test_other_shapes_of_functions() -> None:
    assert (await as_llm_service(plain).complete(CHAT)).text == "three"
    assert [piece async for piece in as_llm_service(plain).stream(CHAT)] == ["three", ""]
    assert (await as_llm_service(partial(echo)).complete(CHAT)).text.startswith("three")
    service = as_llm_service(pieces)
    assert (await service.complete(CHAT)).text == "ab"
    assert "".join([piece async for piece in service.stream(CHAT)]).endswith("ab")
    fake = FakeLLMService()
    assert as_llm_service(fake) is fake


async def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(ConfigError):
        as_llm_service("gpt")
    with pytest.raises(BadResponse):
        await as_llm_service(lambda prompt, **keywords: 5).complete(CHAT)
    with pytest.raises(BadResponse):
        await as_llm_service(lambda prompt, **keywords: "").complete(CHAT)


async def embed(texts: Sequence[str]) -> Any:
    return [[3.0, 4.0] if text else [0.0, 0.0] for text in texts]


async def test_a_function_is_an_embedding_model() -> None:
    service = as_embedding_service(embed, 2)
    np.testing.assert_allclose(await service.embed(["a", "b"], "query"), [[0.6, 0.8]] * 2, rtol=1e-6)
    assert (await service.embed([], "query")).shape == (0, 2)
    assert service.embedding_dim == 2
    assert service.fingerprint.endswith("test_callables.embed:2")
    embed.embedding_dim = 2  # type: ignore[attr-defined]
    assert as_embedding_service(embed).embedding_dim == 2
    fake = FakeEmbeddingService()
    assert as_embedding_service(fake) is fake


async def test_what_is_no_embedding_model_is_refused() -> None:
    with pytest.raises(ConfigError):
        as_embedding_service("model")
    with pytest.raises(ConfigError, match="embedding_dim"):
        as_embedding_service(lambda texts: texts)
    with pytest.raises(BadResponse, match="shape"):
        await as_embedding_service(embed, 3).embed(["a"], "query")
    with pytest.raises(BadResponse, match="zero"):
        await as_embedding_service(embed, 2).embed([""], "query")


async def test_a_function_of_a_prompt_alone_is_told_everything_in_it() -> None:
    service = as_llm_service(lambda prompt: prompt)
    assert (await service.complete(CHAT)).text == "be kind\n\nuser: one\n\nassistant: two\n\nthree"
    assert (await service.complete(CHAT[-1:])).text == "three"


class Opaque:
    """A callable without a signature, such as one written in C may be."""

    __signature__ = "none"

    def __call__(self, prompt: str, *, system_prompt: str | None, history_messages: Any) -> str:
        return prompt


async def test_a_function_without_a_signature_is_called_plainly() -> None:
    service = as_llm_service(Opaque())
    assert [piece async for piece in service.stream(CHAT)] == ["three", ""]
    assert service.model.endswith("Opaque")


async def test_a_streaming_function_shows_no_reasoning_and_is_closed_when_it_is_left() -> None:
    closed = []

    async def pieces() -> AsyncIterator[str]:
        try:
            for piece in ("<thi", "nk>secret</th", "ink>open", " door", " <th"):
                yield piece
        finally:
            closed.append(True)

    service = as_llm_service(lambda prompt, stream=False, **_: pieces())
    assert "".join([piece async for piece in service.stream(CHAT)]) == "open door <th"
    async with aclosing(service.stream(CHAT)) as left:  # type: ignore[type-var]
        assert await anext(left) == "open"
    assert closed == [True, True]
