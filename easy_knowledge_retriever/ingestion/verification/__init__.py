"""The invariants of a base: each a named check, and what mends what it finds."""

from easy_knowledge_retriever.ingestion.verification.checking import verify
from easy_knowledge_retriever.ingestion.verification.findings import INVARIANTS, Finding, VerifyReport
from easy_knowledge_retriever.ingestion.verification.mending import Means
from easy_knowledge_retriever.ingestion.verification.repairing import embed_missing, repair

__all__ = ["INVARIANTS", "Finding", "Means", "VerifyReport", "embed_missing", "repair", "verify"]
