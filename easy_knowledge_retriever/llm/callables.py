"""Plain functions as models: what a user brings instead of a service."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np

from easy_knowledge_retriever.errors import BadResponse, ConfigError
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, Ending, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.llm.reasoning import ReasoningFilter, without_reasoning
from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = ["CallableEmbedding", "CallableLLM", "as_embedding_service", "as_llm_service"]


def as_llm_service(value: object) -> LLMService:
    """A language model for what a user gave: a service as it is, a function wrapped.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(value, LLMService):
        return value
    if callable(value):
        return CallableLLM(value)
    raise ConfigError(f"{type(value).__name__} is no language model", hint="give an LLMService or an async function")


def as_embedding_service(value: object, embedding_dim: int | None = None) -> EmbeddingService:
    """An embedding model for what a user gave: a service as it is, a function wrapped.

    Args:
        value: The service, or an async function from texts to vectors.
        embedding_dim: Length of the function's vectors; its own attribute ``embedding_dim`` if None.

    Raises:
        ConfigError: It is neither, or the dimension is not known.
    """
    if isinstance(value, EmbeddingService):
        return value
    if not callable(value):
        raise ConfigError(f"{type(value).__name__} is no embedding model", hint="give an EmbeddingService or an async function")
    dimension = embedding_dim or getattr(value, "embedding_dim", None)
    if not isinstance(dimension, int):
        raise ConfigError("the dimension of the embedding function is not known", hint="set its attribute embedding_dim")
    return CallableEmbedding(value, dimension)


class CallableLLM(LLMService):
    """A function ``(prompt, system_prompt=None, history_messages=[], **kwargs)`` as a language model.

    What it takes no argument for stands in its prompt. It may be a coroutine function or a plain one that gives an
    awaitable, a text or an async iterator of pieces. Its own errors pass unchanged.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def model(self) -> str:
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        return f"{getattr(self._function, '__module__', '')}.{name}"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        answer = await self._ask(messages)
        text = without_reasoning(answer if isinstance(answer, str) else "".join([piece async for piece in answer]))
        if not text:
            raise BadResponse(f"the function {self.model} gave no text")
        return Completion(text, usage=Usage(llm_calls=1))

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncGenerator[str]:
        answer = await self._ask(messages, stream=True)
        if isinstance(answer, str):
            yield without_reasoning(answer)
        else:
            reasoning = ReasoningFilter()
            async with aclosing(_pieces(answer)) as pieces:
                async for piece in pieces:
                    if shown := reasoning.feed(piece):
                        yield shown
            if rest := reasoning.rest():
                yield rest
        yield Ending(Usage(llm_calls=1))

    async def _ask(self, messages: Sequence[Message], **keywords: bool) -> str | AsyncIterator[str]:
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        turns = [message for message in messages if message.role != "system"]
        history = [{"role": message.role, "content": message.content} for message in turns[:-1]]
        given: dict[str, Any] = {"system_prompt": system or None, "history_messages": history, **keywords}
        accepted = {name: value for name, value in given.items() if self._takes(name)}
        before = [system] if system and "system_prompt" not in accepted else []
        if "history_messages" not in accepted:
            before += [f"{turn['role']}: {turn['content']}" for turn in history]
        answer = self._function("\n\n".join([*before, *(message.content for message in turns[-1:])]), **accepted)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str | AsyncIterator):
            return answer
        raise BadResponse(f"the function {self.model} gave {type(answer).__name__}, expected text")

    def _takes(self, name: str) -> bool:
        try:
            parameters = inspect.signature(self._function).parameters
        except (TypeError, ValueError):  # a function written in C: the usual arguments, nothing more
            return name != "stream"
        return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


async def _pieces(answer: AsyncIterator[str]) -> AsyncGenerator[str]:
    """The pieces; a generator that is left half way is closed at once: it may hold a connection."""
    try:
        async for piece in answer:
            yield piece
    finally:
        if isinstance(answer, AsyncGenerator):
            await answer.aclose()


class CallableEmbedding(EmbeddingService):
    """An async function from texts to vectors as an embedding model."""

    def __init__(self, function: Callable[[Sequence[str]], Awaitable[Any]], embedding_dim: int) -> None:
        self._function = function
        self._dimension = embedding_dim

    @property
    def embedding_dim(self) -> int:
        return self._dimension

    @property
    def fingerprint(self) -> str:
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        return f"callable:{getattr(self._function, '__module__', '')}.{name}:{self._dimension}"

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        if not texts:
            return np.zeros((0, self._dimension), np.float32)
        vectors = np.asarray(await self._function(list(texts)), dtype=np.float32)
        if vectors.shape != (len(texts), self._dimension):
            raise BadResponse(f"the embedding function gave shape {vectors.shape}, expected {(len(texts), self._dimension)}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise BadResponse("the embedding function gave zero or not finite vectors")
        result: FloatVectors = vectors / norms
        return result
