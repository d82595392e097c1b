"""Embedding models that run in this process."""

from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService

__all__ = ["LocalEmbeddingService"]
