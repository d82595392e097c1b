"""Rerankers behind a ``/rerank`` address, in the request shapes that servers know."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from easy_knowledge_retriever.endpoints.faults import RequestRefused, check_url, public_url
from easy_knowledge_retriever.endpoints.features import Features, features_of
from easy_knowledge_retriever.endpoints.http import HttpClient
from easy_knowledge_retriever.endpoints.limiter import Limiter, limiter_for
from easy_knowledge_retriever.errors import BadResponse, ContextTooLong, UpstreamError
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.spending.account import note_usage
from easy_knowledge_retriever.types import Usage

__all__ = ["OpenAIRerankerService", "Style"]

logger = logging.getLogger("easy_knowledge_retriever")

Style = Literal["auto", "jina", "tei", "dashscope", "voyage"]
"""Shape of a request. ``jina`` is also that of Cohere, vLLM and most gateways."""

_STYLES = ("jina", "tei", "dashscope", "voyage")
_HOSTS = (("dashscope", "dashscope"), ("voyageai", "voyage"))
_TIMEOUT = 30.0
_BATCH = 64
_SHORTEST_CUT = 200
"""Characters. Texts this short are not cut for a model that calls them too long."""
_ABOUT_SIZE = re.compile(r"batch|at most|too (?:many|large)|maximum", re.IGNORECASE)


class OpenAIRerankerService(RerankerService):
    """A reranker behind a full ``/rerank`` address.

    The request shape is found out with the first request and remembered; the answers of all servers are read alike.

    Args:
        model: Name of the model.
        base_url: The whole address, such as ``http://localhost:8000/v1/rerank``.
        api_key: The key; a local server needs none.
        style: Shape of the request; ``auto`` finds out.
        batch_num: Texts in one request. Halved where the endpoint takes fewer.
        max_async: Ceiling of requests at once to this endpoint, for the whole process; it adapts if None.
        timeout: Seconds for one request.
        extra_headers: Sent with each request, such as the ``api-key`` of a gateway.
        extra_body: Further fields of each request.

    Raises:
        ConfigError: The address is unusable.
    """

    def __init__(  # noqa: PLR0913 - one keyword a property of the endpoint
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        *,
        style: Style = "auto",
        batch_num: int = _BATCH,
        max_async: int | None = None,
        timeout: float = _TIMEOUT,
        extra_headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        self._model = model
        self._url = check_url(base_url)
        self._style = style
        self._batch = batch_num
        self._body = dict(extra_body or {})
        headers = ({"Authorization": f"Bearer {api_key}"} if api_key else {}) | dict(extra_headers or {})
        secrets = tuple(value.rpartition(" ")[2] for value in headers.values() if value)
        self._http = HttpClient(self._url, headers, timeout, secrets)
        self._features = features_of("rerank", self._url, model)
        self._where = f"the reranker {model!r} at {public_url(self._url)}"
        self._limiter = limiter_for("rerank", self._url, max_async)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._model

    @property
    def limiter(self) -> Limiter:
        """The limiter of its endpoint, shared by every service that calls it."""
        return self._limiter

    @property
    def features(self) -> Features:
        """What is known of the model at its address, shared by every service that calls it."""
        return self._features

    async def rerank(self, query: str, documents: Sequence[str], top_n: int | None = None) -> list[dict[str, Any]]:
        """``{"index", "relevance_score"}`` of the best documents, best first; equal scores keep the order given.

        Args:
            query: The question.
            documents: The texts.
            top_n: How many to give; all if None.

        Raises:
            UpstreamError: The endpoint failed.
        """
        scores = await reranker_stack(self).scores(query, documents)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [{"index": index, "relevance_score": scores[index]} for index in order[:top_n]]

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        scores: list[float] = []
        while len(scores) < len(texts):
            batch = texts[len(scores) : len(scores) + min(self._batch, self._features.batch or self._batch)]
            scores += await self._score_batch(query, batch)
        return scores

    async def _score_batch(self, query: str, texts: Sequence[str]) -> list[float]:
        most = self._features.longest_text
        texts = texts if most is None else [text[:most] for text in texts]
        try:
            return await self._in_some_style(query, texts)
        except ContextTooLong:
            longest = max(map(len, texts)) // 2
            if longest < _SHORTEST_CUT:
                raise
        except RequestRefused as error:
            if len(texts) == 1 or not _is_too_large(error):
                raise
            return await self._in_halves(query, texts)
        logger.warning("texts of more than %d characters are too long for %s and are cut", longest, self._where)
        self._features.longest_text = longest
        return await self._score_batch(query, texts)

    async def _in_halves(self, query: str, texts: Sequence[str]) -> list[float]:
        half = len(texts) // 2
        scores = await self._score_batch(query, texts[:half]) + await self._score_batch(query, texts[half:])
        # Remembered only now that the smaller size worked.
        self._features.batch = min(self._features.batch or half, half)
        return scores

    async def _in_some_style(self, query: str, texts: Sequence[str]) -> list[float]:
        """The scores in the first request shape that the endpoint takes, which is kept for the next time."""
        first_refusal: RequestRefused | None = None
        for style in self._styles():
            body = _body(style, self._model, query, texts) | self._body
            try:
                scores = _read_scores(await self._post(body), len(texts))
            except RequestRefused as error:
                if _is_too_large(error) or not error.is_about_content:
                    raise
                first_refusal = first_refusal or error
            else:
                self._features.style = style
                return scores
        raise first_refusal or BadResponse(f"{self._where} knows no request of ours")

    def _styles(self) -> tuple[str, ...]:
        """Request shapes, in the order in which they are tried."""
        if self._style != "auto":
            return (self._style,)
        return (self._features.style,) if self._features.style else _likely_styles(self._url)

    async def _post(self, body: Mapping[str, object]) -> object:
        reply = await self._http.post(body, self._where)
        if not 200 <= reply.status < 300:
            raise self._http.failure(reply, self._where)
        note_usage(Usage(rerank_calls=1))
        try:
            return json.loads(reply.text)
        except ValueError as cause:
            raise BadResponse(f"{self._where} did not answer JSON") from cause

    async def aclose(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"OpenAIRerankerService({self._model!r}, {public_url(self._url)!r})"


def _likely_styles(url: str) -> tuple[str, ...]:
    host = urlsplit(url).hostname or ""
    first = next((style for part, style in _HOSTS if part in host), _STYLES[0])
    return (first, *(style for style in _STYLES if style != first))


def _is_too_large(error: UpstreamError) -> bool:
    return isinstance(error, RequestRefused) and (error.status == 413 or bool(_ABOUT_SIZE.search(error.message)))


def _body(style: str, model: str, query: str, texts: Sequence[str]) -> dict[str, object]:
    documents, count = list(texts), len(texts)
    match style:
        case "tei":
            return {"query": query, "texts": documents, "truncate": True}
        case "dashscope":
            parameters = {"top_n": count, "return_documents": False}
            return {"model": model, "input": {"query": query, "documents": documents}, "parameters": parameters}
        case "voyage":
            return {"model": model, "query": query, "documents": documents, "top_k": count}
        case _:
            return {"model": model, "query": query, "documents": documents, "top_n": count}


def _read_scores(reply: object, count: int) -> list[float]:
    """A score a text from any of the answer shapes, in the order of the texts. One that is left out comes last."""
    found: dict[int, float] = {}
    for row in _rows(reply):
        index, score = row.get("index"), row.get("relevance_score", row.get("score"))
        if not isinstance(index, int) or not 0 <= index < count or index in found:
            raise BadResponse(f"the reranker answered the index {index!r} for {count} texts")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise BadResponse(f"the reranker answered the score {score!r}")
        found[index] = float(score)
    if not found and count:
        raise BadResponse(f"the reranker answered no score for {count} texts")
    below = math.nextafter(min(found.values(), default=0.0), -math.inf)
    return [found.get(index, below) for index in range(count)]


def _rows(reply: object) -> Sequence[Mapping[str, Any]]:
    if isinstance(reply, Mapping):
        output = reply.get("output")
        inner = output.get("results") if isinstance(output, Mapping) else None
        reply = next((rows for rows in (reply.get("results"), reply.get("data"), inner) if isinstance(rows, list)), None)
    if not isinstance(reply, list) or not all(isinstance(row, Mapping) for row in reply):
        raise BadResponse("the reranker answered no list of scores")
    return reply
