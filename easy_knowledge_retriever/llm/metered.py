"""The wrappers right around a service: each request is paid."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from easy_knowledge_retriever.llm.base import Completion, EmbeddingService, Ending, InputType, LLMService
from easy_knowledge_retriever.llm.wrappers import EmbeddingWrapper, LLMWrapper, Request
from easy_knowledge_retriever.spending.account import account_in_force
from easy_knowledge_retriever.spending.meter import Meter
from easy_knowledge_retriever.types import FloatVectors

__all__ = ["KeptEmbedding", "MeteredEmbedding", "MeteredLLM"]


class MeteredLLM(LLMWrapper):
    """Sends no request that would pass a ceiling, and has each paid."""

    def __init__(self, service: LLMService, meter: Meter) -> None:
        super().__init__(service)
        self.meter = meter

    async def _complete(self, request: Request) -> Completion:
        async with self.meter.request(_texts(request), request.max_tokens) as bill:
            with bill.listening():
                completion = await request.complete(self.service)
            bill.usage = bill.usage or completion.usage
            bill.answer.append(completion.text)
            bill.cached = completion.cached
            return completion

    async def _stream(self, request: Request) -> AsyncGenerator[str]:
        async with self.meter.request(_texts(request), request.max_tokens, ends_soon=False) as bill:
            async with aclosing(request.stream(self.service)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Ending):
                        bill.usage, bill.cached = piece.usage, piece.cached
                    bill.answer.append(piece)
                    yield piece


class MeteredEmbedding(EmbeddingWrapper):
    """Sends no request that would pass a ceiling, and has each paid."""

    def __init__(self, service: EmbeddingService, meter: Meter) -> None:
        super().__init__(service)
        self.meter = meter

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        async with self.meter.request(texts) as bill:
            with bill.listening():
                return await super().embed(texts, input_type)


class KeptEmbedding(EmbeddingWrapper):
    """Keeps the vectors of a document with its account, and asks for none that were paid for in an earlier attempt."""

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        account = account_in_force()
        kept = account.vectors if account is not None and input_type == "document" else None
        if kept is None or not texts:
            return await super().embed(texts, input_type)
        keys = [kept.key(self.fingerprint, text) for text in texts]
        missing = kept.missing(keys)
        if missing:
            vectors = await super().embed([texts[place] for place in missing], input_type)
            kept.keep([keys[place] for place in missing], vectors)
        return kept.all(keys)


def _texts(request: Request) -> list[str]:
    schema = [json.dumps(request.json_schema)] if request.json_schema is not None else []
    return [*(message.content for message in request.messages), *schema]
