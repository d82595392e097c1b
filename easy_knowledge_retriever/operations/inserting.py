"""Texts that a caller hands over, as documents."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.parsing.reading import text_document
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import Document, Metadata, PageSpan

__all__ = ["InsertedText", "inserted_documents"]

InsertedText = str | Mapping[str, Any]
"""A text, or ``{"content": …, "pages": …}``."""


def inserted_documents(
    input: InsertedText | Sequence[InsertedText],
    ids: str | Sequence[str] | None,
    names: str | Sequence[str] | None,
    collection: str,
    metadata: Metadata,
) -> list[Document]:
    """A document for each text, in order. Texts of the same content and id are one document.

    The id of a text is the caller's, or stands for its name, or for the text itself where it has no name.

    Args:
        input: One text or several. ``pages`` is a list of page texts whose concatenation is ``content``, or of
            ``{"page": 1-based, "start": offset, "end": offset}``.
        ids: An id a text.
        names: A name a text.
        collection: The collection they belong to.
        metadata: What a filter may ask for.

    Raises:
        ConfigError: A text is empty or no text, the numbers differ, or pages do not fit their text.
    """
    texts = [input] if isinstance(input, (str, Mapping)) else list(input)
    given_ids = _one_each("ids", ids, len(texts))
    given_names = _one_each("file_paths", names, len(texts))
    documents: dict[str, Document] = {}
    for position, (text, given_id, name) in enumerate(zip(texts, given_ids, given_names, strict=True)):
        document = _document(position, text, given_id, name, collection, metadata)
        other = documents.setdefault(document.id, document)
        if other.digest != document.digest:
            raise ConfigError(f"two different texts have the id {document.id!r}", hint="give each its own id or name")
    return list(documents.values())


def _one_each(what: str, values: str | Sequence[str] | None, count: int) -> list[str]:
    if values is None:
        return [""] * count
    listed = [values] if isinstance(values, str) else list(values)
    if len(listed) != count:
        raise ConfigError(f"{what} has {len(listed)} entries for {count} texts", hint="give one a text, or none at all")
    return listed


def _document(position: int, given: InsertedText, identity: str, name: str, collection: str, metadata: Metadata) -> Document:
    text = given.get("content") if isinstance(given, Mapping) else given
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"text {position} is empty or no text", hint="give a str, or an object with 'content'")
    pages = _pages(position, text, given.get("pages") if isinstance(given, Mapping) else None)
    document = text_document(text, name=name, collection=collection, document_id=identity, metadata=metadata, pages=pages)
    return replace(document, digest=digest(f"{document.text}\0{pages}")) if pages else document


def _pages(position: int, text: str, given: object) -> tuple[PageSpan, ...]:
    if given is None:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise _misfit(position, "is no list")
    if all(isinstance(page, str) for page in given):
        if "".join(given) != text:
            raise _misfit(position, "do not make up its content")
        ends = itertools.accumulate(map(len, given))
        return tuple(PageSpan(n + 1, end - len(page), end) for n, (page, end) in enumerate(zip(given, ends, strict=True)))
    spans = tuple(_span(position, page) for page in given)
    numbers = [span.page for span in spans]
    if numbers != sorted(numbers) or min(numbers, default=1) < 1:
        raise _misfit(position, f"are numbered {numbers!r}")
    return spans


def _span(position: int, page: object) -> PageSpan:
    if isinstance(page, PageSpan):
        return page
    if isinstance(page, Mapping) and all(isinstance(page.get(key), int) for key in ("page", "start", "end")):
        return PageSpan(page["page"], page["start"], page["end"])
    raise _misfit(position, f"hold {page!r}")


def _misfit(position: int, what: str) -> ConfigError:
    return ConfigError(
        f"the pages of text {position} {what}",
        hint="a list of page texts, or of {'page': 1-based, 'start': offset, 'end': offset} in order",
    )
