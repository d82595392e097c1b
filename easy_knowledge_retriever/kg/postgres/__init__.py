"""PostgreSQL: every role of a knowledge base in the tables of one database."""

from easy_knowledge_retriever.kg.postgres.session import PGSession, Space
from easy_knowledge_retriever.kg.postgres.storage import PGOptions, PGStorage
from easy_knowledge_retriever.kg.postgres.store import PGStore

__all__ = ["PGOptions", "PGSession", "PGStorage", "PGStore", "Space"]
