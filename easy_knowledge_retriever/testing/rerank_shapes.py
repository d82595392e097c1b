"""The rerank routes of the test server: each takes its own shape only, and answers in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["PATHS", "SHAPES", "Refusal"]

PATHS: Mapping[str, str] = {
    "jina": "/v1/rerank",
    "cohere": "/v2/rerank",
    "vllm": "/vllm/v1/rerank",
    "tei": "/rerank",
    "dashscope": "/api/v1/services/rerank/text-rerank/text-rerank",
    "voyage": "/voyage/v1/rerank",
}
"""Path of each shape."""


class Refusal(ValueError):
    """A request in another shape than the route takes.

    Args:
        status: HTTP status.
        message: What is wrong.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _scores(query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
    """Index and share of the question's words that a text has, best first."""
    wanted = set(re.findall(r"\w+", query.lower()))
    shares = [len(wanted.intersection(re.findall(r"\w+", text.lower()))) / max(len(wanted), 1) for text in documents]
    return sorted(enumerate(shares), key=lambda row: -row[1])


def _texts(body: Mapping[str, Any], name: str, status: int = 422) -> list[str]:
    texts = body.get(name)
    if not isinstance(texts, list) or not isinstance(body.get("query"), str):
        raise Refusal(status, f"missing field `{name}`")
    return [text.get("text", "") if isinstance(text, dict) else str(text) for text in texts]


def _rows(body: Mapping[str, Any], documents: Sequence[str], most: object) -> list[dict[str, Any]]:
    rows = [{"index": index, "relevance_score": score} for index, score in _scores(body["query"], documents)]
    return rows[: most if isinstance(most, int) else len(rows)]


def _jina(body: Mapping[str, Any]) -> object:
    rows = _rows(body, _texts(body, "documents"), body.get("top_n"))
    return {"model": body.get("model"), "usage": {"total_tokens": 1}, "results": rows}


def _cohere(body: Mapping[str, Any]) -> object:
    rows = _rows(body, _texts(body, "documents", 400), body.get("top_n"))
    return {"id": "rerank-1", "results": rows, "meta": {"api_version": {"version": "2"}}}


def _vllm(body: Mapping[str, Any]) -> object:
    documents = _texts(body, "documents", 400)
    rows = [row | {"document": {"text": documents[row["index"]]}} for row in _rows(body, documents, body.get("top_n"))]
    return {"id": "rerank-1", "model": body.get("model"), "usage": {"total_tokens": 1}, "results": rows}


def _tei(body: Mapping[str, Any]) -> object:
    return [{"index": index, "score": score} for index, score in _scores(body.get("query", ""), _texts(body, "texts"))]


def _dashscope(body: Mapping[str, Any]) -> object:
    asked = body.get("input")
    if not isinstance(asked, dict):
        raise Refusal(400, "Required body invalid, please check the request body format.")
    most = body.get("parameters", {}).get("top_n")
    return {"output": {"results": _rows(asked, _texts(asked, "documents", 400), most)}, "usage": {"total_tokens": 1}}


def _voyage(body: Mapping[str, Any]) -> object:
    if "top_n" in body:
        raise Refusal(400, "Argument 'top_n' is not supported by our API")
    rows = _rows(body, _texts(body, "documents", 400), body.get("top_k"))
    return {"object": "list", "data": rows, "model": body.get("model"), "usage": {"total_tokens": 1}}


SHAPES: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "jina": _jina,
    "cohere": _cohere,
    "vllm": _vllm,
    "tei": _tei,
    "dashscope": _dashscope,
    "voyage": _voyage,
}
"""What answers a request in each shape."""
