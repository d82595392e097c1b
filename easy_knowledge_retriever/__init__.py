"""Easy Knowledge Retriever: documents in, page-exact cited answers out."""

import logging

from easy_knowledge_retriever.errors import (
    BadResponse,
    BudgetExceeded,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EKRError,
    EmbeddingMismatchError,
    IngestionError,
    LimitExceeded,
    MissingExtraError,
    NotFound,
    ParseError,
    RateLimited,
    StorageError,
    StorageNotOpenError,
    StoreCorruptError,
    StoreVersionError,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    WorkingDirLockedError,
)
from easy_knowledge_retriever.query import QueryParam, QueryResult
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever, KnowledgeGraph
from easy_knowledge_retriever.types import Citation, Context, DocRecord, DocStatus, IngestReport, Reference, SearchFilter

__all__ = [
    "BadResponse",
    "BudgetExceeded",
    "Citation",
    "ConfigError",
    "ContentRefused",
    "Context",
    "ContextTooLong",
    "DocRecord",
    "DocStatus",
    "EKRError",
    "EasyKnowledgeRetriever",
    "EmbeddingMismatchError",
    "IngestReport",
    "IngestionError",
    "KnowledgeGraph",
    "LimitExceeded",
    "MissingExtraError",
    "NotFound",
    "ParseError",
    "QueryParam",
    "QueryResult",
    "RateLimited",
    "Reference",
    "SearchFilter",
    "StorageError",
    "StorageNotOpenError",
    "StoreCorruptError",
    "StoreVersionError",
    "UpstreamAuth",
    "UpstreamError",
    "UpstreamTimeout",
    "UpstreamUnavailable",
    "WorkingDirLockedError",
    "__version__",
]

__version__ = "0.1.0"

logging.getLogger("easy_knowledge_retriever").addHandler(logging.NullHandler())
