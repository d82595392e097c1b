from __future__ import annotations

import inspect
import re

import pytest

from easy_knowledge_retriever import errors

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^ {4}( *)(\w+) {2,}", errors.__doc__ or "", re.MULTILINE)
    parents: dict[int, str] = {}
    tree = {}
    for indent, name in drawn:
        parents[len(indent)] = name
        tree[name] = parents.get(len(indent) - 2, "Exception")
    assert tree == {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES}


def test_every_error_is_exported() -> None:
    assert sorted(errors.__all__) == sorted(kind.__name__ for kind in CLASSES)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.__dict__["code"] for kind in CLASSES if "code" in kind.__dict__]
    assert len(codes) == len(set(codes))
    without = {kind.__name__ for kind in CLASSES if "code" not in kind.__dict__}
    assert without == {"ParseError"}


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (errors.ConfigError("m"), "config", 6),
        (errors.MissingExtraError("p", "e"), "missing_extra", 6),
        (errors.StorageError("m"), "storage", 9),
        (errors.StoreCorruptError("m"), "store_corrupt", 9),
        (errors.WorkingDirLockedError("m"), "locked", 7),
        (errors.ParseError("m", code="empty"), "error", 3),
        (errors.UpstreamError("m"), "upstream", 8),
        (errors.RateLimited("m"), "rate_limited", 8),
        (errors.IngestionError("m", document="d", stage="s"), "ingestion", 3),
        (errors.LimitExceeded("m"), "limit", 10),
        (errors.BudgetExceeded("m"), "budget", 10),
        (errors.NotFound("m"), "not_found", 4),
    ],
)
def test_codes_are_stable(error: errors.EKRError, code: str, exit_code: int) -> None:
    assert (error.code, error.exit_code) == (code, exit_code)


def test_the_text_of_an_error_ends_in_its_hint() -> None:
    assert str(errors.StorageError("broken", hint="mend it")) == "broken (mend it)"
    assert str(errors.StorageError("broken")) == "broken"


def test_an_error_keeps_what_it_was_given() -> None:
    extra = errors.MissingExtraError("pymilvus", "milvus")
    assert (extra.package, extra.extra) == ("pymilvus", "milvus")
    assert "easy-knowledge-retriever[milvus]" in str(extra)
    assert isinstance(extra, ValueError)
    assert errors.ParseError("m", code="encrypted").reason == "encrypted"
    assert errors.RateLimited("m", retry_after=2.5).retry_after == 2.5
    assert errors.UpstreamUnavailable("m").retry_after is None
    failed = errors.IngestionError("m", document="a.pdf", stage="embedding")
    assert (failed.document, failed.stage) == ("a.pdf", "embedding")
