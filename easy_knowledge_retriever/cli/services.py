"""The retriever that the flags and the environment describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.events import Observer
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import DEFAULT_BACKEND, storage_set

__all__ = ["ModelOptions", "embedding_model", "language_model", "reranker", "retriever"]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Models of endpoints, and what they may cost.

    An empty name leaves the local grade in place: no model is chosen behind the user's back.
    """

    llm_model: str = ""
    llm_url: str = ""
    embedding_model: str = ""
    embedding_url: str = ""
    embedding_dim: int = 0
    rerank_model: str = ""
    rerank_url: str = ""
    prices: str = ""
    """A file of what they cost."""
    max_cost: float | None = None
    max_llm_calls: int | None = None
    max_minutes: float | None = None


def language_model(models: ModelOptions) -> OpenAILLMService | None:
    """The language model that was named."""
    return OpenAILLMService(models.llm_model, base_url=models.llm_url or None) if models.llm_model else None


def embedding_model(models: ModelOptions) -> OpenAIEmbeddingService | None:
    """The embedding model that was named.

    Raises:
        ConfigError: The length of its vectors was not.
    """
    if not models.embedding_model:
        return None
    if not models.embedding_dim:
        raise ConfigError(
            f"the length of the vectors of {models.embedding_model!r} is not known",
            hint="give --embedding-dim, or set EKR_EMBEDDING_DIM",
        )
    address = models.embedding_url or None
    return OpenAIEmbeddingService(models.embedding_model, base_url=address, embedding_dim=models.embedding_dim)


def reranker(models: ModelOptions) -> OpenAIRerankerService | None:
    """The reranker that was named.

    Raises:
        ConfigError: Only one of model and URL was.
    """
    if bool(models.rerank_url) != bool(models.rerank_model):
        raise ConfigError("a reranker needs a model and a URL", hint="give both --rerank-model and --rerank-url")
    return OpenAIRerankerService(models.rerank_model, models.rerank_url) if models.rerank_model else None


def retriever(
    working_dir: str,
    models: ModelOptions,
    observer: Observer,
    embedding_check: Literal["error", "warn"],
    backend: str = DEFAULT_BACKEND,
    allow_network_fs: bool = False,
) -> EasyKnowledgeRetriever:
    """The retriever over ``working_dir`` with these models, not open yet.

    Args:
        working_dir: Its folder.
        models: What the flags say.
        observer: Told what happens.
        embedding_check: Whether it may be opened with any embedding model.
        backend: Where its rows are, one of :data:`STORAGE_SETS`.
        allow_network_fs: Whether a folder on a network file system may be written to.

    Raises:
        ConfigError: An option lacks the one it belongs to, or there is no such backend.
    """
    return EasyKnowledgeRetriever(
        working_dir=working_dir,
        **storage_set(backend),
        llm_service=language_model(models),
        embedding_service=embedding_model(models),
        reranker_service=reranker(models),
        observer=observer,
        embedding_check=embedding_check,
        allow_network_fs=allow_network_fs,
        prices=models.prices or None,
        max_cost=models.max_cost,
        max_llm_calls=models.max_llm_calls,
        max_minutes=models.max_minutes,
    )
