"""What a small model on this machine extracts and cites: ``python -m evaluation.smoke_local_model --url URL``.

Talks to any OpenAI-compatible server: reads the three sections of the incident report of the demo, asks three questions
that it answers and one that it does not, and prints what the model wrote, word by word, and what became of it.

Ollama and the llama.cpp server will do, for instance ``llama-server -m model.gguf -c 8192 --host 127.0.0.1 --port 8080``;
without either, ``pip install xllamacpp`` into an environment of its own and run::

    import time, xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = "model.gguf", 8192, 1
    params.hostnames, params.port = ["127.0.0.1"], 8080
    server = xllamacpp.Server(params)
    time.sleep(3600)

Replies are recorded; a second run with the same file asks the model for nothing it was asked before.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.resources
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam, QueryResult
from easy_knowledge_retriever.llm.base import Completion, Message, Priority
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.operations.extraction_format import parse_extraction
from easy_knowledge_retriever.testing.recording import recorded
from easy_knowledge_retriever.testing.server import CHAT, OpenAITestServer

__all__ = ["QUESTIONS", "main", "replies_in"]

QUESTIONS = (
    "Why was the vent of the annex closed?",
    "What did the oxygen meter of Jonas Peel show?",
    "Who closed the annex for the rest of the night?",
    "What does a refill of nitrogen cost?",
)
"""The report says nothing about the last one."""


def replies_in(file: Path) -> list[str]:
    """The texts of the chats in a recording, in the order in which they were paid for."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [row["reply"]["choices"][0]["message"]["content"] for row in rows if row["path"] == CHAT]


class _Heard(OpenAILLMService):
    """Remembers what the model said, recorded before or not."""

    heard: tuple[str, ...] = ()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        completion = await super().complete(messages, priority=priority, max_tokens=max_tokens, json_schema=json_schema)
        self.heard = (*self.heard, completion.text)
        return completion


async def run(options: argparse.Namespace) -> None:
    """Asks the model by way of a recording proxy, and prints what came of it."""
    began = time.monotonic()
    report = importlib.resources.files("easy_knowledge_retriever.cli.data").joinpath("incident_report.md")
    async with OpenAITestServer(recorded(options.record, options.url, timeout=options.timeout)) as proxy:
        service = _Heard(
            options.model,
            proxy.base_url,
            temperature=0.0,
            max_async=1,
            timeout=options.timeout,
            max_tokens=options.max_tokens,
            frequency_penalty=options.frequency_penalty,
        )
        with tempfile.TemporaryDirectory() as folder, importlib.resources.as_file(report) as path:
            async with EasyKnowledgeRetriever(
                folder, llm_service=service, entity_extract_max_gleaning=0, chunk_token_size=80, chunk_overlap_token_size=0
            ) as rag:
                ingested = await rag.ingest(path, name=path.name)
                _show_extraction(service.heard)
                print(f"warnings: {list(ingested.warnings)}; failed chunks: {len(ingested.failed_chunks)}\n")
                for question in QUESTIONS:
                    _show_answer(await rag.aquery(question, QueryParam(mode="naive", chunk_top_k=2)))
    print(f"{len(replies_in(options.record))} replies, {time.monotonic() - began:.0f} s")


def _show_extraction(replies: Sequence[str]) -> None:
    for reply in replies:
        parsed = parse_extraction(reply)
        print(f"```text\n{reply.strip()}\n```\n")
        counts = f"{len(parsed.entities)} entities, {len(parsed.relations)} relations"
        print(f"{counts}, {parsed.rejected} lines that are no records, end mark {'there' if parsed.ended else 'missing'}\n")


def _show_answer(result: QueryResult) -> None:
    shown = [f"[{c.passage}] {'supported' if c.supported else 'NOT supported'}: {c.quote!r}" for c in result.citations]
    state = "refused" if result.refused else "; ".join(shown) or "cites nothing"
    print(f"{result.query}\n\n    {result.content}\n\n{state}; warnings: {result.metadata.get('warnings')}\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080/v1", help="base URL of the server")
    parser.add_argument("--model", default="local", help="name of the model, where the server has several")
    parser.add_argument("--record", type=Path, default=Path("smoke_local_model.jsonl"), help="file of the replies")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one request")
    parser.add_argument("--max-tokens", type=int, default=300, help="of one reply")
    parser.add_argument("--frequency-penalty", type=float, default=0.0, help="keeps a model from saying the same for ever")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
