from __future__ import annotations

import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.inserting import inserted_documents
from easy_knowledge_retriever.text.hashing import document_id, text_document_id
from easy_knowledge_retriever.types import PageSpan


def test_identity_is_the_callers_id_or_the_name_or_the_text() -> None:
    one, two, three = inserted_documents(["a", "b", "c"], ["mine", "", ""], ["", "b.txt", ""], "team", {})
    assert (one.id, one.name) == ("mine", "mine")
    assert (two.id, two.name) == (document_id("b.txt", "team"), "b.txt")
    assert (three.id, three.name) == (text_document_id("c", "team"),) * 2
    assert {d.collection for d in (one, two, three)} == {"team"}


def test_one_text_needs_no_list() -> None:
    (document,) = inserted_documents("alone", "x", "alone.md", "", {"year": 2026})
    assert (document.id, document.text, document.metadata) == ("x", "alone", {"year": 2026})


def test_text_is_cleaned_and_its_headings_are_found() -> None:
    (document,) = inserted_documents("# Title\n\nSome\0 text.", None, "a.md", "", {})
    assert (document.title, document.text) == ("Title", "# Title\n\nSome text.")
    assert [block.kind for block in document.blocks] == ["heading", "text"]


def test_page_texts_become_page_spans() -> None:
    (document,) = inserted_documents({"content": "onetwo", "pages": ["one", "two"]}, None, None, "", {})
    assert document.pages == (PageSpan(1, 0, 3), PageSpan(2, 3, 6))


def test_page_objects_may_skip_pages_and_text() -> None:
    pages = [{"page": 4, "start": 0, "end": 3}, {"page": 7, "start": 4, "end": 6}]
    (document,) = inserted_documents([{"content": "onetwo", "pages": pages}], None, None, "", {})
    assert document.pages == (PageSpan(4, 0, 3), PageSpan(7, 4, 6))


def test_the_same_text_twice_is_one_document() -> None:
    assert len(inserted_documents(["same", "same"], None, None, "", {})) == 1


def test_other_pages_are_another_version() -> None:
    (plain,) = inserted_documents("text", "x", None, "", {})
    (paged,) = inserted_documents({"content": "text", "pages": ["te", "xt"]}, "x", None, "", {})
    assert plain.digest != paged.digest


@pytest.mark.parametrize(
    ("input", "ids", "names"),
    [
        ("", None, None),
        ([" \n"], None, None),
        ([7], None, None),
        ([{"text": "x"}], None, None),
        (["a", "b"], ["one"], None),
        ("a", None, ["one", "two"]),
        (["a", "b"], ["same", "same"], None),
        ({"content": "ab", "pages": ["a"]}, None, None),
        ({"content": "ab", "pages": "ab"}, None, None),
        ({"content": "ab", "pages": 3}, None, None),
        ({"content": "ab", "pages": [{"page": 0, "start": 0, "end": 2}]}, None, None),
        ({"content": "ab", "pages": [{"page": 1, "start": 0, "end": 3}]}, None, None),
        ({"content": "ab", "pages": [{"page": 2, "start": 0, "end": 1}, {"page": 1, "start": 1, "end": 2}]}, None, None),
        ({"content": "ab", "pages": [{"page": 1, "start": 0}]}, None, None),
    ],
)
def test_what_does_not_fit_is_refused(input: object, ids: object, names: object) -> None:
    with pytest.raises(ConfigError):
        inserted_documents(input, ids, names, "", {})  # type: ignore[arg-type]
