"""Language and embedding models behind an OpenAI-compatible endpoint.

A service sends each request once. Budget, cache, retry and limit are wrappers around it, see ``llm.stack``; calling the
language service directly, ``await service(prompt)``, goes through retry and limit.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np

from easy_knowledge_retriever.endpoints.faults import OutOfRoom, RequestRefused, public_url
from easy_knowledge_retriever.endpoints.features import Features, features_of
from easy_knowledge_retriever.endpoints.limiter import Limiter, limiter_for
from easy_knowledge_retriever.errors import BadResponse, ConfigError, ContentRefused, ContextTooLong, UpstreamError
from easy_knowledge_retriever.llm.adapting import Sending, adapted, learn, merged
from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, Ending, InputType, LLMService, Message, Priority
from easy_knowledge_retriever.llm.chat_reply import (
    LONGEST_ANSWER,
    embedding_usage_of,
    read_reply,
    shows_reasoning,
    storable,
    usage_of,
)
from easy_knowledge_retriever.llm.json_mode import LAST_RUNG, asked_for_json, ignored_json, response_format
from easy_knowledge_retriever.llm.openai_client import ApiKey, OpenAIClient, connection
from easy_knowledge_retriever.llm.reasoning import ReasoningFilter
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.llm.vectors import read_vectors
from easy_knowledge_retriever.settings import environment
from easy_knowledge_retriever.spending.account import note_usage
from easy_knowledge_retriever.types import FloatVectors, Usage

__all__ = ["OpenAIEmbeddingService", "OpenAILLMService"]

logger = logging.getLogger("easy_knowledge_retriever")

_LLM_TIMEOUT = 60.0
_EMBEDDING_TIMEOUT = 60.0
_BATCH = 16
_BYTES_A_NUMBER = 32
"""Longest spelling of one number of a vector, with its separator."""
_SHORTEST_CUT = 200
"""Characters. A text this short is not cut for a model that calls it too long."""
_ABOUT_SIZE = re.compile(r"batch|inputs|array|at most|too (?:many|large|long)|maximum|limit", re.IGNORECASE)


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
        summary_max_tokens: A description of more tokens is summarised, and a summary is cut to so many. At most half of
            ``summary_context_size``.
        summary_context_size: Tokens of descriptions in one request; more are summarised in groups, and the summaries again.
        summary_length_recommended: Tokens a summary is asked to have.
        force_llm_summary_on_merge: So many distinct descriptions call for a summary. The argument of the same name of
            ``EasyKnowledgeRetriever`` goes before it, where it is not left at its default.
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
        self._link = connection(
            base_url,
            api_key,
            timeout or variables.llm_timeout or _LLM_TIMEOUT,
            http_client,
            model=model,
            headers=request.pop("extra_headers", None),
            query=request.pop("extra_query", None),
        )
        self._client = OpenAIClient(self._link, model)
        self._request = {"temperature": temperature, **request}
        self._limiter = limiter_for("llm", self._link.url, max_async or variables.max_async)
        self._features = features_of("llm", self._link.url, model)
        self._where = f"{model} at {public_url(self._link.url)}"
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
    def features(self) -> Features:
        """What is known of the model at its endpoint, shared by every service that calls it."""
        return self._features

    @property
    def identity(self) -> str:
        """What an answer depends on besides the messages: model, address and parameters. Holds no key."""
        parameters = json.dumps(self._request, sort_keys=True, default=repr)
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
            return await self._answered(self._body(messages, max_tokens, priority))
        spent = Usage()
        rung = self._features.json_rung
        while True:
            asked = self._body(asked_for_json(messages, json_schema, rung), max_tokens, priority)
            try:
                completion = await self._answered(asked | response_format(json_schema, rung))
            except RequestRefused as error:
                if not error.is_about_content or rung == LAST_RUNG:
                    raise
                rung += 1
                continue
            if rung == LAST_RUNG or not ignored_json(completion):
                break
            # It passed over the wish without a word, so it will pass over the next one too: only words are left.
            spent += completion.usage
            rung = LAST_RUNG
        # Remembered only now: a request refused for another reason says nothing about the way it asked.
        self._features.json_rung = max(self._features.json_rung, rung)
        return replace(completion, usage=completion.usage + spent)

    async def stream(
        self, messages: Sequence[Message], *, priority: Priority = "query", max_tokens: int | None = None
    ) -> AsyncGenerator[str]:
        counted = {"stream_options": {"include_usage": True}} if self._features.counts_streams else {}
        sending, begun, spent = Sending(counted | self._body(messages, max_tokens, priority)), False, Usage()
        while True:
            try:
                async with aclosing(self._shown(sending.body)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield Ending(piece.usage + spent, piece.finish_reason) if isinstance(piece, Ending) else piece
            except UpstreamError as error:
                changed = None if begun else adapted(sending, error, self._features)
                if changed is None:
                    raise
                spent += error.usage if isinstance(error, OutOfRoom) else Usage()
                sending = changed
            else:
                learn(sending, self._features, self._where)
                return

    async def _shown(self, body: Mapping[str, Any]) -> AsyncGenerator[str]:
        """What may be shown of one streamed answer, and its ending.

        Raises:
            UpstreamError: It failed, was declined, holds no text, or does not end.
        """
        reasoning, length, thought, finish, refused = ReasoningFilter(), 0, 0, "", False
        usage = Usage(llm_calls=1)
        async with aclosing(self._client.pieces(body)) as pieces:
            async for piece in pieces:
                shown = reasoning.feed(storable(piece.text))
                length, thought = length + len(shown), thought + len(piece.text) - len(shown) + piece.reasoning
                refused, finish = refused or piece.refusal, piece.finish or finish
                usage = usage_of({"usage": piece.usage}) if piece.usage else usage
                if max(length, thought) > LONGEST_ANSWER:
                    raise BadResponse(f"the model {self._model!r} does not stop answering")
                if shown:
                    yield shown
        rest = reasoning.rest()
        if rest:
            yield rest
        if finish == "content_filter" or (refused and not length):
            raise ContentRefused(f"the model {self._model!r} declined to answer")
        if not length and not rest:
            if finish == "length":
                thinking: Literal["shown", "no"] = "shown" if thought else "no"
                raise OutOfRoom(f"the model {self._model!r} streamed no text", usage=usage, thought=thinking)
            raise BadResponse(f"the model {self._model!r} streamed no text")
        yield Ending(usage, finish)

    def _body(self, messages: Sequence[Message], max_tokens: int | None, priority: Priority) -> dict[str, Any]:
        known = self._features
        sent = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, Any] = {"model": self._model, "messages": sent, **self._request}
        room = max_tokens if max_tokens is not None else known.room
        if room is not None:
            body[known.token_field] = room
        if known.fixed_temperature:
            body.pop("temperature", None)
        # A question may be worth the reasoning; reading chunks is not, once it left nothing for the answer.
        return merged(body, known.without_thinking) if known.without_thinking and priority == "ingest" else body

    async def _answered(self, body: Mapping[str, Any]) -> Completion:
        """The answer to a request, which is changed as the endpoint wants it. What each try cost is counted."""
        sending, spent = Sending(body), Usage()
        while True:
            try:
                reply = await self._client.chat(sending.body)
                note_usage(usage_of(reply))  # now: an answer that is of no use is on the bill all the same
                self._features.thinks |= shows_reasoning(reply)
                completion = read_reply(reply)
            except UpstreamError as error:
                changed = adapted(sending, error, self._features)
                if changed is None:
                    raise
                spent += error.usage if isinstance(error, OutOfRoom) else Usage()
                sending = changed
            else:
                learn(sending, self._features, self._where)
                return replace(completion, usage=completion.usage + spent)

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
        self._link = connection(
            base_url,
            api_key,
            timeout or variables.embedding_timeout or _EMBEDDING_TIMEOUT,
            http_client,
            model=model,
            headers=request.pop("extra_headers", None),
            query=request.pop("extra_query", None),
        )
        self._client = OpenAIClient(self._link, model)
        # base64 is a third of the size; only OpenAI's own service is sure to know it.
        self._encoding = variables.embedding_encoding_format or ("base64" if self._link.is_openai else "float")
        self._request = request
        self._features = features_of("embedding", self._link.url, model)
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
        known = self._features.batch
        return self._batch if known is None else min(self._batch, known)

    @property
    def features(self) -> Features:
        """What is known of the model at its endpoint, shared by every service that calls it."""
        return self._features

    @property
    def limiter(self) -> Limiter:
        """The limiter of its endpoint, shared by every service that calls it."""
        return self._limiter

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        parts: list[FloatVectors] = []
        cut: list[int] = []
        done = 0
        while done < len(texts):
            batch = texts[done : done + self.batch_num]
            parts.append(await self._embed_batch(batch, cut))
            done += len(batch)
        if cut:
            longest = max(cut)
            logger.warning(
                "%d of %d texts, the longest of %d characters, are too long for %s and are cut",
                *(len(cut), len(texts), longest, self._model),
            )
        return np.concatenate(parts) if parts else np.zeros((0, self._dimension), np.float32)

    async def _embed_batch(self, texts: Sequence[str], cut: list[int]) -> FloatVectors:
        """The vectors of some texts; the lengths of those that had to be cut are added to ``cut``."""
        try:
            return await self._vectors(texts)
        except UpstreamError as error:
            if len(texts) == 1 and isinstance(error, ContextTooLong) and len(texts[0]) > _SHORTEST_CUT:
                # One long table must not cost its document: what stands first says what it is about.
                vectors = await self._embed_cut(texts[0][: len(texts[0]) // 2])
                cut.append(len(texts[0]))
                return vectors
            if len(texts) == 1 or not _is_too_large(error):
                raise
            half = len(texts) // 2
            vectors = np.concatenate([await self._embed_batch(texts[:half], cut), await self._embed_batch(texts[half:], cut)])
        # Remembered only now that the smaller size worked.
        self._features.batch = min(self.batch_num, half)
        return vectors

    async def _embed_cut(self, text: str) -> FloatVectors:
        while True:
            try:
                return await self._vectors([text])
            except ContextTooLong:
                if len(text) <= _SHORTEST_CUT:
                    raise
                text = text[: len(text) // 2]

    async def _vectors(self, texts: Sequence[str]) -> FloatVectors:
        encoding = self._features.encoding or self._encoding
        body = {"model": self._model, "input": list(texts), "encoding_format": encoding, **self._request}
        longest = LONGEST_ANSWER + len(texts) * self._dimension * _BYTES_A_NUMBER
        try:
            reply = await self._client.embeddings(body, longest)
        except RequestRefused as error:
            if encoding == "float" or "encoding" not in error.message:
                raise
            self._features.encoding = "float"
            return await self._vectors(texts)
        note_usage(embedding_usage_of(reply))
        return read_vectors(reply, len(texts), self._dimension)

    async def aclose(self) -> None:
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"OpenAIEmbeddingService({self._model!r}, {public_url(self._link.url)!r})"
