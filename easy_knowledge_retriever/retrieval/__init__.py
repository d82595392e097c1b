"""The flow that answers a question, and its strategies."""

from easy_knowledge_retriever.retrieval.base import Retrieval
from easy_knowledge_retriever.retrieval.bm25 import BM25Retrieval
from easy_knowledge_retriever.retrieval.bypass import BypassRetrieval
from easy_knowledge_retriever.retrieval.global_ import GlobalRetrieval
from easy_knowledge_retriever.retrieval.graph_walk import GraphWalkRetrieval
from easy_knowledge_retriever.retrieval.hybrid import HybridRetrieval
from easy_knowledge_retriever.retrieval.hybrid_mix import HybridMixRetrieval
from easy_knowledge_retriever.retrieval.local import LocalRetrieval
from easy_knowledge_retriever.retrieval.mix import MixRetrieval
from easy_knowledge_retriever.retrieval.naive import NaiveRetrieval
from easy_knowledge_retriever.retrieval.registry import RetrievalFactory

__all__ = [
    "BM25Retrieval",
    "BypassRetrieval",
    "GlobalRetrieval",
    "GraphWalkRetrieval",
    "HybridMixRetrieval",
    "HybridRetrieval",
    "LocalRetrieval",
    "MixRetrieval",
    "NaiveRetrieval",
    "Retrieval",
    "RetrievalFactory",
]
