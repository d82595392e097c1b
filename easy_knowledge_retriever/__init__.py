"""Easy Knowledge Retriever: documents in, page-exact cited answers out."""

import importlib
import logging
from typing import TYPE_CHECKING

from easy_knowledge_retriever.errors import (
    BadResponse,
    BudgetExceeded,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EKRError,
    EmbeddingMismatchError,
    IngestionError,
    IngestionStopped,
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

if TYPE_CHECKING:
    from easy_knowledge_retriever.query import QueryParam, QueryResult
    from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever, KnowledgeGraph
    from easy_knowledge_retriever.spending.prices import Price
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
    "IngestionStopped",
    "KnowledgeGraph",
    "LimitExceeded",
    "MissingExtraError",
    "NotFound",
    "ParseError",
    "Price",
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

_HOME = {
    "EasyKnowledgeRetriever": "retriever",
    "KnowledgeGraph": "retriever",
    "Price": "spending.prices",
    "QueryParam": "query",
    "QueryResult": "query",
    **dict.fromkeys(("Citation", "Context", "DocRecord", "DocStatus", "IngestReport", "Reference", "SearchFilter"), "types"),
}
"""Names that are loaded with their first use, so that importing the package costs next to nothing."""

logging.getLogger("easy_knowledge_retriever").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
