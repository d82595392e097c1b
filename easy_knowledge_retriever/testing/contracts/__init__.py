"""Contract suites: what every storage promises, as tests that a backend inherits.

A test class of a backend inherits one suite and says how its storage is made; pytest and pytest-asyncio do the rest::

    class TestMyVectors(VectorStorageContract):
        async def make(self, tmp_path):
            return MyVectorStorage(folder=tmp_path)

``make`` gives an unbound, unopened storage. Called again with the same folder it gives another storage on the same
rows; a backend that keeps nothing sets ``persistent = False``. A backend with snapshots and transactions inherits
:class:`StoreContract` as well.
"""

import pytest

_SUITES = ("doc_status", "graph", "kv", "lexical", "storage", "store", "vectors")
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))

from easy_knowledge_retriever.testing.contracts.doc_status import DocStatusStorageContract  # noqa: E402 — after the line above
from easy_knowledge_retriever.testing.contracts.graph import GraphStorageContract  # noqa: E402
from easy_knowledge_retriever.testing.contracts.kv import KVStorageContract  # noqa: E402
from easy_knowledge_retriever.testing.contracts.lexical import LexicalStorageContract  # noqa: E402
from easy_knowledge_retriever.testing.contracts.storage import StorageContract  # noqa: E402
from easy_knowledge_retriever.testing.contracts.store import StoreContract  # noqa: E402
from easy_knowledge_retriever.testing.contracts.vectors import VectorStorageContract  # noqa: E402

__all__ = [
    "DocStatusStorageContract",
    "GraphStorageContract",
    "KVStorageContract",
    "LexicalStorageContract",
    "StorageContract",
    "StoreContract",
    "VectorStorageContract",
]
