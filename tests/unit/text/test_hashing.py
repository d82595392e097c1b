from __future__ import annotations

import re

from easy_knowledge_retriever.text.hashing import chunk_id, digest, document_id, text_document_id


def test_ids_are_short_and_say_what_they_name() -> None:
    assert re.fullmatch(r"doc-[0-9a-f]{24}", document_id("report.pdf"))
    assert re.fullmatch(r"doc-[0-9a-f]{24}", text_document_id("some text"))
    assert re.fullmatch(r"chunk-[0-9a-f]{24}", chunk_id("doc-1", "v", 0, "text"))
    assert re.fullmatch(r"[0-9a-f]{40}", digest(b"bytes"))


def test_a_text_and_its_bytes_have_one_digest() -> None:
    assert digest("déjà") == digest("déjà".encode())
    assert digest("\ud800")


def test_every_part_of_an_identity_counts() -> None:
    ids = {
        chunk_id("doc-1", "v1", 0, "text"),
        chunk_id("doc-2", "v1", 0, "text"),
        chunk_id("doc-1", "v2", 0, "text"),
        chunk_id("doc-1", "v1", 1, "text"),
        chunk_id("doc-1", "v1", 0, "texts"),
    }
    assert len(ids) == 5
    assert document_id("a") != document_id("a", "b")
    assert document_id("a") != text_document_id("a")


def test_parts_do_not_run_into_each_other() -> None:
    assert document_id("bc", "a") != document_id("c", "ab")
    assert chunk_id("a", "bc", 1, "2") != chunk_id("a", "b", 1, "c2")
