"""Language and embedding models behind an OpenAI-compatible endpoint.

A service sends each request once. Budget, cache, retry and limit are wrappers around it, see ``llm.stack``; calling the
language service directly, ``await service(prompt)``, goes through retry and limit.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, overload

import numpy as np

from easy_knowledge_retriever.endpoints.faults import RequestRefused, public_url
from easy_knowledge_retriever.endpoints.limiter import Limiter, limiter_for
from easy_knowledge_retriever.errors import BadResponse, ConfigError, ContentRefused, ContextTooLong, UpstreamError
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.llm.openai_client import ApiKey, OpenAIClient, connection
from easy_knowledge_retriever.llm.reasoning import ReasoningFilter, without_reasoning
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.llm.vectors import read_vectors
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = ["OpenAIEmbeddingService", "OpenAILLMService"]

logger = logging.getLogger("easy_knowledge_retriever")

_LLM_TIMEOUT = 60.0
_EMBEDDING_TIMEOUT = 60.0
_BATCH = 16
_LONGEST_ANSWER = 2 * 1024 * 1024
"""Characters kept of one answer."""
_SHORTEST_CUT = 200
"""Characters. A text this short is not cut for a model that calls it too long."""
_ABOUT_SIZE = re.compile(r"batch|inputs|array|at most|too (?:many|large|long)|maximum|limit", re.IGNORECASE)
_LADDER = ("json_schema", "json_object", "text")
"""How an endpoint can be asked for JSON, most exact first."""


class OpenAILLMService(LLMService):
    """A language model behind an OpenAI-compatible chat endpoint.

    Args:
        model: Name of the model.
        base_url: Address up to and with ``/v1``; ``OPENAI_BASE_URL``, then OpenAI's, if None.
        api_key: The key, or a coroutine function that gives it; ``OPENAI_API_KEY`` if None. A local server needs none.
        temperature: Sent with each request.
        max_async: Ceiling of requests at once to this endpoint, for the whole process; ``EKR_MAX_ASYNC`` if None, and
            if that is unset it adapts.
        timeout: Seconds for one request; ``EKR_LLM_TIMEOUT``, then 60, if None.
        summary_max_tokens: No effect yet, like the other summary arguments: no description is summarised.
        summary_context_size: Tokens of fragments put into one summary request.
        summary_length_recommended: Tokens a summary is asked to have.
        force_llm_summary_on_merge: No effect yet.
        http_client: A client for the openai package, passed on untouched; it is yours to close.
        **request: Further fields of each request, such as ``top_p``, ``extra_body`` or ``extra_headers``.

    Raises:
        ConfigError: The address is unusable, or OpenAI is to be called without a key.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the arguments and their order are the public surface
        self,
        model: str,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        temperature: float = 1.0,
        max_async: int | None = None,
        timeout: float | None = None,
        summary_max_tokens: int = 1200,
        summary_context_size: int = 12000,
        summary_length_recommended: int = 600,
        force_llm_summary_on_merge: int = 8,
        *,
        http_client: object | None = None,
        **request: Any,
    ) -> None:
        variables = environment()
        self._model = model
        self._link = connection(base_url, api_key, timeout or variables.llm_timeout or _LLM_TIMEOUT, http_client)
        self._client = OpenAIClient(self._link, model)
        self._request = {"temperature": temperature, **request}
        self._limiter = limiter_for("llm", self._link.url, max_async or variables.max_async)
        self._token_field = "max_tokens"
        self._rung = 0
        self.summary_max_tokens = summary_max_tokens
        self.summary_context_size = summary_context_size
        self.summary_length_recommended = summary_length_recommended
        self.force_llm_summary_on_merge = force_llm_summary_on_merge

    @property
    def model(self) -> str:
        return self._model

    @property
    def limiter(self) -> Limiter:
        """The limiter of its endpoint, shared by every service that calls it."""
        return self._limiter

    @property
    def identity(self) -> str:
        """What an answer depends on besides the messages: model, address and parameters. Holds no key."""
        shown = {name: value for name, value in self._request.items() if name != "extra_headers"}
        parameters = json.dumps(shown, sort_keys=True, default=repr)
        return f"{self._model} {public_url(self._link.url)} {parameters}"

    @overload
    async def __call__(
        self,
        prompt: str,
        system_prompt: str | None = None,
        history_messages: Sequence[Mapping[str, str]] | None = None,
        stream: Literal[False] = False,
    ) -> str: ...

    @overload
    async def __call__(
        self,
        prompt: str,
        system_prompt: str | None = None,
        history_messages: Sequence[Mapping[str, str]] | None = None,
        *,
        stream: Literal[True],
    ) -> AsyncIterator[str]: ...

    async def __call__(
        self,
        prompt: str,
        system_prompt: str | None = None,
        history_messages: Sequence[Mapping[str, str]] | None = None,
        stream: bool = False,
    ) -> str | AsyncIterator[str]:
        """The answer to one prompt, with retries and within the limit of the endpoint.

        Args:
            prompt: What the user says.
            system_prompt: Put before it.
            history_messages: Earlier turns, ``role`` and ``content``.
            stream: True: an async iterator of pieces.

        Raises:
            UpstreamError: The endpoint failed.
        """
        messages = chat(prompt, system_prompt, history_messages)
        service = llm_stack(self)
        if stream:
            return service.stream(messages)
        return (await service.complete(messages)).text

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        if json_schema is None:
            return _completion(await self._send(self._body(messages, max_tokens)))
        rung = self._rung
        while True:
            body = self._body(_asked_for_json(messages, json_schema, rung), max_tokens)
            try:
                reply = await self._send(body | _response_format(json_schema, rung))
            except RequestRefused as error:
                if not error.is_about_content or rung == len(_LADDER) - 1:
                    raise
                rung += 1
            else:
                # Remembered only now: a request refused for another reason says nothing about the way it asked.
                self._rung = max(self._rung, rung)
                return _completion(reply)

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncIterator[str]:
        reasoning, length = ReasoningFilter(), 0
        try:
            async with aclosing(self._client.pieces(self._body(messages, max_tokens))) as pieces:
                async for piece in pieces:
                    shown = reasoning.feed(piece)
                    length += len(shown)
                    if length > _LONGEST_ANSWER:
                        raise BadResponse(f"the model {self._model!r} does not stop answering")
                    if shown:
                        yield shown
        except UpstreamError as error:
            if length or not self._renames_tokens(error, max_tokens):
                raise
            async for piece in self.stream(messages, priority=priority, max_tokens=max_tokens):
                yield piece
            return
        rest = reasoning.rest()
        if rest:
            yield rest
        elif not length:
            raise BadResponse(f"the model {self._model!r} streamed no text")

    def _body(self, messages: Sequence[Message], max_tokens: int | None) -> dict[str, Any]:
        sent = [{"role": message.role, "content": message.content} for message in messages]
        ceiling = {} if max_tokens is None else {self._token_field: max_tokens}
        return {"model": self._model, "messages": sent, **self._request, **ceiling}

    async def _send(self, body: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._client.chat(body)
        except UpstreamError as error:
            ceiling = body.get("max_tokens")
            if not self._renames_tokens(error, ceiling):
                raise
        renamed = {name: value for name, value in body.items() if name != "max_tokens"}
        return await self._client.chat(renamed | {self._token_field: ceiling})

    def _renames_tokens(self, error: UpstreamError, ceiling: object) -> bool:
        """Whether the endpoint wants ``max_completion_tokens`` instead. Remembered."""
        refused = isinstance(error, RequestRefused) and "max_tokens" in error.message
        if ceiling is None or not refused or self._token_field != "max_tokens":
            return False
        self._token_field = "max_completion_tokens"
        return True

    async def aclose(self) -> None:
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"OpenAILLMService({self._model!r}, {public_url(self._link.url)!r})"


def chat(prompt: str, system_prompt: str | None, history: Sequence[Mapping[str, str]] | None) -> tuple[Message, ...]:
    """A prompt as the messages of a chat.

    Raises:
        ConfigError: A turn of the history is none.
    """
    turns = [Message("system", system_prompt)] if system_prompt else []
    for turn in history or ():
        match turn:
            case {"role": "system" | "user" | "assistant" as role, "content": str(content)}:
                turns.append(Message(role, content))
            case _:
                raise ConfigError("a turn of the history cannot be used", hint="give role and content")
    return (*turns, Message("user", prompt))


def _response_format(schema: Mapping[str, Any], rung: int) -> dict[str, Any]:
    kind = _LADDER[rung]
    if kind == "json_schema":
        return {"response_format": {"type": kind, "json_schema": {"name": "answer", "schema": schema, "strict": True}}}
    return {"response_format": {"type": kind}} if kind == "json_object" else {}


def _asked_for_json(messages: Sequence[Message], schema: Mapping[str, Any], rung: int) -> Sequence[Message]:
    """The messages, with the schema in words where the endpoint does not take it as data."""
    if _LADDER[rung] == "json_schema":
        return messages
    wish = f"Answer with one JSON object and nothing else. It matches this JSON schema:\n{json.dumps(schema)}"
    return [*messages[:-1], Message(messages[-1].role, f"{messages[-1].content}\n\n{wish}")]


def _completion(reply: Mapping[str, Any]) -> Completion:
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if choice is None or not isinstance(message, Mapping):
        raise BadResponse("the model answered no message")
    finish = str(choice.get("finish_reason") or "stop")
    if finish == "content_filter" or (message.get("refusal") and not message.get("content")):
        raise ContentRefused("the model declined to answer")
    content = message.get("content")
    text = without_reasoning(content[:_LONGEST_ANSWER]) if isinstance(content, str) else ""
    if not text:
        hint = "raise max_tokens or turn its reasoning off" if finish == "length" or content else ""
        raise BadResponse("the model answered no text", hint=hint)
    return Completion(text, finish, _usage(reply))


def _usage(reply: Mapping[str, Any]) -> Usage:
    usage = reply.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return Usage(
        llm_calls=1,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _is_too_large(error: UpstreamError) -> bool:
    """Whether an endpoint may take the same texts in smaller batches."""
    if not isinstance(error, RequestRefused):
        return isinstance(error, ContextTooLong)
    return error.status == 413 or (error.is_about_content and bool(_ABOUT_SIZE.search(error.message)))


class OpenAIEmbeddingService(EmbeddingService):
    """An embedding model behind an OpenAI-compatible endpoint.

    Args:
        model: Name of the model.
        base_url: Address up to and with ``/v1``; ``OPENAI_BASE_URL``, then OpenAI's, if None.
        api_key: The key, or a coroutine function that gives it; ``OPENAI_API_KEY`` if None. A local server needs none.
        embedding_dim: Length of the vectors; anything else that comes back is an error.
        batch_num: Texts in one request; ``EKR_EMBEDDING_BATCH_NUM``, then 16, if None. Halved where the endpoint takes
            fewer.
        max_async: Ceiling of requests at once to this endpoint, for the whole process; ``EKR_EMBEDDING_MAX_ASYNC`` if
            None, and if that is unset it adapts.
        timeout: Seconds for one request; ``EKR_EMBEDDING_TIMEOUT``, then 60, if None.
        http_client: A client for the openai package, passed on untouched; it is yours to close.
        **request: Further fields of each request, such as ``dimensions`` or ``extra_headers``.

    Raises:
        ConfigError: The address is unusable, or OpenAI is to be called without a key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        embedding_dim: int = 1536,
        batch_num: int | None = None,
        max_async: int | None = None,
        timeout: float | None = None,
        *,
        http_client: object | None = None,
        **request: Any,
    ) -> None:
        variables = environment()
        self._model = model
        self._dimension = embedding_dim
        self._batch = batch_num or variables.embedding_batch_num or _BATCH
        seconds = timeout or variables.embedding_timeout or _EMBEDDING_TIMEOUT
        self._link = connection(base_url, api_key, seconds, http_client)
        self._client = OpenAIClient(self._link, model)
        # base64 is a third of the size; only OpenAI's own service is sure to know it.
        encoding = variables.embedding_encoding_format or ("base64" if self._link.is_openai else "float")
        self._request = {"encoding_format": encoding, **request}
        self._limiter = limiter_for("embedding", self._link.url, max_async or variables.embedding_max_async)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._model

    @property
    def embedding_dim(self) -> int:
        return self._dimension

    @property
    def fingerprint(self) -> str:
        return f"openai:{self._model}:{self._dimension}"

    @property
    def batch_num(self) -> int:
        """Texts in one request, as the endpoint takes them by now."""
        return self._batch

    @property
    def limiter(self) -> Limiter:
        """The limiter of its endpoint, shared by every service that calls it."""
        return self._limiter

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        parts = [await self._embed_batch(texts[at : at + self._batch]) for at in range(0, len(texts), self._batch)]
        return np.concatenate(parts) if parts else np.zeros((0, self._dimension), np.float32)

    async def _embed_batch(self, texts: Sequence[str]) -> FloatVectors:
        body = {"model": self._model, "input": list(texts), **self._request}
        try:
            return read_vectors(await self._client.embeddings(body), len(texts), self._dimension)
        except UpstreamError as error:
            if len(texts) == 1 and isinstance(error, ContextTooLong) and len(texts[0]) > _SHORTEST_CUT:
                # One long table must not cost its document: what stands first says what it is about.
                logger.warning("a text of %d characters is too long for %s and is cut", len(texts[0]), self._model)
                return await self._embed_batch([texts[0][: len(texts[0]) // 2]])
            if len(texts) == 1 or not _is_too_large(error):
                raise
            half = len(texts) // 2
            vectors = np.concatenate([await self._embed_batch(texts[:half]), await self._embed_batch(texts[half:])])
        # Remembered only now that the smaller size worked.
        self._batch = min(self._batch, half)
        return vectors

    async def aclose(self) -> None:
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"OpenAIEmbeddingService({self._model!r}, {public_url(self._link.url)!r})"
