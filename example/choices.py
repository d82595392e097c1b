"""What the numbered examples share: where the knowledge base is, and which models it uses.

With no environment set everything runs locally. With an OpenAI-compatible endpoint:

    OPENAI_API_KEY, OPENAI_BASE_URL        the endpoint
    EKR_LLM_MODEL                          writes keywords, extractions and answers
    EKR_EMBEDDING_MODEL, EKR_EMBEDDING_DIM embeds; needs a folder of its own (EKR_WORKING_DIR)
    EKR_RERANK_MODEL, EKR_RERANK_URL       reranks
"""

from __future__ import annotations

import os

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService

WORKING_DIR = os.environ.get("EKR_WORKING_DIR", "rag_data/example")


def retriever() -> EasyKnowledgeRetriever:
    """A retriever over the example's folder, with the models the environment names."""
    llm, embedding, rerank = (os.environ.get(f"EKR_{kind}_MODEL") for kind in ("LLM", "EMBEDDING", "RERANK"))
    return EasyKnowledgeRetriever(
        working_dir=WORKING_DIR,
        llm_service=OpenAILLMService(llm) if llm else None,
        embedding_service=OpenAIEmbeddingService(embedding, embedding_dim=int(os.environ["EKR_EMBEDDING_DIM"]))
        if embedding
        else None,
        reranker_service=OpenAIRerankerService(rerank, os.environ["EKR_RERANK_URL"]) if rerank else None,
    )
