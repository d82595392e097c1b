"""Replies of a real endpoint, kept in a file and given again: tests that need no key, no network and no luck."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easy_knowledge_retriever.endpoints.http import HttpClient
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["Recording", "recorded"]

_NOT_PART_OF_IT = frozenset({"stream", "stream_options"})
"""How an answer is sent changes nothing about it."""
_LONGEST = 256 * 1024 * 1024


class Recording:
    """Answers from a file of JSON lines, one a request: its digest, path, model and reply; no header and no question.

    What the file does not hold is asked of the real endpoint, if one is named, and added; else it is refused.

    Args:
        path: The file; it need not be there if there is an endpoint.
        upstream: Base URL of the real endpoint, up to and with ``/v1``.
        api_key: Its key. It is never written.
        timeout: Seconds for one request to it.
    """

    def __init__(
        self, path: str | Path, upstream: str | None = None, *, api_key: str | None = None, timeout: float = 300.0
    ) -> None:
        self._path = Path(path)
        self._upstream = upstream.rstrip("/") if upstream else None
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._secrets = (api_key,) if api_key else ()
        self._timeout = timeout
        self._clients: dict[str, HttpClient] = {}
        self._replies: dict[str, Any] = {}
        if self._path.exists() or upstream is None:
            with self._path.open(encoding="utf-8") as lines:
                self._replies = {row["digest"]: row["reply"] for row in map(json.loads, lines)}

    def __len__(self) -> int:
        return len(self._replies)

    async def reply(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        """Status and JSON of the answer to a request.

        Args:
            path: Of the test server, such as ``/v1/embeddings``.
            body: The request.
        """
        asked = {name: value for name, value in body.items() if name not in _NOT_PART_OF_IT}
        key = digest(json.dumps([path, asked], sort_keys=True))
        if key in self._replies:
            return 200, self._replies[key]
        if self._upstream is None:
            message = f"{self._path.name} holds no reply to this request to {path} (digest {key})"
            return 404, {"error": {"message": message, "type": "not_recorded"}}
        status, reply = await self._forwarded(path, asked)
        if status == 200:
            self._keep(key, path, asked, reply)
        return status, reply

    async def _forwarded(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        url = f"{self._upstream}{path.removeprefix('/v1')}"
        client = self._clients.setdefault(url, HttpClient(url, self._headers, self._timeout, self._secrets, _LONGEST))
        answer = await client.post(body, url)
        try:
            reply = json.loads(answer.text)
        except ValueError:
            reply = None
        if answer.status == 200 and reply is not None:
            return 200, reply
        failure = client.failure(answer, url)
        return max(answer.status, 400), {"error": {"message": str(failure), "type": "upstream"}}

    def _keep(self, key: str, path: str, body: Mapping[str, Any], reply: object) -> None:
        self._replies[key] = reply
        self._path.parent.mkdir(parents=True, exist_ok=True)
        row = {"digest": key, "path": path, "model": body.get("model"), "reply": reply}
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")

    async def aclose(self) -> None:
        """Closes its connections to the real endpoint."""
        while self._clients:
            await self._clients.popitem()[1].aclose()


def recorded(path: str | Path, upstream: str | None = None, *, api_key: str | None = None, timeout: float = 300.0) -> Recording:
    """Replies kept in a file, for ``OpenAITestServer(recorded("replies.jsonl"))``.

    Args:
        path: The file.
        upstream: Base URL of the real endpoint to ask for what the file does not hold; None: nothing else is asked.
        api_key: Its key.
        timeout: Seconds for one request to it.

    Raises:
        FileNotFoundError: There is no such file, and nobody to ask.
    """
    return Recording(path, upstream, api_key=api_key, timeout=timeout)
