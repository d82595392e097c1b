"""Digests and ids. All are hexadecimal BLAKE2b; a user sees them as opaque."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["chunk_id", "digest", "document_id", "text_document_id"]

_ID_BYTES = 12
_DIGEST_BYTES = 20


def digest(content: bytes | str) -> str:
    """Digest of a content: equal contents have equal digests, whatever they are called. A text counts as its UTF-8 bytes."""
    return blake2b(_encoded(content), digest_size=_DIGEST_BYTES).hexdigest()


def document_id(name: str, collection: str = "") -> str:
    """Id of a document that is known by its name within its collection."""
    return f"doc-{_hash_of('name', collection, name)}"


def text_document_id(text: str, collection: str = "") -> str:
    """Id of a bare text, which has no other identity than what it says."""
    return f"doc-{_hash_of('text', collection, text)}"


def chunk_id(document_id: str, version: str, order: int, text: str) -> str:
    """Id of a chunk: two documents, versions or places never share one.

    Args:
        document_id: Id of its document.
        version: Digest of the document's content.
        order: Its place in the document.
        text: Its text.
    """
    return f"chunk-{_hash_of(document_id, version, str(order), text)}"


def _hash_of(*parts: str) -> str:
    """Hash of a sequence: the length goes before each part, so that no two sequences read the same."""
    state = blake2b(digest_size=_ID_BYTES)
    for part in parts:
        encoded = _encoded(part)
        state.update(len(encoded).to_bytes(8, "big"))
        state.update(encoded)
    return state.hexdigest()


def _encoded(content: bytes | str) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
