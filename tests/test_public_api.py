"""The names, paths, defaults and orders of arguments that users rely on, written out by hand."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import easy_knowledge_retriever
from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam, QueryResult, errors
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.operations.chunking import chunking_by_token_size
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.streaming import CitationChecked, Done, Reranked, Retrieved, StreamWarning, Token
from easy_knowledge_retriever.types import Citation, DocStatus, IngestReport, Reference, SearchFilter

REQUIRED = inspect.Parameter.empty
ANY = object()
"""A default that is ours to choose."""

PATHS = {
    "llm.service": ("OpenAILLMService", "OpenAIEmbeddingService"),
    "reranker.openai": ("OpenAIRerankerService",),
    "kg.kv_storage.json_kv_impl": ("JsonKVStorage",),
    "kg.kv_storage.json_doc_status_impl": ("JsonDocStatusStorage",),
    "kg.vector_storage.nano_vector_db_impl": ("NanoVectorDBStorage",),
    "kg.graph_storage.networkx_impl": ("NetworkXStorage",),
    "retrieval": (
        "NaiveRetrieval",
        "LocalRetrieval",
        "GlobalRetrieval",
        "HybridRetrieval",
        "MixRetrieval",
        "HybridMixRetrieval",
        "BypassRetrieval",
        "BM25Retrieval",
        "GraphWalkRetrieval",
        "RetrievalFactory",
    ),
    "operations.chunking": ("chunking_by_token_size",),
    "llm.base": ("LLMService", "EmbeddingService"),
    "reranker.base": ("RerankerService",),
    "streaming": ("Retrieved", "Reranked", "Token", "CitationChecked", "StreamWarning", "Done", "AnswerStream"),
    "prompts.prompt_set": ("PromptSet",),
    "prompts.template": ("PromptTemplate",),
    "testing.fakes": ("FakeLLMService", "FakeEmbeddingService", "FakeRerankerService"),
}

RETRIEVER: dict[str, object] = {
    "working_dir": "./rag_storage",
    "kv_storage": None,
    "vector_storage": None,
    "graph_storage": None,
    "doc_status_storage": None,
    "workspace": "",
    "top_k": 40,
    "chunk_top_k": 20,
    "max_entity_tokens": 6000,
    "max_relation_tokens": 8000,
    "max_total_tokens": 30000,
    "cosine_better_than_threshold": 0.2,
    "cosine_threshold": None,
    "related_chunk_number": 5,
    "kg_chunk_pick_method": "VECTOR",
    "entity_extract_max_gleaning": 1,
    "force_llm_summary_on_merge": 8,
    "chunk_token_size": 1200,
    "chunk_overlap_token_size": 100,
    "tokenizer": None,
    "tiktoken_model_name": "gpt-4o-mini",
    "chunking_func": ANY,
    "embedding_service": None,
    "llm_service": None,
    "reranker_service": None,
    "enable_llm_cache": True,
    "enable_llm_cache_for_entity_extract": True,
    "max_parallel_insert": 1,
    "max_graph_nodes": 1000,
    "max_source_ids_per_entity": 300,
    "max_source_ids_per_relation": 300,
    "source_ids_limit_method": "FIFO",
    "max_file_paths": 100,
    "file_path_more_placeholder": "truncated",
    "language": "English",
    "entity_types": (
        "Person",
        "Creature",
        "Organization",
        "Location",
        "Event",
        "Concept",
        "Action",
        "Method",
        "Content",
        "Data",
        "Artifact",
        "NaturalObject",
    ),
    "log_level": None,
    "log_file_path": None,
    "observer": ANY,
    "durability": "full",
    "lock_timeout": 10.0,
    "embedding_check": "error",
    "prices": None,
    "max_cost": None,
    "max_llm_calls": None,
    "max_minutes": None,
    "max_cache_mb": 256.0,
}

METHODS: dict[str, dict[str, object]] = {
    "initialize_storages": {},
    "finalize_storages": {},
    "ingest": {"file_path": REQUIRED, "start_page": None, "end_page": None, "raise_on_error": True},
    "ainsert": {
        "input": REQUIRED,
        "split_by_character": None,
        "split_by_character_only": False,
        "ids": None,
        "file_paths": None,
        "track_id": None,
    },
    "aquery": {"query": REQUIRED, "param": QueryParam(), "retrieval": None, "system_prompt": None},
    "aquery_llm": {"query": REQUIRED, "param": QueryParam()},
    "aquery_data": {"query": REQUIRED, "param": QueryParam()},
    "retrieve": {"query": REQUIRED, "retrieval": ANY},
    "aclear_cache": {},
    "get_docs_by_status": {"status": REQUIRED},
    "aget_docs_by_ids": {"ids": REQUIRED},
    "aget_docs_by_track_id": {"track_id": REQUIRED},
    "get_processing_status": {},
    "adelete_by_doc_id": {"doc_id": REQUIRED, "delete_llm_cache": False},
    "get_entity_info": {"entity_name": REQUIRED, "include_vector_data": False},
    "get_relation_info": {"src_entity": REQUIRED, "tgt_entity": REQUIRED, "include_vector_data": False},
    "get_graph_labels": {},
    "get_knowledge_graph": {"node_label": REQUIRED, "max_depth": 3, "max_nodes": None},
    "estimate": {"file_paths": (), "texts": (), "names": None, "collection": ""},
    "get_merges": {"name": None},
    "suggest_merges": {"threshold": 0.85, "limit": 50},
    "unmerge_entity": {"variant_name": REQUIRED},
    "merge_entities": {"sources": REQUIRED, "target": REQUIRED},
    "usage": {},
    "cache_size": {},
    "verify": {"deep": False, "repair": False, "embed": False},
    "reindex": {},
    "estimate_reindex": {},
    "get_embedding": {},
}

QUERY_PARAM: dict[str, object] = {
    "mode": "mix",
    "only_need_context": False,
    "only_need_prompt": False,
    "response_type": "Multiple Paragraphs",
    "stream": False,
    "top_k": None,
    "chunk_top_k": None,
    "max_entity_tokens": None,
    "max_relation_tokens": None,
    "max_total_tokens": None,
    "hl_keywords": (),
    "ll_keywords": (),
    "conversation_history": (),
    "history_turns": 0,
    "model_func": None,
    "user_prompt": None,
    "include_references": False,
    "query_decomposition": False,
    "filter": SearchFilter(),
    "enable_rerank": True,
    "raise_on_error": True,
}

QUERY_RESULT = (
    "content response_iterator is_streaming raw_data query system_prompt user_prompt context entities relationships chunks "
    "references metadata status message reference_list files citations timings usage cost trace degraded"
)

CHUNKING = [
    "tokenizer",
    "content",
    "split_by_character",
    "split_by_character_only",
    "chunk_overlap_token_size",
    "chunk_token_size",
]

LLM: dict[str, object] = {
    "model": REQUIRED,
    "base_url": None,
    "api_key": None,
    "temperature": 1.0,
    "max_async": None,
    "timeout": None,
    "summary_max_tokens": 1200,
    "summary_context_size": 12000,
    "summary_length_recommended": 600,
    "force_llm_summary_on_merge": 8,
}
EMBEDDING: dict[str, object] = {
    "model": REQUIRED,
    "base_url": None,
    "api_key": None,
    "embedding_dim": 1536,
    "batch_num": None,
    "max_async": None,
    "timeout": None,
}

SHARED_OPTIONS: dict[str, object] = {
    "top_k": None,
    "chunk_top_k": None,
    "max_total_tokens": None,
    "conversation_history": (),
    "reranker_service": None,
    "query_decomposition": False,
    "follow": None,
    "enable_rerank": True,
}
OPTIONS: dict[str, dict[str, object]] = {
    "NaiveRetrieval": {},
    "LocalRetrieval": {"max_entity_tokens": None, "ll_keywords": ()},
    "GlobalRetrieval": {"max_relation_tokens": None, "hl_keywords": ()},
    "HybridRetrieval": {"max_entity_tokens": None, "ll_keywords": (), "max_relation_tokens": None, "hl_keywords": ()},
    "MixRetrieval": {"max_entity_tokens": None, "ll_keywords": (), "max_relation_tokens": None, "hl_keywords": ()},
    "HybridMixRetrieval": {"max_entity_tokens": None, "max_relation_tokens": None, "k1": 1.5, "b": 0.75, "rrf_k": 60},
    "BypassRetrieval": {},
    "BM25Retrieval": {"k1": 1.5, "b": 0.75},
    "GraphWalkRetrieval": {},
}


def _defaults(function: Callable[..., Any]) -> dict[str, object]:
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if name not in ("self", "extra")}


def _agree(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    return [
        f"{name}: {found.get(name, 'missing')!r}, not {default!r}"
        for name, default in wanted.items()
        if name not in found or (default is not ANY and found[name] != default)
    ]


@pytest.mark.parametrize("path", PATHS)
def test_an_import_path_stays(path: str) -> None:
    module = importlib.import_module(f"easy_knowledge_retriever.{path}")
    assert [name for name in PATHS[path] if not hasattr(module, name)] == []


def test_the_root_has_the_names_and_every_error() -> None:
    wanted = {"EasyKnowledgeRetriever", "QueryParam", "QueryResult", *errors.__all__}
    assert wanted <= set(easy_knowledge_retriever.__all__)
    assert [name for name in easy_knowledge_retriever.__all__ if not hasattr(easy_knowledge_retriever, name)] == []


def test_the_retriever_has_its_fields_and_defaults() -> None:
    assert _agree(_defaults(EasyKnowledgeRetriever), RETRIEVER) == []


def test_working_dir_and_the_storages_come_first() -> None:
    wanted = ["working_dir", "kv_storage", "vector_storage", "graph_storage", "doc_status_storage"]
    assert list(inspect.signature(EasyKnowledgeRetriever).parameters)[:5] == wanted


@pytest.mark.parametrize("name", METHODS)
def test_a_method_keeps_its_arguments(name: str) -> None:
    method = getattr(EasyKnowledgeRetriever, name)
    assert inspect.iscoroutinefunction(method)
    found = _defaults(method)
    assert _agree(found, METHODS[name]) == []
    positional = [p for p in METHODS[name] if inspect.signature(method).parameters[p].kind is not inspect.Parameter.KEYWORD_ONLY]
    assert list(found)[: len(positional)] == positional


def test_a_stream_takes_what_a_query_takes() -> None:
    assert _defaults(EasyKnowledgeRetriever.stream) == _defaults(EasyKnowledgeRetriever.aquery)
    kinds = [event.kind for event in (Retrieved, Reranked, Token, CitationChecked, StreamWarning, Done)]
    assert kinds == ["retrieved", "reranked", "token", "citation", "warning", "done"]


def test_query_param_has_its_fields_and_is_frozen() -> None:
    param = QueryParam()
    assert {spec.name: getattr(param, spec.name) for spec in dataclasses.fields(QueryParam)} == QUERY_PARAM
    with pytest.raises(dataclasses.FrozenInstanceError):
        param.mode = "naive"  # type: ignore[misc]


def test_query_param_takes_lists_and_keeps_tuples() -> None:
    words = ["dome"]
    param = QueryParam(hl_keywords=words, conversation_history=[{"role": "user", "content": "Hello"}])
    words.append("wind")
    assert param.hl_keywords == ("dome",)
    assert isinstance(param.conversation_history, tuple)


def test_query_result_has_its_fields() -> None:
    assert [name for name in QUERY_RESULT.split() if not hasattr(QueryResult(), name)] == []


def test_a_reference_and_a_citation_have_their_fields() -> None:
    assert {"reference_id", "file_path", "pages", "passages", "quote"} == {spec.name for spec in dataclasses.fields(Reference)}
    assert {"passage", "page", "quote", "supported", "start", "end"} <= {spec.name for spec in dataclasses.fields(Citation)}


def test_an_ingest_report_has_its_fields() -> None:
    wanted = {
        "document_id",
        "version",
        "chunks",
        "entities",
        "relations",
        "warnings",
        "failed_chunks",
        "timings",
        "usage",
        "cost",
    }
    assert wanted | {"document"} <= {spec.name for spec in dataclasses.fields(IngestReport)}


def test_statuses_have_their_names() -> None:
    assert {status.value for status in DocStatus} == {"pending", "processing", "processed", "failed", "interrupted"}


def test_chunking_keeps_the_order_of_its_arguments() -> None:
    assert list(inspect.signature(chunking_by_token_size).parameters)[: len(CHUNKING)] == CHUNKING


@pytest.mark.parametrize(("service", "wanted"), [(OpenAILLMService, LLM), (OpenAIEmbeddingService, EMBEDDING)])
def test_a_service_keeps_its_arguments(service: Callable[..., Any], wanted: dict[str, object]) -> None:
    found = _defaults(service)
    assert _agree(found, wanted) == []
    assert list(found)[:3] == ["model", "base_url", "api_key"]


def test_the_reranker_keeps_its_arguments() -> None:
    assert list(inspect.signature(OpenAIRerankerService).parameters)[:3] == ["model", "base_url", "api_key"]
    assert list(inspect.signature(OpenAIRerankerService.rerank).parameters)[1:4] == ["query", "documents", "top_n"]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_strategy_has_its_options_and_is_frozen(name: str) -> None:
    strategy = getattr(importlib.import_module("easy_knowledge_retriever.retrieval"), name)
    assert _agree(_defaults(strategy), SHARED_OPTIONS | OPTIONS[name]) == []
    assert strategy.__dataclass_params__.frozen


def test_what_the_earlier_readme_never_promised_is_gone() -> None:
    for name in (
        "kg.shared_memory",
        "kg.registry",
        "operations.graph_ops",
        "llm.openai",
        "llm.prompts",
        "utils",
        "reranker.generic",
    ):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"easy_knowledge_retriever.{name}")
