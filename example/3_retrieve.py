"""Asks one question in every mode: ``python example/3_retrieve.py ["QUESTION"]`` after ``1_build_database.py``.

Shows the passages each mode finds, with their pages, and the answer written from them.
"""

from __future__ import annotations

import asyncio
import sys

from choices import retriever
from easy_knowledge_retriever import QueryParam
from easy_knowledge_retriever.retrieval import HybridMixRetrieval

QUESTION = "What does somebody who handles liquid nitrogen have to wear?"
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "hybrid_mix", "graph_walk")


async def main(question: str) -> None:
    """Asks in every mode by name, and once with a strategy object."""
    async with retriever() as rag:
        for mode in MODES:
            result = await rag.aquery(question, QueryParam(mode=mode, chunk_top_k=3))
            print(f"\n── {mode} ──")
            for chunk in result.chunks:
                page = f", p. {chunk['page_start']}" if chunk["page_start"] else ""
                print(f"    {chunk['file_path']}{page}: {chunk['heading']}")
            print(result)
        result = await rag.aquery(question, retrieval=HybridMixRetrieval(chunk_top_k=3, rrf_k=20))
        print(f"\n── hybrid_mix with rrf_k=20 ──\n{result}")
        for reference in result.references:
            print(f"    {reference.file_path}, pages {list(reference.pages)}: {reference.quote}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else QUESTION))
