"""Builds a knowledge base: ``python example/1_build_database.py [FILE …]`` (default: the demonstration documents)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from choices import WORKING_DIR, retriever
from easy_knowledge_retriever.cli.demo import demo_documents
from easy_knowledge_retriever.cli.output import counted


async def main(files: list[Path]) -> None:
    """Ingests the files one after the other and says what came of each."""
    async with retriever() as rag:
        for file in files:
            report = await rag.ingest(file)
            if report.unchanged:
                print(f"{report.name}: there already, nothing to do")
                continue
            print(f"{report.name}: {counted(report.pages, 'page')}, {counted(report.chunks, 'chunk')}")
            print(f"    {counted(report.entities, 'entity', 'entities')}, {counted(report.relations, 'relation')}")
            for stage, seconds in report.timings.items():
                print(f"    {stage:12} {seconds:6.2f} s")
    print(f"The knowledge base is in {WORKING_DIR}.")


if __name__ == "__main__":
    asyncio.run(main([Path(argument) for argument in sys.argv[1:]] or demo_documents()))
