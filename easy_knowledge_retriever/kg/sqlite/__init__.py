"""The embedded store: every role of a knowledge base in one SQLite file."""

from easy_knowledge_retriever.kg.sqlite.session import Space, SqliteSession
from easy_knowledge_retriever.kg.sqlite.storage import SqliteStorage
from easy_knowledge_retriever.kg.sqlite.store import SqliteStore

__all__ = ["Space", "SqliteSession", "SqliteStorage", "SqliteStore"]
