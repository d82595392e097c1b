"""Documents, their versions, chunks and texts: I1, I13, I14, I20."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from easy_knowledge_retriever.ingestion.verification.findings import Finding, differing
from easy_knowledge_retriever.ingestion.verification.state import State
from easy_knowledge_retriever.types import DocStatus

__all__ = ["check_documents", "check_texts"]


def check_documents(state: State) -> Iterator[Finding]:
    """I1, I13 and I14."""
    listed = Counter(chunk_id for ids in state.manifests.values() for chunk_id in ids)
    for key, chunk in state.chunks.items():
        record = state.records.get(chunk.document_id)
        if record is None or record.version != chunk.version:
            yield Finding("I1", key, f"its version {chunk.version!r} of {chunk.document_id!r} is not live")
        if listed[key] != 1:
            yield Finding("I1", key, f"it is listed {listed[key]} times by the documents")
    yield from differing("I1", "manifest", state.manifests, state.documents)
    live = {key for key, record in state.records.items() if record.version}
    yield from differing("I1", "live version", live, state.documents)
    for key in state.records:
        yield from _counts(state, key)
        yield from _order(state, key, state.manifests.get(key, ()))


def _counts(state: State, document_id: str) -> Iterator[Finding]:
    record, document = state.records[document_id], state.documents.get(document_id)
    chunks = len(state.manifests.get(document_id, ()))
    if chunks != record.chunk_count:
        yield Finding("I13", document_id, f"the status counts {record.chunk_count} chunks, there are {chunks}")
    if document is not None and (document.digest != record.version or len(document.pages) != record.page_count):
        yield Finding("I13", document_id, "the status speaks of another version or number of pages than the document")
    if record.status is DocStatus.PROCESSED and not record.version:
        yield Finding("I13", document_id, "it is processed, but no version is live")


def _order(state: State, document_id: str, ids: tuple[str, ...]) -> Iterator[Finding]:
    document = state.documents.get(document_id)
    text = document.text if document is not None else ""
    for order, key in enumerate(ids):
        chunk = state.chunks.get(key)
        if chunk is None:
            yield Finding("I1", key, f"it is listed by {document_id!r} and not there")
            continue
        following = ids[order + 1] if order + 1 < len(ids) else ""
        if chunk.order != order or chunk.next_id != following:
            yield Finding("I14", key, f"it is number {chunk.order} before {chunk.next_id!r}, not {order} before {following!r}")
        if text[chunk.start : chunk.end] != chunk.text:
            yield Finding("I14", key, f"it is not the text of its document from {chunk.start} to {chunk.end}")
        pages = [span.page for span in chunk.pages]
        inside = all(chunk.start <= span.start <= span.end <= chunk.end for span in chunk.pages)
        if pages != sorted(pages) or not inside:
            yield Finding("I14", key, f"its pages {pages} do not ascend inside it")


def check_texts(state: State) -> Iterator[Finding]:
    """I20."""
    for key, document in state.documents.items():
        yield from _clean(key, document.text, document.title, document.name)
    for name, entity in state.entities.items():
        yield from _clean(name, entity.key, *(text for text, _ in entity.names), entity.description)
    for pair, relation in state.relations.items():
        yield from _clean(pair.id, relation.description, *(word for word, _ in relation.keywords))


def _clean(key: str, *texts: str) -> Iterator[Finding]:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            yield Finding("I20", key, f"character {error.start} is half of a surrogate pair")
        if "\0" in text:
            yield Finding("I20", key, f"character {text.index(chr(0))} is NUL")
