"""Which storages a retriever uses: one explicit table from class name to class, and the embedded default."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.kg.base import Storage
from easy_knowledge_retriever.kg.graph_storage.base import GraphStorage
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage, KVStorage
from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.postgres import PGStorage
from easy_knowledge_retriever.kg.vector_storage.base import VectorStorage
from easy_knowledge_retriever.settings import Settings

__all__ = ["DEFAULT_BACKEND", "STORAGES", "STORAGE_SETS", "StorageChoice", "StorageSet", "open_description", "storage_set"]

S = TypeVar("S", bound=Storage)
StorageChoice: TypeAlias = S | Callable[[], S] | str | None
"""A storage, a callable that gives one, a class name of :data:`STORAGES`, or None for the embedded default."""

_KG = "easy_knowledge_retriever.kg"
STORAGES: Mapping[str, str] = MappingProxyType(
    {
        "SqliteKVStorage": f"{_KG}.kv_storage.sqlite_impl",
        "SqliteDocStatusStorage": f"{_KG}.kv_storage.sqlite_impl",
        "SqliteVectorStorage": f"{_KG}.vector_storage.sqlite_impl",
        "SqliteLexicalStorage": f"{_KG}.lexical_storage.sqlite_impl",
        "SqliteGraphStorage": f"{_KG}.graph_storage.sqlite_impl",
        "JsonKVStorage": f"{_KG}.kv_storage.json_kv_impl",
        "JsonDocStatusStorage": f"{_KG}.kv_storage.json_doc_status_impl",
        "NanoVectorDBStorage": f"{_KG}.vector_storage.nano_vector_db_impl",
        "MilvusVectorDBStorage": f"{_KG}.vector_storage.milvus_impl",
        "BM25Storage": f"{_KG}.lexical_storage.bm25_impl",
        "NetworkXStorage": f"{_KG}.graph_storage.networkx_impl",
        "Neo4JStorage": f"{_KG}.graph_storage.neo4j_impl",
        "PGKVStorage": f"{_KG}.kv_storage.postgres_impl",
        "PGDocStatusStorage": f"{_KG}.kv_storage.postgres_impl",
        "PGVectorStorage": f"{_KG}.vector_storage.postgres_impl",
        "PGLexicalStorage": f"{_KG}.lexical_storage.postgres_impl",
        "PGGraphStorage": f"{_KG}.graph_storage.postgres_impl",
    }
)
"""Class name → module."""


class StorageSet(TypedDict):
    """Class names of the storages of a base, as keywords of the retriever."""

    kv_storage: str
    doc_status_storage: str
    vector_storage: str
    lexical_storage: str
    graph_storage: str


STORAGE_SETS: Mapping[str, StorageSet] = MappingProxyType(
    {
        "sqlite": {
            "kv_storage": "SqliteKVStorage",
            "doc_status_storage": "SqliteDocStatusStorage",
            "vector_storage": "SqliteVectorStorage",
            "lexical_storage": "SqliteLexicalStorage",
            "graph_storage": "SqliteGraphStorage",
        },
        "files": {
            "kv_storage": "JsonKVStorage",
            "doc_status_storage": "JsonDocStatusStorage",
            "vector_storage": "NanoVectorDBStorage",
            "lexical_storage": "BM25Storage",
            "graph_storage": "NetworkXStorage",
        },
        "postgres": {
            "kv_storage": "PGKVStorage",
            "doc_status_storage": "PGDocStatusStorage",
            "vector_storage": "PGVectorStorage",
            "lexical_storage": "PGLexicalStorage",
            "graph_storage": "PGGraphStorage",
        },
    }
)
"""Backend → the storages of a base that is on it alone."""
DEFAULT_BACKEND: Final = "sqlite"


def storage_set(backend: str) -> StorageSet:
    """The storages of a base that is on one backend alone, as keywords of the retriever.

    Raises:
        ConfigError: There is no such backend.
    """
    if backend not in STORAGE_SETS:
        raise ConfigError(f"there are no storages {backend!r}", hint=f"one of {', '.join(STORAGE_SETS)}")
    return STORAGE_SETS[backend]


def open_description(
    settings: Settings,
    kv: StorageChoice[KVStorage],
    status: StorageChoice[DocStatusStorage],
    vectors: StorageChoice[VectorStorage],
    lexical: StorageChoice[LexicalStorage],
    graph: StorageChoice[GraphStorage],
) -> KnowledgeBase:
    """The knowledge base these choices describe, not yet open.

    A storage without a folder of its own is put under ``settings.working_dir``. The BM25 index follows the key-value
    storage: in the SQLite file or the PostgreSQL database beside it, or in memory beside any other, where it is rebuilt from
    the chunks at opening.

    Raises:
        ConfigError: A name that is not in the table, or something that is no storage of the right role.
    """
    values = _chosen(settings, kv, "SqliteKVStorage", KVStorage)
    beside = _lexical_beside(values, own_kv=kv is not None and kv != "SqliteKVStorage")
    return knowledge_base(
        values,
        _chosen(settings, status, "SqliteDocStatusStorage", DocStatusStorage),
        _chosen(settings, vectors, "SqliteVectorStorage", VectorStorage),
        _chosen(settings, lexical, beside, LexicalStorage),
        _chosen(settings, graph, "SqliteGraphStorage", GraphStorage),
        settings.workspace,
    )


def _lexical_beside(values: KVStorage, *, own_kv: bool) -> StorageChoice[LexicalStorage]:
    if isinstance(values, PGStorage):
        return PGLexicalStorage.beside(values)
    return "BM25Storage" if own_kv else "SqliteLexicalStorage"


def _chosen(settings: Settings, choice: StorageChoice[S], default: object, role: type[Any]) -> S:
    storage: object = default if choice is None else choice
    if isinstance(storage, str):
        storage = _named(storage, settings)
    if callable(storage) and not isinstance(storage, Storage):
        storage = storage()
    if not isinstance(storage, role):
        raise ConfigError(
            f"{storage!r} is not a {role.__name__}",
            hint=f"give an instance, a callable that returns one, or one of {', '.join(STORAGES)}",
        )
    placed: S = storage.under(settings.working_dir)
    return placed


def _named(name: str, settings: Settings) -> object:
    module = STORAGES.get(name)
    if module is None:
        raise ConfigError(f"there is no storage named {name!r}", hint=f"one of {', '.join(STORAGES)}")
    build: Callable[..., object] = getattr(importlib.import_module(module), name)
    if module.endswith("sqlite_impl"):
        return build(
            settings.working_dir,
            durability=settings.durability,
            lock_timeout=settings.lock_timeout,
            allow_network_fs=settings.allow_network_fs,
        )
    if name in STORAGE_SETS["files"].values():
        return build(
            durability=settings.durability,
            lock_timeout=settings.lock_timeout,
            allow_network_fs=settings.allow_network_fs,
        )
    if module.endswith("postgres_impl"):
        return build(durability=settings.durability, lock_timeout=settings.lock_timeout)
    return build()
