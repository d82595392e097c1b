"""Frozen settings. A default is written here and nowhere else; this is the only module that reads the environment."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from easy_knowledge_retriever.errors import ConfigError

if TYPE_CHECKING:
    from easy_knowledge_retriever.types import ExtractionExample

__all__ = [
    "DEFAULT_ENTITY_TYPES",
    "CommandEnvironment",
    "Environment",
    "ExtractionFormat",
    "Gleaning",
    "Settings",
    "check_slug",
    "command_environment",
    "environment",
]

logger = logging.getLogger("easy_knowledge_retriever")

DEFAULT_ENTITY_TYPES = (
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
)


ExtractionFormat = Literal["lines", "json"]
"""How a language model writes entities and relations."""
Gleaning = Literal["always", "where_missing"]
"""When a chunk is read another time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a retriever was told once. The fields are those of ``EasyKnowledgeRetriever``."""

    working_dir: str = "./rag_storage"
    workspace: str = ""
    top_k: int = 40
    chunk_top_k: int = 20
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    max_total_tokens: int = 30000
    cosine_better_than_threshold: float = 0.2
    related_chunk_number: int = 5
    kg_chunk_pick_method: Literal["VECTOR", "WEIGHT"] = "VECTOR"
    entity_extract_max_gleaning: int = 1
    entity_extract_gleaning: Gleaning = "always"
    extraction_format: ExtractionFormat = "lines"
    extraction_examples: tuple[ExtractionExample, ...] = ()
    force_llm_summary_on_merge: int = 8
    chunk_token_size: int = 1200
    chunk_overlap_token_size: int = 100
    parent_chunk_token_size: int | None = None
    tiktoken_model_name: str = "gpt-4o-mini"
    enable_llm_cache: bool = True
    enable_llm_cache_for_entity_extract: bool = True
    max_parallel_insert: int = 1
    max_graph_nodes: int = 1000
    max_source_ids_per_entity: int = 300
    max_source_ids_per_relation: int = 300
    source_ids_limit_method: Literal["FIFO", "KEEP"] = "FIFO"
    max_file_paths: int = 100
    file_path_more_placeholder: str = "truncated"
    language: str = "English"
    entity_types: tuple[str, ...] = DEFAULT_ENTITY_TYPES
    relation_types: tuple[str, ...] = ()
    resolution: Literal["off", "names"] = "names"
    durability: Literal["full", "relaxed"] = "full"
    lock_timeout: float = 10.0
    allow_network_fs: bool = False
    embedding_check: Literal["error", "warn"] = "error"
    max_cost: float | None = None
    max_llm_calls: int | None = None
    max_minutes: float | None = None
    max_cache_mb: float | None = 256.0

    def __post_init__(self) -> None:
        check_slug(self.workspace)
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint="give a number of at least 1")
        if not 0 <= self.chunk_overlap_token_size < self.chunk_token_size:
            raise ConfigError(
                f"chunk_overlap_token_size is {self.chunk_overlap_token_size!r}",
                hint=f"it must be at least 0 and less than chunk_token_size ({self.chunk_token_size})",
            )
        if self.parent_chunk_token_size is not None and self.parent_chunk_token_size <= self.chunk_token_size:
            raise ConfigError(
                f"parent_chunk_token_size is {self.parent_chunk_token_size!r}",
                hint=f"it must be more than chunk_token_size ({self.chunk_token_size}), or None for no parents",
            )
        for name in _CEILINGS:
            ceiling = getattr(self, name)
            if ceiling is not None and not 0 <= ceiling < float("inf"):
                raise ConfigError(f"{name} is {ceiling!r}", hint="give a number of at least 0, or None for no ceiling")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint=f"one of {', '.join(allowed)}")


_POSITIVE = (
    "top_k",
    "chunk_top_k",
    "max_entity_tokens",
    "max_relation_tokens",
    "max_total_tokens",
    "related_chunk_number",
    "chunk_token_size",
    "max_parallel_insert",
    "max_graph_nodes",
    "max_source_ids_per_entity",
    "max_source_ids_per_relation",
    "max_file_paths",
    "force_llm_summary_on_merge",
)
_CEILINGS = ("max_cost", "max_llm_calls", "max_minutes", "max_cache_mb")
_CHOICES = {
    "entity_extract_gleaning": get_args(Gleaning),
    "extraction_format": get_args(ExtractionFormat),
    "kg_chunk_pick_method": ("VECTOR", "WEIGHT"),
    "source_ids_limit_method": ("FIFO", "KEEP"),
    "durability": ("full", "relaxed"),
    "embedding_check": ("error", "warn"),
    "resolution": ("off", "names"),
}


def check_slug(name: str) -> str:
    """The name itself, if it is empty or made of ASCII letters, digits, ``-`` and ``_`` (at most 64).

    Workspace and collection names never become part of a path, a label or a statement, but a slug keeps them readable.

    Raises:
        ConfigError: Anything else.
    """
    if len(name) <= 64 and name.isascii() and all(c.isalnum() or c in "-_" for c in name):
        return name
    raise ConfigError(f"the name {name!r} cannot be used", hint="letters, digits, '-' and '_', at most 64 of them")


@dataclass(frozen=True, slots=True)
class Environment:
    """What the process environment says, read when a service is built. Unset or unusable values are None."""

    max_async: int | None
    embedding_max_async: int | None
    embedding_batch_num: int | None
    llm_timeout: float | None
    embedding_timeout: float | None
    embedding_encoding_format: str | None
    openai_api_key: str | None
    openai_base_url: str | None
    azure_openai_endpoint: str | None
    azure_openai_api_key: str | None
    openai_api_version: str | None
    cache_dir: Path
    nano_vector_db_workspace: str | None
    milvus_uri: str | None
    milvus_token: str | None = field(repr=False)
    milvus_user: str | None
    milvus_password: str | None = field(repr=False)
    milvus_db_name: str | None
    milvus_workspace: str | None
    postgres_user: str | None
    postgres_password: str | None = field(repr=False)
    postgres_database: str | None
    postgres_host: str | None
    postgres_port: int | None
    neo4j_uri: str | None
    neo4j_username: str | None
    neo4j_password: str | None = field(repr=False)
    neo4j_database: str | None
    neo4j_workspace: str | None


def environment() -> Environment:
    """Reads the environment now. A bad value is ignored with one warning."""
    return Environment(
        max_async=_integer("EKR_MAX_ASYNC"),
        embedding_max_async=_integer("EKR_EMBEDDING_MAX_ASYNC"),
        embedding_batch_num=_integer("EKR_EMBEDDING_BATCH_NUM"),
        llm_timeout=_seconds("EKR_LLM_TIMEOUT"),
        embedding_timeout=_seconds("EKR_EMBEDDING_TIMEOUT"),
        embedding_encoding_format=_choice("EKR_EMBEDDING_ENCODING_FORMAT", ("base64", "float")),
        openai_api_key=os.environ.get("OPENAI_API_KEY") or None,
        openai_base_url=os.environ.get("OPENAI_BASE_URL") or None,
        azure_openai_endpoint=os.environ.get("AZURE_OPENAI_ENDPOINT") or None,
        azure_openai_api_key=os.environ.get("AZURE_OPENAI_API_KEY") or None,
        openai_api_version=os.environ.get("OPENAI_API_VERSION") or None,
        cache_dir=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "easy_knowledge_retriever",
        nano_vector_db_workspace=_slug("NANO_VECTOR_DB_WORKSPACE"),
        milvus_uri=os.environ.get("MILVUS_URI") or None,
        milvus_token=os.environ.get("MILVUS_TOKEN") or None,
        milvus_user=os.environ.get("MILVUS_USER") or None,
        milvus_password=os.environ.get("MILVUS_PASSWORD") or None,
        milvus_db_name=os.environ.get("MILVUS_DB_NAME") or None,
        milvus_workspace=_slug("MILVUS_WORKSPACE"),
        postgres_user=os.environ.get("POSTGRES_USER") or None,
        postgres_password=os.environ.get("POSTGRES_PASSWORD") or None,
        postgres_database=os.environ.get("POSTGRES_DATABASE") or None,
        postgres_host=os.environ.get("POSTGRES_HOST") or None,
        postgres_port=_integer("POSTGRES_PORT"),
        neo4j_uri=os.environ.get("NEO4J_URI") or None,
        neo4j_username=os.environ.get("NEO4J_USERNAME") or None,
        neo4j_password=os.environ.get("NEO4J_PASSWORD") or None,
        neo4j_database=os.environ.get("NEO4J_DATABASE") or None,
        neo4j_workspace=_slug("NEO4J_WORKSPACE"),
    )


@functools.cache
def failpoints() -> Mapping[str, str]:
    """Places where a test wants this process to fail: ``EKR_FAILPOINTS=name=action,…``, read once; empty in normal use."""
    pairs = (pair.partition("=") for pair in os.environ.get("EKR_FAILPOINTS", "").split(","))
    return {name: action for name, _, action in pairs if action}


def _integer(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return int(text)
    _warn_once(variable, "a whole number of at least 1")
    return None


def _seconds(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 0 < value < float("inf"):
        return value
    _warn_once(variable, "a positive number of seconds")
    return None


def _choice(variable: str, allowed: tuple[str, ...]) -> str | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if text in allowed:
        return text
    _warn_once(variable, f"one of {', '.join(allowed)}")
    return None


def _slug(variable: str) -> str | None:
    try:
        return check_slug(os.environ.get(variable, "")) or None
    except ConfigError:
        _warn_once(variable, "letters, digits, '-' and '_', at most 64 of them")
        return None


@functools.cache
def _warn_once(variable: str, expected: str) -> None:
    logger.warning("the environment variable %s is ignored: it should be %s", variable, expected)


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """What the process environment says to the ``ekr`` command, where a flag does not. Empty and 0: nothing."""

    working_dir: str
    storage: str
    llm_model: str
    embedding_model: str
    embedding_dim: int
    rerank_model: str
    rerank_url: str
    prices: str


def command_environment() -> CommandEnvironment:
    """Reads the environment of the command now."""
    return CommandEnvironment(
        working_dir=os.environ.get("EKR_WORKING_DIR", ""),
        storage=os.environ.get("EKR_STORAGE", ""),
        llm_model=os.environ.get("EKR_LLM_MODEL", ""),
        embedding_model=os.environ.get("EKR_EMBEDDING_MODEL", ""),
        embedding_dim=_integer("EKR_EMBEDDING_DIM") or 0,
        rerank_model=os.environ.get("EKR_RERANK_MODEL", ""),
        rerank_url=os.environ.get("EKR_RERANK_URL", ""),
        prices=os.environ.get("EKR_PRICES", ""),
    )
