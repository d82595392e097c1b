"""The parses a base keeps: of each version that is served, and of one on its way in that took long."""

from __future__ import annotations

from collections.abc import Iterable

from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.types import Document

__all__ = ["drop_parses", "parse_key", "parse_of"]


def parse_key(digest: str, parser: str) -> str:
    """Key of the parse of one content by one parser."""
    return f"{digest}/{parser}"


async def parse_of(kb: KnowledgeBase, digest: str, parser: str) -> Document | None:
    """The parse of one content by one parser. One without text points at the document of its id, which holds the rest."""
    key = parse_key(digest, parser)
    return (await kb.parses.get_many([key])).get(key)


async def drop_parses(kb: KnowledgeBase, document_id: str, versions: Iterable[str]) -> None:
    """Drops the parses of versions a document neither has nor waits for any more, where they are not another document's."""
    for version in {*versions} - {""}:
        keys = [key async for key, parse in kb.parses.scan(parse_key(version, "")) if parse.id == document_id]
        await kb.parses.delete_many(keys)
