"""Looks into a knowledge base: statistics, and the degree distribution of its graph as text and, with matplotlib, as a plot.

``python example/2_analyze_database.py [PLOT.png]`` after ``1_build_database.py``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choices import WORKING_DIR, retriever


async def main(plot: Path) -> None:
    """Prints the statistics and draws the plot."""
    async with retriever() as rag:
        records = await rag.get_docs()
        graph = await rag.get_knowledge_graph("*", max_depth=1, max_nodes=1000)
    print("Documents")
    for record in records:
        print(f"    {record.name}: {record.page_count or 'no'} pages, {record.chunk_count} chunks")
    degrees = Counter({str(node["entity_name"]): 0 for node in graph.nodes})
    for edge in graph.edges:
        degrees.update((str(edge["src_id"]), str(edge["tgt_id"])))
    print(f"Graph{' (cut at 1000 entities)' if graph.is_truncated else ''}")
    print(f"    {len(graph.nodes)} entities, {len(graph.edges)} relations")
    print(f"    types: {_most(Counter(str(node['entity_type']) for node in graph.nodes))}")
    print(f"    best connected: {_most(degrees)}")
    distribution = Counter(degrees.values())
    print("Relations an entity, and how many entities have so many")
    for degree, entities in sorted(distribution.items()):
        print(f"    {degree:4} {entities:5} {'█' * round(40 * entities / max(distribution.values()))}")
    if importlib.util.find_spec("matplotlib") is None:
        print("For a plot: pip install 'easy-knowledge-retriever[notebook]'")
        return
    draw(distribution, plot)
    print(f"The plot is in {plot}.")


def _most(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in Counter(counts).most_common(8)) or "none"


def draw(distribution: Mapping[int, int], target: Path) -> None:
    """Writes the degree distribution as a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # an extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    axes.bar(list(distribution), list(distribution.values()), color="#0072b2")
    axes.set_xlabel("relations an entity")
    axes.set_ylabel("entities")
    axes.set_title("Degree distribution")
    figure.savefig(target, dpi=120)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(WORKING_DIR, "degrees.png")))
