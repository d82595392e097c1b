from __future__ import annotations

import dataclasses
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever import settings
from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.settings import Settings, check_slug, environment

SLUG = string.ascii_letters + string.digits + "-_"


@pytest.fixture(autouse=True)
def _forget_warnings() -> None:
    settings._warn_once.cache_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("working_dir", "./rag_storage"),
        ("workspace", ""),
        ("top_k", 40),
        ("chunk_top_k", 20),
        ("max_entity_tokens", 6000),
        ("max_relation_tokens", 8000),
        ("max_total_tokens", 30000),
        ("cosine_better_than_threshold", 0.2),
        ("related_chunk_number", 5),
        ("kg_chunk_pick_method", "VECTOR"),
        ("entity_extract_max_gleaning", 1),
        ("force_llm_summary_on_merge", 8),
        ("chunk_token_size", 1200),
        ("chunk_overlap_token_size", 100),
        ("tiktoken_model_name", "gpt-4o-mini"),
        ("enable_llm_cache", True),
        ("enable_llm_cache_for_entity_extract", True),
        ("max_parallel_insert", 1),
        ("max_graph_nodes", 1000),
        ("max_source_ids_per_entity", 300),
        ("max_source_ids_per_relation", 300),
        ("source_ids_limit_method", "FIFO"),
        ("max_file_paths", 100),
        ("file_path_more_placeholder", "truncated"),
        ("language", "English"),
    ],
)
def test_defaults(name: str, value: object) -> None:
    assert getattr(Settings(), name) == value


def test_settings_cannot_be_changed_and_are_not_shared() -> None:
    one, other = Settings(top_k=1), Settings()
    assert (one.top_k, other.top_k) == (1, 40)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.top_k = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 0),
        ("chunk_top_k", -1),
        ("max_total_tokens", 0),
        ("max_parallel_insert", 0),
        ("force_llm_summary_on_merge", 0),
        ("chunk_token_size", 0),
        ("chunk_overlap_token_size", -1),
        ("chunk_overlap_token_size", 1200),
        ("kg_chunk_pick_method", "vector"),
        ("source_ids_limit_method", "LIFO"),
        ("durability", "none"),
        ("embedding_check", "ignore"),
        ("workspace", "../elsewhere"),
        ("max_cost", -0.1),
        ("max_cost", float("nan")),
        ("max_llm_calls", -1),
        ("max_minutes", float("inf")),
        ("max_cache_mb", -1),
    ],
)
def test_a_bad_setting_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(**{name: value})
    assert repr(value) in caught.value.message
    assert caught.value.hint


@given(st.text(SLUG, max_size=64))
def test_a_slug_is_itself(name: str) -> None:
    assert check_slug(name) == name


@given(st.text(min_size=1).filter(lambda name: not set(name) <= set(SLUG)))
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        check_slug(name)


@pytest.mark.parametrize("name", ["a" * 65, "ａ", "१", "a\n", "a/b", "..", "a b", "é"])
def test_names_that_are_no_slug(name: str) -> None:
    with pytest.raises(ConfigError):
        check_slug(name)


def test_an_empty_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    found = environment()
    assert found.cache_dir == Path("somewhere/.cache/easy_knowledge_retriever")
    values = dataclasses.asdict(found)
    del values["cache_dir"]
    assert set(values.values()) <= {None, ""}


def test_the_environment_is_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment().max_async is None
    monkeypatch.setenv("EKR_MAX_ASYNC", "3")
    monkeypatch.setenv("EKR_EMBEDDING_MAX_ASYNC", "4")
    monkeypatch.setenv("EKR_EMBEDDING_BATCH_NUM", "5")
    monkeypatch.setenv("EKR_LLM_TIMEOUT", "6.5")
    monkeypatch.setenv("EKR_EMBEDDING_TIMEOUT", "7")
    monkeypatch.setenv("EKR_EMBEDDING_ENCODING_FORMAT", "base64")
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("NANO_VECTOR_DB_WORKSPACE", "mine")
    found = environment()
    assert found.nano_vector_db_workspace == "mine"
    assert (found.max_async, found.embedding_max_async, found.embedding_batch_num) == (3, 4, 5)
    assert (found.llm_timeout, found.embedding_timeout, found.embedding_encoding_format) == (6.5, 7.0, "base64")
    assert (found.openai_api_key, found.cache_dir) == ("a key", Path("cache/easy_knowledge_retriever"))


@pytest.mark.parametrize(
    ("variable", "field", "value"),
    [
        ("EKR_MAX_ASYNC", "max_async", "0"),
        ("EKR_MAX_ASYNC", "max_async", "-2"),
        ("EKR_MAX_ASYNC", "max_async", "many"),
        ("EKR_MAX_ASYNC", "max_async", "२"),
        ("EKR_LLM_TIMEOUT", "llm_timeout", "0"),
        ("EKR_LLM_TIMEOUT", "llm_timeout", "nan"),
        ("EKR_LLM_TIMEOUT", "llm_timeout", "inf"),
        ("EKR_LLM_TIMEOUT", "llm_timeout", "soon"),
        ("EKR_EMBEDDING_ENCODING_FORMAT", "embedding_encoding_format", "hex"),
        ("NANO_VECTOR_DB_WORKSPACE", "nano_vector_db_workspace", "../elsewhere"),
    ],
)
def test_a_bad_value_is_ignored_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str, field: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(environment(), field) is None
    assert getattr(environment(), field) is None
    assert [variable in record.getMessage() for record in caplog.records] == [True]
    assert repr(value) not in caplog.text
